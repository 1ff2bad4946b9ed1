"""``txnsim logs``: Kafka's log directories, written and read."""

from __future__ import annotations

import argparse
import json
import tarfile
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import msgspec

from sim.cli.output import format_table, print_json, print_line, progress, warn

if TYPE_CHECKING:
    from sim.storage.replica_summary import ReplicaSummary

MISUSE_STATUS: Final = 2
URL: Final = "http://127.0.0.1:9080"
TIMEOUT_SECONDS: Final = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs`` takes."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    write = commands.add_parser(
        "write",
        help="write the log directories of a running simulator, for kafka-dump-log or a broker",
        description="Write the log directory of each broker of a running simulator as DIR/broker-ID"
        ", as a broker leaves it that stops in order. Nothing is written over.",
    )
    write.add_argument("directory", type=Path, metavar="DIR", help="where to; made if need be")
    write.add_argument(
        "--url", default=URL, help=f"the simulator's control port, `serve --http` (default: {URL})"
    )
    write.add_argument(
        "--broker",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="only this broker; may be repeated",
    )
    write.add_argument("--json", action="store_true", help="what was written as JSON")
    describe = commands.add_parser(
        "describe",
        help="what lies in log directories: offsets, open transactions, torn tails",
        description="Read every replica in log directories of stopped brokers, or in copies of "
        "them, and tell its offsets, the transactions without an end, and where a segment stops "
        "making sense. An open transaction is not a hanging one yet: its coordinator may know it.",
    )
    describe.add_argument("directory", type=Path, nargs="+", metavar="DIR", help="a log directory")
    describe.add_argument(
        "--topic", action="append", default=[], help="only this topic; may be repeated"
    )
    describe.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    return _describe(args) if args.action == "describe" else _write_all(args)


# write


def _write_all(args: argparse.Namespace) -> int:
    if not args.url.startswith(("http://", "https://")):
        warn(f"txnsim: --url {args.url}: expected http://HOST:PORT")
        return MISUSE_STATUS
    try:
        brokers = args.broker or [one["id"] for one in json.load(_open(args.url, "brokers"))]
        written = [_write(args.url, broker, args.directory) for broker in brokers]
    except (HTTPError, URLError, OSError, tarfile.TarError) as error:
        warn(f"txnsim: {_told(error)}")
        return MISUSE_STATUS
    if args.json:
        print_json(written)
    else:
        for one in written:
            size, files = one["bytes"], one["files"]
            print_line(f"{one['directory']}: {files} files, {size} bytes")
    return 0


def _write(url: str, broker: int, directory: Path) -> dict[str, object]:
    """One broker's directory, as it arrives."""
    target = directory / f"broker-{broker}"
    target.mkdir(parents=True)
    files = size = 0
    with (
        _open(url, f"brokers/{broker}/log-dir") as answer,
        tarfile.open(fileobj=answer, mode="r|") as archive,
    ):
        for member in archive:
            archive.extract(member, target, filter="data")
            files += 1
            size += member.size
    return {"broker": broker, "directory": str(target), "files": files, "bytes": size}


def _open(url: str, path: str) -> HTTPResponse:
    answer = urlopen(f"{url.rstrip('/')}/api/v1/{path}", timeout=TIMEOUT_SECONDS)
    assert isinstance(answer, HTTPResponse)  # what a http URL is answered with
    return answer


# describe


def _describe(args: argparse.Namespace) -> int:
    """Every replica that is there, one line each; what is torn below."""
    from sim.storage.names import partition_directories
    from sim.storage.replica_summary import summarize

    found: list[ReplicaSummary] = []
    try:
        for log_dir in args.directory:
            for replica in partition_directories(log_dir):
                if not args.topic or replica.topic_partition.topic in args.topic:
                    progress(f"reading {replica.path}")
                    found.append(summarize(replica))
    except OSError as error:
        warn(f"txnsim: {error.filename}: {error.strerror}")
        return MISUSE_STATUS
    if args.json:
        print_json([msgspec.to_builtins(one) for one in found])
        return 0
    headers = ("Replica", "Segments", "Batches", "Bytes", "Offsets", "OpenTransactions")
    rows = [
        (
            one.directory,
            *(str(count) for count in (one.segments, one.batches, one.bytes)),
            f"{one.first_offset}-{one.end_offset}",
            ", ".join(f"{txn.producer_id}@{txn.first_offset}" for txn in one.open_transactions),
        )
        for one in found
    ]
    print_line(format_table(headers, rows).rstrip("\n"))
    for one in found:
        if one.torn is not None:
            print_line(
                f"{one.directory}/{one.torn_file}, byte {one.torn.position}: {one.torn.reason}; "
                f"a broker would cut off {one.torn.size} bytes"
            )
    return 0


def _told(error: Exception) -> str:
    """An error with what to do next."""
    match error:
        case HTTPError():
            return f"{error.url}: {error.read().decode(errors='replace') or error.reason}"
        case URLError():
            return f"no control port answers ({error.reason}); start one with `serve --http`"
        case FileExistsError():
            return f"{error.filename} is there already; name another directory"
        case OSError():
            return f"{error.filename}: {error.strerror}"
    return str(error)
