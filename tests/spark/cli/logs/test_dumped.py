"""``txnsim logs dumped``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.spark.forensics.test_dumped import COORDINATOR, ORDERS, batch, entry, marker
from txnsim.cli.main import main
from txnsim_spark.cli.logs._dumped import LINE_CHARACTERS_MAX


def test_a_hanging_transaction_is_told_with_what_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition, coordinator = tmp_path / "orders.txt", tmp_path / "txn.txt"
    partition.write_text(ORDERS + batch(0))
    coordinator.write_text(COORDINATOR + entry("Empty"))
    assert main(["logs", "dumped", str(partition), str(coordinator)]) == 3
    assert capsys.readouterr().out.splitlines() == [
        "orders-0: 0 to 0, 1 batches, 0 commits, 0 aborts",
        "  open since offset 0: producer 7, epoch 3, last write 2026-11-26T22:43:03Z: hanging as"
        " far as the text goes: transactional id shop is Empty without this partition,"
        " so its coordinator will send no marker here.",
        "  once the brokers run: txnsim txns why orders 0",
        "transactional id shop: Empty, producer 7, epoch 3, no partition",
        "missing: Whether the dumped replicas of __transaction_state are whole: one that lags has"
        " an old state. Dump the leader's, and ask the brokers once they run.",
        "missing: High watermarks, and replicas that were not dumped: the text never has them.",
    ]


def test_a_line_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "endless.txt"
    file.write_text(ORDERS + "x" * (LINE_CHARACTERS_MAX + 1))
    assert main(["logs", "dumped", str(file)]) == 2
    assert f"{file}: a line has more than" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("x" * (LINE_CHARACTERS_MAX + 1)))
    assert main(["logs", "dumped", "-"]) == 2
    assert "the input: a line has more than" in capsys.readouterr().err


def test_text_comes_from_the_input_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(ORDERS + batch(0) + marker(1, "COMMIT")))
    assert main(["logs", "dumped", "--json", "-"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (partition["commits"], partition["open"]) == (1, [])


def test_a_snapshot_is_read_and_what_is_not_understood_never_means_that_nothing_hangs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # By a 3.1.2, of a partition that a 4.2.2 left behind in the middle of a transaction.
    file = tmp_path / "snapshot.txt"
    file.write_text(
        "Dumping /data/dd-0/00000000000000000005.snapshot\n"
        "producerId: 23 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: Some(3)"
        " lastTimestamp: 1795902893255 firstSequence: 0 lastSequence: 1 lastOffset: 4\n",
        encoding="utf-16",
    )
    assert main(["logs", "dumped", str(file)]) == 4
    output = capsys.readouterr().out
    assert "dd-0: producers before 5 (.snapshot), 0 batches" in output
    assert "open since offset 3: producer 23, epoch 0" in output
    file.write_text('Exception in thread "main" java.lang.OutOfMemoryError\n')
    assert main(["logs", "dumped", str(file)]) == 4
    assert "missing: No line `Dumping" in capsys.readouterr().out


def test_what_can_not_be_judged_has_its_status_and_a_file_that_is_not_there_is_a_misuse(
    tmp_path: Path,
) -> None:
    file = tmp_path / "orders.txt"
    file.write_text(ORDERS + batch(0))
    assert main(["logs", "dumped", str(file)]) == 4
    assert main(["logs", "dumped", str(tmp_path / "gone.txt")]) == 2
