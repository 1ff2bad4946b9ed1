"""The command ``txnsim``: it finds the subcommand and runs it.

Only the chosen command is imported, so that ``txnsim --help`` takes little more than Python's
start. A command is a module with ``add_arguments(parser)`` and ``run(args) -> int``; one that
accepts other spellings, or values from the environment, also has ``rewrite(arguments)``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from txnsim import TXNSIM
from txnsim.cli.commands import add_examples, commands, groups, table_of
from txnsim.cli.output import FILE_WITHOUT_NAME, TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS, CommandParser, columns
from txnsim.environment_variables import unknown_variables
from txnsim.files import NO_ROOM, advice
from txnsim.on_demand_imports import missing

CONVENIENCES: Final = ("hypothesis", "rich")
"""Packages that kio and structlog import if installed. No command needs them, and they take as long
to import as everything else.
"""

INTERRUPTED_STATUS: Final = 130
"""128 + SIGINT, as shells report it."""
OPTIMIZED: Final = (
    "refusing to run under python -O or PYTHONOPTIMIZE: without its asserts a bug of ours"
    " would pass for Kafka's behaviour. Start it without."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status.
    """
    if not __debug__:
        TERMINAL.complain(OPTIMIZED)
        return 1
    _open_standard_files()
    if argv is None:
        _leave_out_conveniences()
        gc.disable()  # modules stay, so there is nothing to collect while they are imported
    arguments = list(sys.argv[1:] if argv is None else argv)
    command_name = _first_word(arguments)
    module = (
        _load_command(command_name)
        if command_name is not None and table_of(command_name) is not None
        else None
    )
    problem = unknown_variables(os.environ)
    if problem is not None and module is not None:
        TERMINAL.complain(problem)
        return MISUSE_STATUS
    rewrite = getattr(module, "rewrite", None)
    try:
        arguments = arguments if rewrite is None else rewrite(arguments)
    except ValueError as error:
        TERMINAL.complain(str(error))
        return MISUSE_STATUS
    try:
        args = _build_parser(command_name, module).parse_args(arguments)
    except SystemExit as end:  # argparse ends the process: after --help, --version or a misuse
        return end.code if isinstance(end.code, int) else 0
    if module is None:
        _build_parser(None, None).print_help()
        return MISUSE_STATUS
    return _run_command(module, args)


