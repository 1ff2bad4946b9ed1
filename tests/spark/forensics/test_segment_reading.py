"""Segments to open transactions: what is read, kept and passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from tests.support.broker_dirs import BrokerDir, move, remove_end_snapshot
from tests.support.engines import local_engine
from tests.support.log_tables import (
    PASSING_OVER,
    Row,
    broker_dir,
    busy_log,
    cut,
    logs_of,
    overwrite,
    segment,
    table,
    write_dense_index,
)
from tests.support.log_tables import replica as made_replica
from tests.support.logs import PID, LogDriver, batch, plain
from tests.support.old_messages import old_message
from tests.support.sampled_offsets import every
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.txn.state import Tombstone
from txnsim.types import TopicPartition, TransactionalId
from txnsim.wire.batch import assign, read_batch_header
from txnsim_spark.engine import EngineKind
from txnsim_spark.forensics._coordinator_log import replay_log
from txnsim_spark.forensics._evidence import StartBatch
from txnsim_spark.forensics._read_compiled import (
    ReplicaRead,
    log_job,
    replica_job,
    replica_read_of,
    section_key,
    walk_segments,
)
from txnsim_spark.forensics._read_notes import (
    NOTES_MAX,
    NOTHING_READ,
    Gap,
    Note,
    NoteKind,
    ReadNotes,
    damage_met_again,
)
from txnsim_spark.forensics._start_batch import StartBatchLookups
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.forensics.verdicts import OpenTxn
from txnsim_spark.scan.sections import in_sections
from txnsim_spark.scan.segments import SegmentFile, replicas_in, segments_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables import _fragments as fragments
from txnsim_spark.tables.rows import Rows, segment_columns

# The pass over segments that Spark's workers and this process share. It says what the tables
# ``fragments`` and ``errors`` say; damaged directories are in tests/spark/pipeline/test_damaged.


def batch_at(offset: int) -> bytes:
    """A batch of one record."""
    return assign(plain(), base_offset=offset, leader_epoch=3)


OLD = old_message(0, offset=1) + old_message(1, offset=2)


@pytest.mark.parametrize(
    ("old_messages", "next_offset", "gaps"),
    [
        ([plain(), OLD], 3, []),
        ([plain(), OLD], 5, [(3, 5)]),
        ([OLD], 5, [(3, 5)]),
        ([plain(), OLD, batch_at(3)], 4, []),
        ([plain(), OLD, batch_at(7)], 9, [(3, 7), (8, 9)]),
    ],
    ids=["whole", "old end", "all old", "old middle", "gap behind old messages"],
)
def test_gaps_behind_messages_of_old_formats(
    tmp_path: Path, old_messages: list[bytes], next_offset: int, gaps: list[tuple[int, int]]
) -> None:
    folder = broker_dir(tmp_path) / "orders-0"
    segment(folder, [])
    (folder / f"{0:020}.log").write_bytes(b"".join(old_messages))
    segment(folder, [plain()], base_offset=next_offset)
    (replica,) = replicas_in([tmp_path])
    notes = [
        segment for _, segment in walk_segments(segments_of(replica)) if isinstance(segment, Note)
    ]
    assert [(note.kind, note.from_offset, note.to_offset) for note in notes] == [
        (NoteKind.GAP, *gap) for gap in gaps
    ]


# In sections


def read_tasks(state: ReplicaState, tasks: Iterable[Iterable[SegmentFile]]) -> ReplicaRead:
    """The results of all tasks, merged."""
    return replica_read_of(
        state,
        [
            (section_key(segment), content)
            for task in tasks
            for segment, content in walk_segments(task)
        ],
    )


def both(log_dir: Path) -> tuple[ReplicaRead, ReplicaRead, int]:
    """The whole replica in one task, and each section in a task of its own, in any order; how many
    of these could not be judged apart.
    """
    (replica,) = replicas_in([log_dir])
    state = state_of(replica, uses_snapshots=False)
    small_sections = in_sections(state.unread_segments, 100)
    assert len(small_sections) > 2 * len(state.unread_segments)
    reread_count = sum(
        isinstance(content, Note) and content.kind is NoteKind.AGAIN
        for _, content in walk_segments(small_sections)
    )
    read_apart = read_tasks(state, ([segment] for segment in reversed(small_sections)))
    return read_tasks(state, [state.unread_segments]), read_apart, reread_count


def in_many_segments(log_dir: Path, *, is_clean: bool) -> list[Path]:
    folder = made_replica(broker_dir(log_dir, is_clean=is_clean), busy_log())
    for path in logs_of(folder):
        write_dense_index(path)
    return logs_of(folder)


@pytest.mark.parametrize("is_clean", [True, False])
def test_sections_tell_what_the_whole_tells(tmp_path: Path, *, is_clean: bool) -> None:
    paths = in_many_segments(tmp_path, is_clean=is_clean)
    whole_read, read_apart, reread_count = both(tmp_path)
    assert whole_read == read_apart
    assert whole_read.open_txn_by_producer
    assert not reread_count
    cut(paths[-1], paths[-1].stat().st_size - 3)  # as a killed broker leaves it
    whole_read, read_apart, reread_count = both(tmp_path)
    assert whole_read == read_apart
    assert reread_count == is_clean
    assert (whole_read.notes.cut_off is None) is is_clean


@pytest.mark.costly
@pytest.mark.slow
@every(11)
@pytest.mark.parametrize("is_clean", [True, False])
def test_one_flipped_bit_is_told_alike(tmp_path: Path, step: int, *, is_clean: bool) -> None:
    """Behind the recovery point what is read again is a segment whose batches do not end where the
    next section begins.
    """
    paths = in_many_segments(tmp_path, is_clean=is_clean)
    alike_count = reread_count = 0
    for path in paths[:1] + paths[-2:]:
        file_bytes = path.read_bytes()
        for position in range(0, len(file_bytes), step):
            overwrite(path, position, bytes([file_bytes[position] ^ 1 << position % 8]))
            whole_read, read_apart, twice = both(tmp_path)
            assert whole_read == read_apart, (path, position)
            alike_count += not twice
            reread_count += bool(twice)
        path.write_bytes(file_bytes)
    assert alike_count
    assert reread_count


@pytest.mark.slow
@every(101)
def test_of_a_replica_that_no_checkpoint_names_segments_are_tasks(
    tmp_path: Path, step: int
) -> None:
    """Its broker would go through all of it. Damage in one segment ends those behind it, which
    other tasks have read.
    """
    paths = in_many_segments(tmp_path, is_clean=False)
    (tmp_path / names.FileName.RECOVERY_POINTS).write_text("0\n0\n")
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica, uses_snapshots=False)
    assert all(segment.is_recovered for segment in state.unread_segments)
    assert len(state.unread_segments) > 3
    cuts = set()
    for path in paths:
        file_bytes = path.read_bytes()
        for position in range(0, len(file_bytes), step):
            overwrite(path, position, bytes([file_bytes[position] ^ 1 << position % 8]))
            whole_read, read_apart, _ = both(tmp_path)
            assert whole_read == read_apart, (path, position)
            cuts.add(whole_read.notes.cut_off and whole_read.notes.cut_off.file)
        path.write_bytes(file_bytes)
    assert cuts >= set(map(str, paths))


TOLD_KINDS = {"torn", "format", "length", "crc"}


def segments_in(path: Path) -> list[SegmentFile]:
    return [segment for replica in replicas_in([path]) for segment in segments_of(replica)]


def rows_and_notes(path: Path) -> tuple[list[Row], list[Note]]:
    """Rows of the table ``fragments``, and the notes on the segment."""
    schema = TABLES["fragments"].arrow()
    rows: list[Row] = []
    notes: list[Note] = []
    for file, content in walk_segments(segments_in(path)):
        if isinstance(content, Note):
            notes.append(content)
            continue
        columns = {**segment_columns(file, len(content)), **fragments.columns_of(content)}
        rows += Rows(len(content), columns).in_schema(schema).to_pylist()
    return rows, notes


Damage = Callable[[Path, int], None]
"""Of a segment, given where its second batch begins."""


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("damage", "is_told"),
    [
        (lambda _path, _position: None, {True: False, False: False}),
        (lambda path, position: cut(path, position + 20), {True: True, False: True}),
        (
            lambda path, position: overwrite(path, position + 8, b"\x7f\xff\xff\xff"),
            {True: True, False: True},
        ),
        (lambda path, position: overwrite(path, position + 16, b"\x07"), {True: True, False: True}),
        (lambda path, position: overwrite(path, position + 70, b"\x07"), {True: True, False: True}),
    ],
    ids=["sound", "torn", "length", "format", "crc"],
)
def test_what_two_tables_tell(
    tmp_path: Path, damage: Damage, is_told: dict[bool, bool], is_clean: bool
) -> None:
    folder = made_replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    first_log_file, *_ = logs_of(folder)
    damage(first_log_file, read_batch_header(first_log_file.read_bytes()).size)
    rows, notes = rows_and_notes(tmp_path)
    assert rows == table(tmp_path, "fragments", options=PASSING_OVER)
    # After an orderly stop no broker computes a CRC; only what was asked for is told.
    checked = table(tmp_path, "errors", options={"checkCrc": "true"})
    errors = [row for row in checked if row["kind"] in TOLD_KINDS]
    assert [
        (note.file, note.position, note.text, note.kind.value)
        for note in notes
        if note.kind is not NoteKind.GAP
    ] == [
        (row["file"], row["position"], row["reason"], "cut" if row["is_cut"] else "damage")
        for row in errors
    ]
    assert bool(errors) is is_told[is_clean]


def test_missing_offsets_are_told(tmp_path: Path) -> None:
    folder = made_replica(broker_dir(tmp_path), busy_log())
    _, second_log_file, *_ = logs_of(folder)
    second_log_file.write_bytes(b"")
    (gap_note,) = [
        segment for segment in rows_and_notes(tmp_path)[1] if segment.kind is NoteKind.GAP
    ]
    assert (gap_note.file, gap_note.from_offset) == (
        str(second_log_file),
        int(second_log_file.stem),
    )
    assert gap_note.to_offset > gap_note.from_offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_offsets_behind_a_tear_are_missing_where_the_log_goes_on(
    tmp_path: Path, is_clean: bool
) -> None:
    folder = made_replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    first_log_file, second_log_file, *_ = logs_of(folder)
    cut(first_log_file, first_log_file.stat().st_size - 3)
    gaps = [segment for segment in rows_and_notes(tmp_path)[1] if segment.kind is NoteKind.GAP]
    # After a crash all behind the tear is cut off: nothing is left that a gap could lie before.
    assert [gap_note.to_offset for gap_note in gaps] == (
        [int(second_log_file.stem)] if is_clean else []
    )


def test_a_segment_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    folder = made_replica(broker_dir(tmp_path), busy_log())
    segments = segments_in(tmp_path)
    for path in logs_of(folder):
        path.unlink()
    notes = [content for _, content in walk_segments(segments)]
    assert [(note.text, note.kind) for note in notes if isinstance(note, Note)] == [
        ("No such file or directory; passed by", NoteKind.DAMAGE)
    ] * len(segments)


# How replicas were left: what snapshots tell, and what is left to read.


@pytest.fixture
def driver() -> LogDriver:
    """A log of several segments; producer 7 has a transaction open since offset 4."""
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=300))
    log_driver.txn(0)
    log_driver.txn(0, producer_id=8)
    log_driver.end(committed=True)
    log_driver.end(committed=True, producer_id=8)
    log_driver.txn(1)
    for _ in range(6):
        log_driver.append(plain())
    return log_driver


@pytest.fixture
def broker(tmp_path: Path) -> BrokerDir:
    """A broker's log directory without a replica."""
    return BrokerDir(tmp_path / "b")


