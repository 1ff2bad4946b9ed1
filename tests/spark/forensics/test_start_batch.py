"""What lies where a transaction begins, and what is missing behind it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import LogDriver, plain
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim.storage import names
from txnsim_spark.forensics._evidence import StartBatch
from txnsim_spark.forensics._read_notes import NOTHING_READ, Gap, ReadNotes
from txnsim_spark.forensics._start_batch import Lookups
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.forensics.verdicts import OpenTxn
from txnsim_spark.scan.segments import replicas_in

OPEN = OpenTxn(producer_id=7, producer_epoch=0, start_offset=2, last_timestamp_ms=0)


def state_in(log_dir: Path) -> ReplicaState:
    (replica,) = replicas_in([log_dir])
    return state_of(replica)


def start_batch_of(state: ReplicaState, txn: OpenTxn) -> StartBatch:
    return Lookups(state, {txn.producer_id: txn}).start_batch_of(txn)


def gaps_behind(state: ReplicaState, notes: ReadNotes, start_offset: int) -> tuple[Gap, ...]:
    return Lookups(state, {}).gaps_behind(notes, start_offset)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Producer 7 has a transaction open from offset 2 to 4, over several segments."""
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=150))
    driver.txn(0)
    driver.end(committed=True)
    driver.txn(1)
    driver.append(plain())
    driver.txn(2)
    for _ in range(3):
        driver.append(plain())
    broker = BrokerDir(tmp_path / "b")
    broker.replica(driver)
    return broker.stop()


def logs_in(log_dir: Path) -> list[Path]:
    return [path for _, path in names.numbered_files(log_dir / "orders-0", names.LOG_SUFFIX)]


def test_the_batch_of_the_producer_is_there(log_dir: Path) -> None:
    assert start_batch_of(state_in(log_dir), OPEN) is StartBatch.THIS_PRODUCERS


@pytest.mark.parametrize(
    "values", [{"producer_id": 8}, {"start_offset": 1}, {"start_offset": 5}], ids=str
)
def test_another_batch_is_not_the_producers(log_dir: Path, values: dict[str, int]) -> None:
    other = msgspec.structs.replace(OPEN, **values)
    assert start_batch_of(state_in(log_dir), other) is StartBatch.ANOTHERS


def test_behind_the_end_there_is_none(log_dir: Path) -> None:
    behind = msgspec.structs.replace(OPEN, start_offset=900)
    assert start_batch_of(state_in(log_dir), behind) is StartBatch.NOT_THERE


def test_of_a_deleted_beginning_the_last_batch_is_looked_at(log_dir: Path) -> None:
    first, second, *_ = logs_in(log_dir)
    first.unlink()
    second.unlink()
    state = state_in(log_dir)
    assert state.ends.log_start_offset == 4
    assert start_batch_of(state, OPEN) is StartBatch.DELETED
    other = msgspec.structs.replace(OPEN, producer_id=99)
    assert start_batch_of(state, other) is StartBatch.NOT_THERE


def test_missing_segments_leave_gaps(log_dir: Path) -> None:
    assert gaps_behind(state_in(log_dir), NOTHING_READ, 2) == ()
    missing = logs_in(log_dir)[-2]
    following = int(logs_in(log_dir)[-1].stem)
    missing.unlink()
    gap = Gap(first_offset=int(missing.stem), next_offset=following)
    assert gaps_behind(state_in(log_dir), NOTHING_READ, 2) == (gap,)
    assert gaps_behind(state_in(log_dir), NOTHING_READ, following) == ()


def test_what_was_read_is_not_looked_up_again(log_dir: Path) -> None:
    gap = Gap(first_offset=5, next_offset=6)
    notes = ReadNotes(read_from=0, gaps=(Gap(first_offset=1, next_offset=2), gap))
    assert gaps_behind(state_in(log_dir), notes, 2) == (gap,)