def _open_standard_files() -> None:
    """Open standard files that are closed (``>&-``), so that no socket gets their numbers: libuv
    aborts a process that closes such a socket. Python then has no stream and prints nothing.
    """
    for file_descriptor in range(3):
        try:
            os.fstat(file_descriptor)
        except OSError:
            opened_descriptor = os.open(os.devnull, os.O_RDWR)
            if opened_descriptor != file_descriptor:
                os.dup2(opened_descriptor, file_descriptor)
                os.close(opened_descriptor)
    for stream_name in ("stdout", "stderr"):
        if getattr(sys, stream_name) is None:
            setattr(sys, stream_name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as we


def _leave_out_conveniences() -> None:
    """Make these packages look uninstalled to the imports of this process."""
    for module_name in CONVENIENCES:
        sys.modules.setdefault(module_name, None)  # type: ignore[arg-type] # refuses the import


def _first_word(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _command_row(command_name: str) -> tuple[str, str]:
    table = table_of(command_name)
    assert table is not None
    return table.commands[command_name]


def _load_command(command_name: str) -> ModuleType:
    return importlib.import_module(_command_row(command_name)[0])


def parser_of(command_name: str) -> CommandParser:
    return _build_parser(command_name, _load_command(command_name))


class _CommandParser(CommandParser):
    """The parser of the first level, which knows the commands of the other levels."""

    def format_help(self) -> str:
        group_lines = "\n\n".join(
            f"{group_title}:\n{_command_lines(command_names)}"
            for group_title, command_names in groups().items()
        )
        self.description = (
            "A simulator of a Kafka cluster for transactions: real clients, real states,"
            f" faults on demand.\n\n{group_lines}"
        )
        return super().format_help()

    def _command_elsewhere(self, name: str) -> str | None:
        from txnsim.cli._completion import levels

        matching_paths = [path for path in levels() if path.endswith(f" {name}")]
        if matching_paths:
            suggestions = " or ".join(f"`txnsim {owner_path}`" for owner_path in matching_paths)
            return f"no command {name!r}; did you mean {suggestions}?"
        missing_packages = missing()
        if not missing_packages:
            return None
        return (
            f"no command {name!r}; {' and '.join(missing_packages)}, with more commands,"
            f" are not installed"
        )

    def _unknown_option(self) -> str | None:
        """None for an unknown command, because its options are not mistakes of this level."""
        command_name = _first_word(self._given_arguments)
        return (
            None
            if command_name is not None and table_of(command_name) is None
            else super()._unknown_option()
        )


def _build_parser(chosen_command: str | None, module: ModuleType | None) -> CommandParser:
    """The argument tree: all commands, or only the chosen one."""
    parser = _CommandParser(
        prog="txnsim",
        usage="txnsim [-h] [--version] COMMAND ...",
        epilog="`txnsim COMMAND --help` shows what a command takes, with examples.\n\nexamples:\n"
        "  txnsim serve --topic orders:3 --http\n"
        "  txnsim txns --bootstrap-server localhost:9092 list",
    )
    parser.add_argument("--version", action="version", version=TXNSIM, help="print the version")
    # Without a line of help a branch is not listed: the groups above list them.
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", prog="txnsim", parser_class=CommandParser,
        help=argparse.SUPPRESS,
    )  # fmt: skip
    for command_name in commands() if module is None else (chosen_command or "",):
        help_line = _command_row(command_name)[1]
        branch_parser = subparsers.add_parser(
            command_name, description=help_line[0].upper() + help_line[1:] + "."
        )
        if module is not None:
            module.add_arguments(branch_parser)
            add_examples(branch_parser, command_name)
    return parser


def _command_lines(command_names: Sequence[str]) -> str:
    """Commands with their lines of help, as argparse lists them."""
    import textwrap  # for help alone

    every_command = commands()
    name_width = max(map(len, every_command))
    indent = " " * (name_width + 6)
    width = columns() - 2
    return "\n".join(
        textwrap.fill(
            every_command[name][1],
            width,
            initial_indent=f"    {name:<{name_width}}  ",
            subsequent_indent=indent,
        )
        for name in command_names
    )


def _run_command(module: ModuleType, args: argparse.Namespace) -> int:
    # It knows kio's error codes: slow to import.
    from txnsim.errors import BadInputError, MissingExtraError, TxnsimError

    gc.enable()
    TERMINAL.begin()
    try:
        status: int = module.run(args)
        _print_failure(args, status)
        # Written here, where a reader that went away (`| head`) is still no bug.
        sys.stdout.flush()
    except (BadInputError, MissingExtraError) as error:
        TERMINAL.complain(str(error))
        return MISUSE_STATUS
    except TxnsimError as error:
        TERMINAL.complain(str(error))
        _print_failure(args, 1)
        return 1
    except KeyboardInterrupt:
        from txnsim.cli.progress import stop_sentence

        sentence = stop_sentence()
        TERMINAL.fail(sentence.removeprefix("txnsim: "), shown_text=sentence)
        _print_failure(args, INTERRUPTED_STATUS)
        return INTERRUPTED_STATUS
    except BrokenPipeError:
        # What Python would still flush at its end goes nowhere instead of failing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _complain_of_space(error)
        return 1
    return status


def _print_failure(args: argparse.Namespace, status: int) -> None:
    """With ``--json``, print ``{"error": …}`` for a command that started and has no result."""
    if status in (0, MISUSE_STATUS) or TERMINAL.has_result or not getattr(args, "json", False):
        return
    if TERMINAL.failure is not None:
        TERMINAL.json_line({"error": TERMINAL.failure})
    sys.stdout.flush()


def _complain_of_space(error: OSError) -> None:
    """Report a full disk; close standard output, so that Python's own flush cannot fail."""
    written_file = error.filename or f"{FILE_WITHOUT_NAME}: what was written is not whole"
    with contextlib.suppress(OSError):
        TERMINAL.complain(f"{written_file}: {error.strerror}{advice(error)}")
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