class ReplicaLook:
    """The state of the only replica of a log directory."""

    def __init__(self, log_dir: Path, *, uses_snapshots: bool = True) -> None:
        self.problems: list[str] = []
        (replica,) = replicas_in([log_dir])
        self.state: ReplicaState = state_of(
            replica, None, self.problems.append, uses_snapshots=uses_snapshots
        )

    @property
    def unread(self) -> list[int]:
        return [segment.base_offset for segment in self.state.unread_segments]

    @property
    def segments(self) -> list[int]:
        return [segment.base_offset for segment in self.state.segments]


def test_after_a_stop_in_order_nothing_is_left_to_read(
    broker: BrokerDir, driver: LogDriver
) -> None:
    broker.replica(driver)
    snapshot_look = ReplicaLook(broker.stop())
    state = snapshot_look.state
    assert (snapshot_look.unread, state.unread_bytes, snapshot_look.problems) == ([], 0, [])
    assert state.ends.end_offset == state.snapshot_offset == driver.log.log_end_offset
    assert state.ends.high_watermark == driver.log.high_watermark
    assert state.ends.epochs == ((0, 0),)
    assert {
        segment: seed_entry.txn_first_offset
        for segment, seed_entry in state.seed_by_producer.items()
    } == {7: 4}
    assert state.is_clean
    assert state.newest_ms == 0  # as the archive has it


