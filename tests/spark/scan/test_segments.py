"""Directories to segments and sections, and where reading begins."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, acts, on_file, segment_of
from tests.support.log_tables import (
    ORDERS,
    broker_dir,
    busy_log,
    overwrite,
    replica,
    segment,
    write_dense_index,
)
from tests.support.logs import plain
from tests.support.old_messages import old_message
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.replica_files import replica_files
from txnsim.types import TopicPartition
from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan import log_seek
from txnsim_spark.scan.log_dirs import LogDirectory, meta_of, topic_id_of
from txnsim_spark.scan.log_seek import (
    LookedUpBatch,
    SegmentTail,
    batches_at,
    last_batch_of,
    markers_in,
    tail_of,
)
from txnsim_spark.scan.sections import SectionCut, cuts_of, in_sections, stands_alone
from txnsim_spark.scan.segment_examination import SegmentExamination
from txnsim_spark.scan.segments import (
    UNKNOWN_BROKER,
    Replica,
    Section,
    SegmentDamage,
    SegmentFile,
    group_by_topic_id,
    log_dirs_in,
    replicas_in,
    segments_of,
)

# Which folders and files count.


UUID = "0123456789abcdef0123456789abcdef"


def folder(path: Path) -> Path:
    segment(path, [plain()])
    return path


def test_a_log_directory_has_its_replicas_in_order(tmp_path: Path) -> None:
    broker_dir(tmp_path, broker=3)
    for file_name in ("orders-10", "orders-2", "a-b.c_d-0", "not a replica"):
        folder(tmp_path / file_name)
    replicas = replicas_in([tmp_path])
    assert [(replica.topic, replica.partition, replica.broker) for replica in replicas] == [
        ("a-b.c_d", 0, 3),
        ("orders", 2, 3),
        ("orders", 10, 3),
    ]
    assert replicas_in([tmp_path], frozenset({"a-b.c_d"})) == replicas[:1]
    assert {replica.log_dir for replica in replicas} == {str(tmp_path)}


def test_a_foreign_folder_is_a_problem_where_it_may_be_of_an_asked_topic(tmp_path: Path) -> None:
    for file_name in ("orders-0", "orders-0.copy", "pay-0"):
        folder(broker_dir(tmp_path) / file_name)
    for topics, is_problem in (
        (frozenset[str](), True),
        (frozenset({"orders", "pay"}), True),
        (frozenset({"pay"}), False),
    ):
        problems: list[str] = []
        replicas_in([tmp_path], topics, problems.append)
        assert [f"{tmp_path / 'orders-0.copy'}" in problem for problem in problems] == (
            [True] if is_problem else []
        )


def test_a_folder_of_several_log_directories_is_looked_through(tmp_path: Path) -> None:
    for broker in (1, 2):
        folder(broker_dir(tmp_path / f"broker-{broker}", broker=broker) / "orders-0")
    (tmp_path / "notes").mkdir()
    assert [replica.broker for replica in replicas_in([tmp_path])] == [1, 2]
    assert log_dirs_in([tmp_path]) == (tmp_path / "broker-1", tmp_path / "broker-2")


def test_a_copy_without_meta_properties_is_a_log_directory_of_nobody(tmp_path: Path) -> None:
    folder(tmp_path / "orders-0")
    (replica,) = replicas_in([tmp_path])
    assert replica.broker == UNKNOWN_BROKER


def test_a_replica_s_folder_can_be_named_itself(tmp_path: Path) -> None:
    folder(broker_dir(tmp_path, broker=5) / "orders-0")
    folder(tmp_path / "orders-1")
    (replica,) = replicas_in([tmp_path / "orders-1"])
    assert (replica.topic_partition, replica.broker) == (TopicPartition("orders", 1), 5)
    assert log_dirs_in([tmp_path / "orders-1"]) == (tmp_path,)


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_what_a_broker_does_not_serve_is_read_only_where_it_is_named(
    tmp_path: Path, suffix: str
) -> None:
    broker_dir(tmp_path)
    going_directory = folder(tmp_path / f"orders-0.{UUID}-{suffix}")
    assert replicas_in([tmp_path]) == ()
    (replica,) = replicas_in([going_directory])
    assert replica.topic_partition == ORDERS


def test_the_layout_of_local_tiered_storage_is_read(tmp_path: Path) -> None:
    topic_id, segment_id = "LWgrMmVrT0a__7a4SasuPA", "o8CQPT86QQmbFmi3xRmiHA"
    folder = tmp_path / f"pay-2-orders-10-{topic_id}"
    folder.mkdir()
    endings = ("log", "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint")
    for offset in (0, 11):
        for ending in endings:
            (folder / f"{offset:020}-{segment_id}.{ending}").touch()
    for path in (tmp_path, folder):
        (replica,) = replicas_in([path])
        assert (replica.topic, replica.partition, replica.broker) == ("pay-2-orders", 10, -1)
        assert topic_id_of(Path(replica.path)) == topic_id
        segments = list(segments_of(replica))
        assert [(segment.base_offset, segment.next_base_offset) for segment in segments] == [
            (0, 11),
            (11, None),
        ]
        assert Path(segments[0].path).with_suffix(".timeindex").is_file()
    files = replica_files(folder)
    assert [segment.txn_index is not None and segment.has_index for segment in files.segments] == [
        True,
        True,
    ]
    assert files.snapshots == (), "they are those of the segments' ends"


def test_a_path_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    inner_folder = folder(broker_dir(tmp_path) / "orders-0")
    assert len(replicas_in([tmp_path, inner_folder, tmp_path])) == 1
    assert log_dirs_in([tmp_path, inner_folder]) == (tmp_path,)


def test_what_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no directory"):
        replicas_in([tmp_path / "nowhere"])
    with pytest.raises(BadInputError, match="holds no log directory"):
        replicas_in([tmp_path])
    with pytest.raises(BadInputError, match="holds no log directory"):
        log_dirs_in([tmp_path])


def test_an_empty_log_directory_is_one(tmp_path: Path) -> None:
    broker_dir(tmp_path)
    assert replicas_in([tmp_path]) == ()
    assert log_dirs_in([tmp_path]) == (tmp_path,)


def test_segments_come_in_order_and_know_where_they_end(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    (found_replica,) = replicas_in([tmp_path])
    segments = list(segments_of(found_replica))
    assert [segment.base_offset for segment in segments] == [
        segment.base_offset for segment in driver.log.local.segments
    ]
    assert [segment.next_base_offset for segment in segments] == [
        *(segment.base_offset for segment in segments[1:]),
        None,
    ]
    assert [segment.is_last for segment in segments] == [False] * (len(segments) - 1) + [True]
    assert sum(segment.size for segment in segments) == driver.log.local.segments.size_bytes
    assert {(segment.topic, segment.partition) for segment in segments} == {("orders", 0)}
    assert not any(segment.is_recovered for segment in segments)


def test_segments_with_offsets_behind_the_recovery_point_are_gone_through(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path, is_clean=False), busy_log())
    (found_replica,) = replicas_in([tmp_path])
    bases = [segment.base_offset for segment in segments_of(found_replica)]
    checkpoint_file = tmp_path / names.FileName.RECOVERY_POINTS
    checkpoint_file.write_text(encode_offsets({ORDERS: bases[2] - 1}))
    assert [segment.is_recovered for segment in segments_of(found_replica)] == [
        False,
        *[True] * (len(bases) - 1),
    ]
    checkpoint_file.write_text(encode_offsets({ORDERS: bases[2]}))
    assert [segment.is_recovered for segment in segments_of(found_replica)][:3] == [
        False,
        False,
        True,
    ]


def test_interrupted_compaction_is_finished_as_a_broker_would(tmp_path: Path) -> None:
    """``.swap`` files are done and replace what they cover, ``.cleaned`` ones are not done."""
    folder = broker_dir(tmp_path) / "orders-0"
    for base_offset, count in ((0, 3), (3, 3), (6, 1)):
        segment(folder, [plain(count)], base_offset=base_offset)
    swap = segment(folder, [plain(6)]).rename(folder / f"{0:020d}.log.swap")
    segment(folder, [plain()], base_offset=6).rename(folder / f"{6:020d}.log.cleaned")
    segment(folder, [plain()], base_offset=6)
    (replica,) = replicas_in([tmp_path])
    assert [segment.path for segment in segments_of(replica)] == [
        str(swap),
        str(folder / names.Suffix.LOG.file_name(6)),
    ]


def test_a_folder_without_segments_has_none(tmp_path: Path) -> None:
    (broker_dir(tmp_path) / "orders-0").mkdir()
    (replica,) = replicas_in([tmp_path])
    assert list(segments_of(replica)) == []


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        (("a", "a"), [("a", "a")]),
        (("a", None), [("a", None)]),
        ((None, None), [(None, None)]),
        (("b", "a", "b"), [("a",), ("b", "b")]),
        (("b", None, "a"), [(None,), ("a",), ("b",)]),
    ],
)
def test_replicas_of_one_topic_are_together(
    ids: tuple[str | None, ...], groups: list[tuple[str | None, ...]]
) -> None:
    assert list(group_by_topic_id(ids, lambda its: its)) == groups


# Large segments in sections: where they are cut, and which of them can be judged apart. That the
# answers stay the same is asked in forensics/test_segment_reading and
# tests/spark/pipeline/test_damaged.


BATCH = len(plain(2))
CUTS = tuple(
    SectionCut(position=BATCH * cut_number, offset=2 * cut_number) for cut_number in (2, 4, 6)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment of eight batches of two records, and its index."""
    log = segment(broker_dir(tmp_path) / "orders-0", [plain(2)] * 8)
    write_dense_index(log)
    return log


