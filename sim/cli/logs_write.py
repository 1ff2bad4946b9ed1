"""``txnsim logs write``: log directories of a running simulator, through its control port."""

from __future__ import annotations

import argparse
import json
import tarfile
from http.client import HTTPResponse
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from sim.cli.output import print_json, print_line, warn
from sim.cli.parsing import MISUSE_STATUS

DESCRIPTION: Final = (
    "Write the log directory of each broker of a running simulator as DIR/broker-ID"
    ", as a broker leaves it that stops in order. Nothing is written over."
)
URL: Final = "http://127.0.0.1:9080"
TIMEOUT_SECONDS: Final = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``logs write`` takes."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="where to; made if need be")
    parser.add_argument(
        "--url", default=URL, help=f"the simulator's control port, `serve --http` (default: {URL})"
    )
    parser.add_argument(
        "--broker",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="only this broker; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="what was written as JSON")


def run(args: argparse.Namespace) -> int:
    """Write them; returns the exit status."""
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