def test_after_a_kill_the_segments_behind_the_last_snapshot_are_left(
    broker: BrokerDir, driver: LogDriver
) -> None:
    remove_end_snapshot(broker.replica(driver))
    snapshot_look = ReplicaLook(broker.kill())
    assert snapshot_look.unread == snapshot_look.segments[-1:]
    assert snapshot_look.state.snapshot_offset == snapshot_look.segments[-1]
    assert snapshot_look.state.ends.end_offset == driver.log.log_end_offset
    assert set(snapshot_look.state.seed_by_producer) == {7, 8}
    assert not snapshot_look.state.is_clean


def test_after_a_kill_what_a_broker_would_recover_is_read_whatever_snapshots_say(
    broker: BrokerDir, driver: LogDriver
) -> None:
    broker.replica(driver)
    assert ReplicaLook(broker.kill()).unread == [8]


def test_a_mark_without_a_snapshot_at_the_end_says_nothing(
    broker: BrokerDir, driver: LogDriver
) -> None:
    remove_end_snapshot(broker.replica(driver))
    snapshot_look = ReplicaLook(broker.stop())
    assert snapshot_look.unread == snapshot_look.segments[-1:]
    assert snapshot_look.state.ends.end_offset == driver.log.log_end_offset


def test_a_snapshot_inside_a_segment_is_of_no_use_after_a_kill(broker: BrokerDir) -> None:
    driver = LogDriver()
    driver.txn(0)
    replica = broker.replica(driver)
    driver.append(plain())
    (log, *_) = names.Suffix.LOG.files_in(replica)
    log[1].write_bytes(b"".join(driver.log.batches()))
    snapshot_look = ReplicaLook(broker.kill())
    assert (snapshot_look.unread, snapshot_look.state.snapshot_offset) == ([0], None)
    assert snapshot_look.state.ends.end_offset == 2