def segment_file_of(path: Path) -> SegmentFile:
    (replica,) = replicas_in([path.parent.parent])
    return next(iter(segments_of(replica)))


def index_of(path: Path) -> Path:
    return path.with_suffix(names.Suffix.INDEX)


def test_a_segment_is_cut_where_batches_begin(path: Path) -> None:
    assert cuts_of(segment_file_of(path), 2 * BATCH) == CUTS
    assert cuts_of(segment_file_of(path), 5 * BATCH) == ()
    index_of(path).write_bytes(index_of(path).read_bytes() + bytes(4_000))  # of a living broker
    assert cuts_of(segment_file_of(path), 2 * BATCH) == CUTS


def test_without_an_index_a_segment_stays_whole(path: Path) -> None:
    segment_file = segment_file_of(path)
    index_of(path).unlink()
    assert in_sections([segment_file], BATCH) == [segment_file]


@pytest.mark.parametrize(
    "entries",
    [
        b"junk" * 50,
        b"",
        b"".join(pack(">ii", 2 * number + 1, BATCH * number + 7) for number in range(1, 8)),
        b"".join(pack(">ii", 2 * number + 9, BATCH * number) for number in range(1, 8)),
        b"".join(pack(">ii", 2 * number + 1, BATCH * (number + 8)) for number in range(1, 8)),
    ],
    ids=["junk", "empty", "within batches", "other offsets", "behind the end"],
)
def test_an_index_is_not_trusted(path: Path, entries: bytes) -> None:
    index_of(path).write_bytes(entries)
    assert cuts_of(segment_file_of(path), 2 * BATCH) == ()


