"""Whether a broker runs on a log directory."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_dirs import hold_directory
from txnsim.storage.lock import LOCK_NAME, is_in_use


def test_a_directory_is_in_use_while_a_broker_lives(tmp_path: Path) -> None:
    assert not is_in_use(tmp_path)
    with hold_directory(tmp_path):
        assert is_in_use(tmp_path)
    assert not is_in_use(tmp_path), "the file alone means nothing"


def test_it_is_enough_to_be_allowed_to_read(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).touch(mode=0o444)
    assert not is_in_use(tmp_path)
