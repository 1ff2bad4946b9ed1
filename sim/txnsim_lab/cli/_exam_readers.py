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
from txnsim.files import problem_of, read_given, write_all, write_whole

if TYPE_CHECKING:
    from txnsim_lab.exam.fixture_topics import ExpectedReading

EXPECTED_FILE: Final = "expected.json"
MISSED_STATUS: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from txnsim.cli.serving.long_running import LongRunning

    subcommands = parser.add_subparsers(dest="readers_part", metavar="COMMAND", required=True)
    serve_parser = subcommands.add_parser("serve", description="Serve the topics until Ctrl-C.")
    serve_parser.add_argument("--port", type=int, default=0, help="of the first of three brokers")
    serve_parser.add_argument(
        "--expected", type=new_file, metavar="FILE", help="write what is expected there"
    )
    LongRunning.add_script_arguments(serve_parser)
    write_parser = subcommands.add_parser(
        "write", description="Write the brokers' log directories."
    )
    write_parser.add_argument("directory", type=new_folder, metavar="DIR", help="must not be there")
    check_parser = subcommands.add_parser(
        "check", description="Hold what a reader says against what is expected."
    )
    check_parser.epilog = "Exit status: 0 all is right, 1 something is not, 2 a file can't be read."
    check_parser.add_argument(
        "expected", type=Path, metavar="EXPECTED", help="as serve and write wrote it"
    )
    check_parser.add_argument(
        "answers", type=Path, metavar="ANSWERS", help="JSON lines, a topic each"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        ConfigError: A file can't be read or written.
    """
    from txnsim_lab.simulation.play import quieten

    quieten()
    match args.readers_part:
        case "serve":
            asyncio.run(_serve_topics(args))
        case "write":
            _write_directories(args.directory)
        case _:
            return _check_answers(args)
    return 0


async def _serve_topics(args: argparse.Namespace) -> None:
    from txnsim.cli.serving.long_running import LongRunning
    from txnsim_lab.exam.readers import cluster_with_fixture_topics, expected_topics

    stop_event = LongRunning.stop_of(args)
    topics = expected_topics(are_on_disk=False)
    async with cluster_with_fixture_topics(port=args.port) as kafka:
        if args.expected is not None:
            write_whole(args.expected, _topics_as_json(topics), error_prefix="--expected")
        ready_facts = {"bootstrap": kafka.bootstrap, "topics": len(topics)}
        LongRunning.say_ready(args, ready_facts)
        if args.json:
            TERMINAL.json(ready_facts)
        else:
            TERMINAL.line(f"{len(topics)} topics at {kafka.bootstrap}; stop with Ctrl-C")
        await stop_event.wait()


def _write_directories(directory: Path) -> None:
    from txnsim_lab.exam.readers import directories, expected_topics

    if directory.exists():
        raise ConfigError(f"{directory} exists already, and is not overwritten")
    files = asyncio.run(directories())
    write_all(
        directory, {**files, EXPECTED_FILE: _topics_as_json(expected_topics(are_on_disk=True))}
    )
    TERMINAL.line(
        f"{len(files)} files in {directory};"
        f" the expected answers are in {directory / EXPECTED_FILE}"
    )


def _check_answers(args: argparse.Namespace) -> int:
    from txnsim_lab.exam.fixture_topics import ExpectedReading
    from txnsim_lab.exam.readers import ReaderStatement, misses

    reader_topics = _read_json(args.expected, tuple[ExpectedReading, ...])
    if not reader_topics:
        raise ConfigError(f"{args.expected}: it expects nothing; `exam readers write` writes one")
    answer_lines = _read_text(args.answers).splitlines()
    statements = [
        _decode_json(args.answers, line.encode(), ReaderStatement)
        for line in answer_lines
        if line.strip()
    ]
    topic_misses = list(misses(reader_topics, statements))
    for line in topic_misses:
        TERMINAL.line(line)
    TERMINAL.line(f"{len(reader_topics)} topics, {len(topic_misses)} misses")
    return MISSED_STATUS if topic_misses else 0


def _topics_as_json(topics: Sequence[ExpectedReading]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(topics), indent=1) + b"\n"


def _read_text(path: Path) -> str:
    try:
        return read_given(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {problem_of(error)}") from None


def _read_json(path: Path, decoded_type: Any) -> Any:
    return _decode_json(path, _read_text(path).encode(), decoded_type)


def _decode_json(path: Path, json_bytes: bytes, decoded_type: Any) -> Any:
    try:
        return msgspec.json.decode(json_bytes, type=decoded_type)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
