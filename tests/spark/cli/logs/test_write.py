"""``txnsim logs write`` before a port that is no control port: it says so, and writes nothing."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Final

import pytest

from tests.support.hostile_brokers import Serve, answering, hostile_broker, resetting_after
from txnsim.cli.main import main
from txnsim.cli.parsing import MISUSE_STATUS

OK: Final = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
BROKERS: Final = OK + b'[{"id": 1}]'
LISTINGS: Final = {
    "noise": bytes(range(256)),
    "nothing": b"",
    "a page": OK + b"<html>hello</html>",
    "an object": OK + b"{}",
    "rows without an id": OK + b'[{"name": 1}]',
    "a path as an id": OK + b'[{"id": "/../../../outside"}]',
    "bytes that are no UTF-8": OK + b'[{"id": "\xff"}]',
    "much that is nested": OK + b"[" * 100_000,
    "fewer bytes than it says": b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[{"id"',
    "a status that is no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000,
    "a refusal of noise": b"HTTP/1.1 500 Bad\r\nConnection: close\r\n\r\n" + b"\x1b[2J\xff" * 9_000,
}
MEMBERS: Final = {
    "a name without a broker": ("readme.txt", tarfile.REGTYPE),
    "another broker": ("broker-2/orders-0/leader", tarfile.REGTYPE),
    "a name that is no number": ("broker-x/orders-0/leader", tarfile.REGTYPE),
    "a way out": ("broker-1/../../outside", tarfile.REGTYPE),
    "a path from the root": ("broker-1//outside", tarfile.REGTYPE),
    "a link": ("broker-1/link", tarfile.SYMTYPE),
    "a hard link": ("broker-1/link", tarfile.LNKTYPE),
    "a named pipe": ("broker-1/pipe", tarfile.FIFOTYPE),
    "a device": ("broker-1/device", tarfile.CHRTYPE),
}


def archive_of(name: str, kind: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    content = b"x" if kind == tarfile.REGTYPE else b""
    member.size = len(content)
    packed_bytes = io.BytesIO()
    with tarfile.open(fileobj=packed_bytes, mode="w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return OK + packed_bytes.getvalue()


@pytest.mark.parametrize("kind", LISTINGS)
def test_what_answers_no_list_of_brokers_is_no_control_port(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(answering(LISTINGS[kind]), tmp_path, capsys)


@pytest.mark.parametrize("kind", ["noise", "half a file", *MEMBERS])
def test_an_archive_of_something_else_leaves_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = {
        "noise": OK + bytes(range(256)) * 40,
        "half a file": archive_of("broker-1/orders-0/leader", tarfile.REGTYPE)[: len(OK) + 512],
    }
    content = archive.get(kind) or archive_of(*MEMBERS[kind])
    refuse(answering(BROKERS, content), tmp_path, capsys)


def test_an_archive_whose_connection_is_reset_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_length = BROKERS.replace(b"\r\n\r\n", b"\r\nContent-Length: 11\r\n\r\n")
    archive = archive_of("broker-1/orders-0/leader", tarfile.REGTYPE)
    for size in (len(OK), len(OK) + 600):
        refuse(resetting_after(with_length, archive[:size]), tmp_path, capsys)


def refuse(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with hostile_broker(serve) as address:
        status = main(["logs", "write", str(tmp_path / "a/b/c/out"), "--http", address])
    complaint = capsys.readouterr().err
    assert status == MISUSE_STATUS
    assert complaint.strip()
    assert "Traceback" not in complaint
    assert "\x1b" not in complaint
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]
    assert not (tmp_path / "outside").exists()