def test_no_section_begins_at_a_batch_that_is_not_sound(path: Path) -> None:
    overwrite(path, 4 * BATCH + BATCH - 1, b"!")
    cuts = cuts_of(segment_file_of(path), 2 * BATCH)
    assert [cut.offset for cut in cuts] == [4, 10, 12]  # the next entry is taken


def test_offsets_ascend_from_cut_to_cut(path: Path) -> None:
    overwrite(path, 4 * BATCH, pack(">q", 1))
    overwrite(index_of(path), 3 * 8, pack(">ii", 2, 4 * BATCH))
    assert [cut.offset for cut in cuts_of(segment_file_of(path), 2 * BATCH)] == [4, 10, 12]
    bounded_segment = msgspec.structs.replace(segment_file_of(path), next_base_offset=10)
    assert [cut.offset for cut in cuts_of(bounded_segment, 2 * BATCH)] == [4]


def test_sections_are_the_segment_and_know_what_follows(path: Path) -> None:
    segment(path.parent, [plain()], base_offset=16)
    (replica,) = replicas_in([path.parent.parent])
    first_segment, last_segment = segments_of(replica)
    all_sections = in_sections([first_segment, last_segment], 2 * BATCH)
    assert all_sections[-1] == last_segment  # it is small, and what lies before it was flushed
    sections = [segment.section for segment in all_sections[:-1]]
    assert [
        (section.start, section.first_offset, section.next_offset)
        for section in sections
        if section
    ] == [
        (0, 0, 4),
        (2 * BATCH, 4, 8),
        (4 * BATCH, 8, 12),
        (6 * BATCH, 12, 16),
    ]
    assert [section.has_followers for section in sections if section] == [True, True, True, False]
    assert (
        sum(segment.unread_bytes for segment in all_sections)
        == first_segment.size + last_segment.size
    )
    # Behind the recovery point, damage in one of them ends all that follow.
    recovered_segments = [
        msgspec.structs.replace(segment, is_recovered=True)
        for segment in (first_segment, last_segment)
    ]
    sections = [segment.section for segment in in_sections(recovered_segments, 2 * BATCH)]
    assert [section.has_followers for section in sections if section] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_small_segments_that_are_recovered_are_sections_where_they_are_much(path: Path) -> None:
    later_logs = [
        segment(path.parent, [plain()], base_offset=16 + later_log_number)
        for later_log_number in range(4)
    ]
    (replica,) = replicas_in([path.parent.parent])
    files = [
        msgspec.structs.replace(segment, is_recovered=True) for segment in segments_of(replica)
    ][1:]
    section_bytes = sum(file.size for file in files)
    assert in_sections(files, section_bytes) == files
    small_sections = in_sections(files, section_bytes - 1)
    assert [Path(segment.path) for segment in small_sections] == later_logs
    assert [segment.section.start for segment in small_sections if segment.section] == [0] * 4


