"""``txnsim exam readers``: topics and log directories with the answers that a reader must give."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import new_file, new_folder
from txnsim.errors import ConfigError
from txnsim.files import problem_of, write_all, write_whole

if TYPE_CHECKING:
    from txnsim_lab.exam.fixture_topics import Expected

EXPECTED: Final = "expected.json"
MISSED_STATUS: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``exam readers``."""
    from txnsim.cli.serving.long_running import LongRunning

    parts = parser.add_subparsers(dest="readers_part", metavar="COMMAND", required=True)
    serve = parts.add_parser("serve", description="Serve the topics until Ctrl-C.")
    serve.add_argument("--port", type=int, default=0, help="of the first of three brokers")
    serve.add_argument(
        "--expected", type=new_file, metavar="FILE", help="write what is expected there"
    )
    LongRunning.add_script_arguments(serve)
    write = parts.add_parser("write", description="Write the brokers' log directories.")
    write.add_argument("directory", type=new_folder, metavar="DIR", help="must not be there")
    check = parts.add_parser(
        "check", description="Hold what a reader says against what is expected."
    )
    check.epilog = "Exit status: 0 all is right, 1 something is not, 2 a file can't be read."
    check.add_argument(
        "expected", type=Path, metavar="EXPECTED", help="as serve and write wrote it"
    )
    check.add_argument("answers", type=Path, metavar="ANSWERS", help="JSON lines, a topic each")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: A file can't be read or written.
    """
    from txnsim_lab.simulation.play import quieten

    quieten()
    match args.readers_part:
        case "serve":
            asyncio.run(_serve(args))
        case "write":
            _write(args.directory)
        case _:
            return _check(args)
    return 0


async def _serve(args: argparse.Namespace) -> None:
    from txnsim.cli.serving.long_running import LongRunning
    from txnsim_lab.exam.readers import expected_topics, library

    stop = LongRunning.stop_of(args)
    topics = expected_topics(on_disk=False)
    async with library(port=args.port) as kafka:
        if args.expected is not None:
            write_whole(args.expected, _as_json(topics), error_prefix="--expected")
        facts = {"bootstrap": kafka.bootstrap, "topics": len(topics)}
        LongRunning.say_ready(args, facts)
        if args.json:
            TERMINAL.json(facts)
        else:
            TERMINAL.line(f"{len(topics)} topics at {kafka.bootstrap}; stop with Ctrl-C")
        await stop.wait()


def _write(directory: Path) -> None:
    from txnsim_lab.exam.readers import directories, expected_topics

    if directory.exists():
        raise ConfigError(f"{directory} exists already, and is not overwritten")
    files = asyncio.run(directories())
    write_all(directory, {**files, EXPECTED: _as_json(expected_topics(on_disk=True))})
    TERMINAL.line(
        f"{len(files)} files in {directory}; the expected answers are in {directory / EXPECTED}"
    )


def _check(args: argparse.Namespace) -> int:
    from txnsim_lab.exam.fixture_topics import Expected
    from txnsim_lab.exam.readers import Said, misses

    topics = _read(args.expected, tuple[Expected, ...])
    lines = _text(args.answers).splitlines()
    answers = [_decode(args.answers, line.encode(), Said) for line in lines if line.strip()]
    topic_misses = list(misses(topics, answers))
    for line in topic_misses:
        TERMINAL.line(line)
    TERMINAL.line(f"{len(topics)} topics, {len(topic_misses)} misses")
    return MISSED_STATUS if topic_misses else 0


def _as_json(topics: Sequence[Expected]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(topics), indent=1) + b"\n"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {problem_of(error)}") from None


def _read(path: Path, kind: Any) -> Any:
    return _decode(path, _text(path).encode(), kind)


def _decode(path: Path, line: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
