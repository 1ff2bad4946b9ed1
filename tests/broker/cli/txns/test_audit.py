"""The file in which repairs are written down."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path

import pytest

import txnsim.cli._txns.audit as audit_module
from tests.support.full_disk import little_room
from txnsim.cli._txns.audit import Audit
from txnsim.errors import ConfigError


def test_every_line_names_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    for number in range(2):
        with Audit(file, "abc") as audit:
            audit.write(number=number)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"cluster_id": "abc", "number": 0}, {"cluster_id": "abc", "number": 1}]


def test_where_nothing_will_be_done_nothing_is_written(tmp_path: Path) -> None:
    with Audit(None, "abc") as audit:
        audit.write(number=1)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing was done"):
        Audit(tmp_path / "no" / "file", "abc")


def test_a_line_that_has_no_room_is_not_there_in_part(tmp_path: Path) -> None:
    """A disk that is nearly full takes a part of a line, and says so by a count alone."""
    file = tmp_path / "audit.jsonl"
    with (
        Audit(file, "abc") as audit,
        little_room(file_bytes_max=20),
        pytest.raises(OSError, match=f"too large: '{file}'"),
    ):
        audit.write(number=1)
    assert file.read_bytes() == b""


def test_a_second_command_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "audit.jsonl"
    # Not capsys: what a thread writes while readouterr empties its buffer is lost.
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(audit_module, "warn", said.put)

    def second() -> None:
        with Audit(file, "abc") as audit:
            audit.write(who="second")

    with Audit(file, "abc") as audit:
        other = threading.Thread(target=second)
        other.start()
        assert "waiting for its end" in said.get(timeout=60)
        audit.write(who="first")
    other.join()
    assert [json.loads(line)["who"] for line in file.read_text().splitlines()] == [
        "first",
        "second",
    ]