def test_a_snapshot_that_can_not_be_read_is_passed_over_and_told(
    broker: BrokerDir, driver: LogDriver
) -> None:
    replica = broker.replica(driver)
    *_, (_, last_snapshot_file) = names.Suffix.SNAPSHOT.files_in(replica)
    last_snapshot_file.write_bytes(b"\0\1nonsense...")
    snapshot_look = ReplicaLook(broker.stop())
    assert snapshot_look.unread == snapshot_look.segments[-1:]
    (problem_text,) = snapshot_look.problems
    assert problem_text.startswith(f"{last_snapshot_file}: a producer snapshot with CRC")
    assert problem_text.endswith("; an older one is taken")


def test_without_snapshots_every_segment_is_left(broker: BrokerDir, driver: LogDriver) -> None:
    broker.replica(driver)
    snapshot_look = ReplicaLook(broker.stop(), uses_snapshots=False)
    assert snapshot_look.unread == snapshot_look.segments
    assert (snapshot_look.state.seed_by_producer, snapshot_look.state.snapshot_offset) == (
        {},
        None,
    )


def test_an_empty_replica_is_read_to_its_end(broker: BrokerDir) -> None:
    broker.replica(LogDriver())
    snapshot_look = ReplicaLook(broker.stop())
    assert (snapshot_look.unread, snapshot_look.state.ends.end_offset) == ([], 0)


def test_a_replica_without_segments_is_empty(broker: BrokerDir) -> None:
    (broker.path / "orders-0").mkdir()
    snapshot_look = ReplicaLook(broker.stop())
    assert (
        snapshot_look.segments,
        snapshot_look.state.ends.end_offset,
        snapshot_look.state.newest_ms,
    ) == ([], 0, -1)
    assert (snapshot_look.state.ends.epochs, snapshot_look.state.ends.high_watermark) == (
        (),
        None,
    )


def test_the_log_starts_where_the_broker_noted_it(broker: BrokerDir, driver: LogDriver) -> None:
    broker.replica(driver)
    (broker.path / names.FileName.LOG_STARTS).write_text("0\n1\norders 0 3\n")
    assert ReplicaLook(broker.stop()).state.ends.log_start_offset == 3