DAMAGE = SegmentDamage(position=9, size=1, kind="crc", reason="")


@pytest.mark.parametrize(
    ("facts", "has_followers", "is_recovered", "is_alone"),
    [
        ({}, True, False, True),
        ({"damage": DAMAGE}, True, True, True),
        ({"damage": DAMAGE, "is_torn": True}, True, True, False),
        ({"damage": DAMAGE, "is_torn": True}, False, True, True),
        ({"damage": DAMAGE}, False, True, True),
        ({"damage": DAMAGE}, False, False, False),
        ({"non_marker_controls": ((9, 7),)}, True, False, False),
        ({"non_marker_controls": ((9, 7),)}, False, False, True),
        ({"lowest_offset": 3, "highest_offset": 7}, True, False, False),
        ({"lowest_offset": 4, "highest_offset": 8}, True, False, False),
        ({"lowest_offset": 4, "highest_offset": 7}, True, False, True),
    ],
)
def test_what_can_be_judged_apart(
    path: Path, facts: dict[str, object], *, has_followers: bool, is_recovered: bool, is_alone: bool
) -> None:
    segment_file = msgspec.structs.replace(segment_file_of(path), is_recovered=is_recovered)
    section = Section(start=0, first_offset=4, next_offset=8, has_followers=has_followers)
    examined_segment = msgspec.structs.replace(
        SegmentExamination(damage=None, damaged_offset=8, gaps=()), **facts
    )
    assert stands_alone(segment_file, section, examined_segment) is is_alone


# ``seek``: The compiled walk of a search finds what a walk batch by batch finds, in damaged
# segments too.


LookUpResult = tuple[
    dict[int, LookedUpBatch], list[tuple[int, int]], BatchHeader | None, list[SegmentTail]
]


