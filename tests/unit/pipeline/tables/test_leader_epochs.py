"""Leader epochs as rows."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_tables import broker_dir, segment, table
from tests.support.logs import plain
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_leader_epochs


def test_epochs_are_rows_in_order(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    path = tmp_path / "orders-0" / names.LEADER_EPOCHS_NAME
    path.write_text(encode_leader_epochs([(0, 0), (3, 12)]))
    assert table(tmp_path, "leader_epochs") == [
        {
            "log_dir": str(tmp_path),
            "broker": 1,
            "topic": "orders",
            "partition": 0,
            "leader_epoch": epoch,
            "start_offset": offset,
        }
        for epoch, offset in ((0, 0), (3, 12))
    ]


def test_without_the_file_or_with_a_damaged_one_there_are_none(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    assert table(tmp_path, "leader_epochs") == []
    (tmp_path / "orders-0" / names.LEADER_EPOCHS_NAME).write_bytes(b"0\n1\n\xff")
    assert table(tmp_path, "leader_epochs") == []