@pytest.mark.parametrize("log_bytes", [b"nonsense\n", b"\xff\xfe"])
def test_notes_that_make_no_sense_are_told_and_left_out(
    broker: BrokerDir, driver: LogDriver, log_bytes: bytes
) -> None:
    replica = broker.replica(driver)
    broker.stop()
    (broker.path / names.FileName.HIGH_WATERMARKS).write_bytes(log_bytes)
    (replica / names.FileName.LEADER_EPOCHS).write_bytes(log_bytes)
    snapshot_look = ReplicaLook(broker.path)
    assert len(snapshot_look.problems) == 2
    assert (snapshot_look.state.ends.epochs, snapshot_look.state.ends.high_watermark) == (
        (),
        None,
    )


# Replicas and coordinators' logs are read alike wherever that is done; damaged directories are in
# tests/spark/pipeline/test_damaged.


def read_at_once(state: ReplicaState) -> ReplicaRead:
    return local_engine().results_of(replica_job([state], core_count=1), EngineKind.HERE)[
        state.replica.path
    ]


def test_it_finds_the_same(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True, coordinator_epoch=4)
    driver.txn(2)
    driver.txn(0, producer_id=99)
    broker_dir = BrokerDir(tmp_path / "broker-1", 1)
    broker_dir.replica(driver)
    broker_dir.stop()
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica, uses_snapshots=False)
    result_at_once = read_at_once(state)
    for way in (EngineKind.HERE, EngineKind.PROCESSES):
        read = local_engine().results_of(replica_job([state], core_count=2), way)
        assert read == {state.replica.path: result_at_once}
    assert sorted(result_at_once.open_txn_by_producer) == [PID, 99]
    assert result_at_once.open_txn_by_producer[PID].coordinator_epoch == 4


def test_records_without_a_time_are_read(tmp_path: Path) -> None:
    """-1 is Kafka's NO_TIMESTAMP. Damaged directories have other negative times
    (``record-time-negative``).
    """
    driver = LogDriver()
    driver.txn(0, timestamp=-1)
    driver.txn(1, timestamp=-1)
    broker_dir = BrokerDir(tmp_path / "broker-1", 1)
    broker_dir.replica(driver)
    broker_dir.kill()
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica, uses_snapshots=False)
    result_at_once = read_at_once(state)
    open_txn = result_at_once.open_txn_by_producer[PID]
    assert (open_txn.start_timestamp_ms, open_txn.last_timestamp_ms) == (-1, -1)


def test_coordinators_logs_are_replayed_in_processes_as_here(tmp_path: Path) -> None:
    orders_partition = TopicPartition("orders", 0)
    broker_dir = BrokerDir(tmp_path / "broker-1", 1)
    broker_dir.coordinator(
        move("Ongoing", orders_partition, producer_id=7),
        move("PrepareCommit", orders_partition, producer_id=7),
        move("CompleteCommit", producer_id=7),
        move("PrepareAbort", orders_partition, name="other", producer_id=8),
        move("Ongoing", orders_partition, name="gone", producer_id=9),
        Tombstone(transactional_id=TransactionalId("gone")),
    )
    log_dir = broker_dir.kill()
    (segment,) = log_dir.glob("__transaction_state-0/*.log")
    with segment.open("ab") as file:
        file.write(b"torn")
    (replica,) = replicas_in([log_dir])
    state = state_of(replica)
    (log_read,) = (
        local_engine().results_of(log_job([state], {7, 8, 9}), EngineKind.PROCESSES).values()
    )
    problems: list[str] = []
    assert log_read.replayed == replay_log(state, problems.append).restricted_to({7, 8, 9})
    assert log_read.problems == tuple(problems)
    committed_entry = next(
        entry for entry in log_read.replayed.entries if entry.newest_record.producer_id == 7
    )
    assert committed_entry.decision is log_read.replayed.decisions_by_producer[7][0]
    assert log_read.replayed.cut_off


@pytest.mark.parametrize("batches_per_segment", [1, 1_000])
def test_many_gaps_do_not_hide_the_last_one(tmp_path: Path, batches_per_segment: int) -> None:
    """A cleaned log is full of gaps; only one behind the transaction's beginning counts."""
    count = 2 * NOTES_MAX
    data = [assign(plain(), base_offset=2 * number, leader_epoch=0) for number in range(count)]
    begins = 2 * count - 1
    open_txn = batch(0, is_transactional=True)
    data.append(assign(open_txn, base_offset=begins, leader_epoch=0))
    data.append(assign(plain(), base_offset=begins + 9, leader_epoch=0))
    folder = tmp_path / "broker-1" / "orders-0"
    BrokerDir(tmp_path / "broker-1", 1).kill()
    folder.mkdir()
    for first_log in range(0, len(data), batches_per_segment):
        share = data[first_log : first_log + batches_per_segment]
        path = folder / names.Suffix.LOG.file_name(read_batch_header(share[0]).base_offset)
        path.write_bytes(b"".join(share))
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica)
    result_at_once = read_at_once(state)
    assert len(result_at_once.notes.gaps) == NOTES_MAX
    assert result_at_once.notes.gaps[-1] == Gap(first_offset=begins + 1, next_offset=begins + 9)
    assert result_at_once.open_txn_by_producer[PID].start_offset == begins