def read_facts(path: Path) -> LookUpResult:
    """The results of all lookups in a segment without an index."""
    replica = Replica(log_dir="b", broker=1, topic="orders", partition=0, path=str(path.parent))
    segment = SegmentFile(
        replica=replica,
        path=str(path),
        base_offset=0,
        next_base_offset=None,
        size=path.stat().st_size,
    )
    recovered_segment = msgspec.structs.replace(segment, is_recovered=True)
    return (
        batches_at(segment, range(0, 40, 3)),
        list(markers_in(segment, 4)),
        last_batch_of(segment),
        [tail_of(segment), tail_of(recovered_segment)],
    )


@pytest.mark.slow
@given(acts(), st.integers(0, 30), st.data())
def test_both_walks_find_the_same(
    act_history: list[Act], old_run_at: int, data_strategy: st.DataObject
) -> None:
    parts = (
        segment_of(act_history[:old_run_at]),
        segment_of(act_history[old_run_at:], base_offset=50),
    )
    old_batch = old_message(0, offset=45) if data_strategy.draw(st.booleans()) else b""
    data = bytearray(old_batch.join(parts))
    for _ in range(data_strategy.draw(st.integers(0, 2)) if data else 0):
        data[data_strategy.draw(st.integers(0, len(data) - 1))] = data_strategy.draw(
            st.integers(0, 255)
        )

    def check(path: Path) -> None:
        one_by_one = read_facts(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_seek, "INTERPRETED_BYTES_MAX", -1)
            assert read_facts(path) == one_by_one

    on_file(bytes(data), check)


# What the top of a log directory says, and what counts where it says nothing.


def test_everything_that_is_there_is_read(tmp_path: Path) -> None:
    broker_dir(tmp_path, broker=4)
    for file_name, offset in (
        (names.FileName.HIGH_WATERMARKS, 30),
        (names.FileName.RECOVERY_POINTS, 20),
        (names.FileName.LOG_STARTS, 10),
    ):
        (tmp_path / file_name).write_text(encode_offsets({ORDERS: offset}))
    log_directory = LogDirectory.read(tmp_path)
    assert log_directory.meta is not None
    assert (log_directory.meta.node_id, log_directory.meta.cluster_id) == (4, "a-cluster")
    assert log_directory.is_clean
    assert log_directory.high_watermarks == {ORDERS: 30}
    assert log_directory.recovery_points == {ORDERS: 20}
    assert log_directory.log_starts == {ORDERS: 10}


def test_what_is_missing_or_damaged_counts_as_not_told(tmp_path: Path) -> None:
    (tmp_path / names.FileName.META_PROPERTIES).write_bytes(b"\xff\xfe")
    (tmp_path / names.FileName.HIGH_WATERMARKS).write_text("nonsense")
    log_directory = LogDirectory.read(tmp_path)
    assert log_directory == LogDirectory(
        path=tmp_path,
        meta=None,
        is_clean=False,
        high_watermarks={},
        log_starts={},
        recovery_points=None,
        written_ms=log_directory.written_ms,
    )
    assert [file for file, _ in log_directory.written_ms] == [
        str(tmp_path / names.FileName.HIGH_WATERMARKS)
    ]
    assert meta_of(tmp_path / "nowhere") is None


def test_a_log_is_gone_through_from_its_recovery_point_on_unless_it_is_clean(
    tmp_path: Path,
) -> None:
    broker_dir(tmp_path, is_clean=False)
    (tmp_path / names.FileName.RECOVERY_POINTS).write_text(encode_offsets({ORDERS: 20}))
    assert LogDirectory.read(tmp_path).recovered_from(ORDERS, 90) == 20
    other_partition = TopicPartition("orders", 1)
    assert LogDirectory.read(tmp_path).recovered_from(other_partition, 90) == 0
    (tmp_path / names.FileName.CLEAN_SHUTDOWN).touch()
    assert LogDirectory.read(tmp_path).recovered_from(ORDERS, 90) is None


def test_a_copy_without_checkpoints_is_gone_through_in_its_last_segment(tmp_path: Path) -> None:
    assert LogDirectory.read(tmp_path).recovered_from(ORDERS, 90) == 90
