"""A replica read batch by batch: what is open, and what came to light."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, forget_the_end
from tests.support.logs import LogDriver, plain
from tests.support.old_messages import old_message
from txnsim.log.config import LogConfig
from txnsim.pipeline.forensics.read_here import ReadHere, read_here
from txnsim.pipeline.forensics.read_notes import Gap
from txnsim.pipeline.forensics.replica_state import notes_of, state_of
from txnsim.pipeline.scan.segments import replicas_in
from txnsim.releases.rules import LATEST
from txnsim.storage import names
from txnsim.wire.batch import iter_batches


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDir:
    """Producer 7 has a transaction open from offset 2 on."""
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=300))
    driver.txn(0)
    driver.end(committed=True)
    driver.txn(1)
    for _ in range(9):
        driver.append(plain())
    made = BrokerDir(tmp_path / "b")
    forget_the_end(made.replica(driver))
    return made


def read(broker: BrokerDir, *, clean: bool = False) -> ReadHere:
    log_dir = broker.stop() if clean else broker.kill()
    (replica,) = replicas_in([log_dir])
    return read_here(state_of(replica, notes_of(log_dir, print), print, use_snapshots=False))


def logs_in(broker: BrokerDir) -> list[Path]:
    return [path for _, path in names.numbered_files(broker.path / "orders-0", names.LOG_SUFFIX)]


def spoil(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("clean", [True, False])
def test_of_a_sound_replica_only_the_open_transaction_is_told(
    broker: BrokerDir, *, clean: bool
) -> None:
    found = read(broker, clean=clean)
    assert {pid: txn.start_offset for pid, txn in found.opened.items()} == {7: 2}
    notes = found.notes
    assert (notes.read_from, notes.gaps, notes.cut_off, notes.damage) == (0, (), None, ())


def test_a_wrong_crc_cuts_what_is_recovered_and_is_told_elsewhere(broker: BrokerDir) -> None:
    last = logs_in(broker)[-1]
    (position, header), *_ = iter_batches(last.read_bytes())
    spoil(last, position + header.size - 1)
    cut = read(broker).notes.cut_off
    assert cut is not None
    assert (cut.file, cut.position, cut.offset) == (str(last), 0, header.base_offset)
    told = read(broker, clean=True).notes
    assert told.cut_off is None
    assert told.damage == (
        f"{last}, byte 0: the batch of offset {header.base_offset} has another CRC",
    )


def test_a_missing_segment_is_a_gap(broker: BrokerDir) -> None:
    _, second, third, *_ = logs_in(broker)
    second.unlink()
    gap = Gap(first_offset=int(second.stem), next_offset=int(third.stem))
    assert read(broker).notes.gaps == (gap,)


def test_emptied_segments_are_gaps_up_to_the_last_one(broker: BrokerDir) -> None:
    *_, first, second, last = logs_in(broker)
    for path in (first, second, last):
        path.write_bytes(b"")
    starts = [int(path.stem) for path in (first, second, last)]
    gaps = [(gap.first_offset, gap.next_offset) for gap in read(broker).notes.gaps]
    assert gaps == list(pairwise(starts))


def test_a_torn_segment_that_no_kill_explains_is_damage(broker: BrokerDir) -> None:
    first, second, *_ = logs_in(broker)
    first.write_bytes(first.read_bytes()[:-3])
    notes = read(broker, clean=True).notes
    assert notes.cut_off is None
    assert len(notes.damage) == 1
    assert notes.gaps[0].next_offset == int(second.stem)


def test_messages_of_old_formats_leave_no_gap(broker: BrokerDir) -> None:
    first, second, *_ = logs_in(broker)
    count = int(second.stem)
    first.write_bytes(b"".join(old_message(offset % 2, offset) for offset in range(count)))
    notes = read(broker).notes
    assert (notes.gaps, notes.damage, notes.cut_off) == ((), (), None)