# What lies where a transaction begins, and what is missing behind it.


OPEN = OpenTxn(producer_id=7, producer_epoch=0, start_offset=2, last_timestamp_ms=0)


def state_in(log_dir: Path) -> ReplicaState:
    (replica,) = replicas_in([log_dir])
    return state_of(replica)


def start_batch_of(state: ReplicaState, txn: OpenTxn) -> StartBatch:
    return StartBatchLookups(state, {txn.producer_id: txn}).start_batch_of(txn)


def gaps_behind(state: ReplicaState, notes: ReadNotes, start_offset: int) -> tuple[Gap, ...]:
    return StartBatchLookups(state, {}).gaps_behind(notes, start_offset)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Producer 7 has a transaction open from offset 2 to 4, over several segments."""
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=150))
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
    return [path for _, path in names.Suffix.LOG.files_in(log_dir / "orders-0")]


def test_the_batch_of_the_producer_is_there(log_dir: Path) -> None:
    assert start_batch_of(state_in(log_dir), OPEN) is StartBatch.THIS_PRODUCERS


@pytest.mark.parametrize(
    "values", [{"producer_id": 8}, {"start_offset": 1}, {"start_offset": 5}], ids=str
)
def test_another_batch_is_not_the_producers(log_dir: Path, values: dict[str, int]) -> None:
    other_open_txn = msgspec.structs.replace(OPEN, **values)
    assert start_batch_of(state_in(log_dir), other_open_txn) is StartBatch.ANOTHERS


def test_behind_the_end_there_is_none(log_dir: Path) -> None:
    later_txn = msgspec.structs.replace(OPEN, start_offset=900)
    assert start_batch_of(state_in(log_dir), later_txn) is StartBatch.NOT_THERE


def test_of_a_deleted_beginning_the_last_batch_is_looked_at(log_dir: Path) -> None:
    first_log_file, second_log_file, *_ = logs_in(log_dir)
    first_log_file.unlink()
    second_log_file.unlink()
    state = state_in(log_dir)
    assert state.ends.log_start_offset == 4
    assert start_batch_of(state, OPEN) is StartBatch.DELETED
    other_open_txn = msgspec.structs.replace(OPEN, producer_id=99)
    assert start_batch_of(state, other_open_txn) is StartBatch.NOT_THERE


def test_missing_segments_leave_gaps(log_dir: Path) -> None:
    assert gaps_behind(state_in(log_dir), NOTHING_READ, 2) == ()
    missing_path = logs_in(log_dir)[-2]
    next_offset = int(logs_in(log_dir)[-1].stem)
    missing_path.unlink()
    gap = Gap(first_offset=int(missing_path.stem), next_offset=next_offset)
    assert gaps_behind(state_in(log_dir), NOTHING_READ, 2) == (gap,)
    assert gaps_behind(state_in(log_dir), NOTHING_READ, next_offset) == ()


def test_what_was_read_is_not_looked_up_again(log_dir: Path) -> None:
    gap = Gap(first_offset=5, next_offset=6)
    notes = ReadNotes(read_from=0, gaps=(Gap(first_offset=1, next_offset=2), gap))
    assert gaps_behind(state_in(log_dir), notes, 2) == (gap,)


# What came to light, in words.


def test_a_place_that_the_walk_met_too_is_known_once() -> None:
    notes = ReadNotes(damage=("/b/0.log, byte 9: a wrong CRC", "/b/0.log, byte 80: junk"))
    problems = (
        "/b/0.log, byte 9: another CRC",
        "/b/0.log, byte 80: junk",
        "/b/0.log, byte 90: another CRC",
        "/b/leader-epoch-checkpoint: a folder, not a file",
    )
    assert damage_met_again(problems, notes) == {problems[0]}
