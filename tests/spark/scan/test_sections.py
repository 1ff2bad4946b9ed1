"""Large segments in sections: where they are cut, and which of them can be judged apart. That the
answers stay the same is asked in forensics/test_segment_reading and
tests/spark/pipeline/test_damaged.
"""

from __future__ import annotations

from pathlib import Path
from struct import pack

import msgspec
import pytest

from tests.support.log_tables import broker_dir, overwrite, segment, write_dense_index
from tests.support.logs import plain
from txnsim.storage import names
from txnsim_spark.scan.examining import Examined
from txnsim_spark.scan.sections import Cut, cuts_of, in_sections, stands_alone
from txnsim_spark.scan.segments import Damage, Section, SegmentFile, replicas_in, segments_of

BATCH = len(plain(2))
CUTS = tuple(Cut(position=BATCH * at, offset=2 * at) for at in (2, 4, 6))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A segment of eight batches of two records, and its index."""
    made = segment(broker_dir(tmp_path) / "orders-0", [plain(2)] * 8)
    write_dense_index(made)
    return made


def found(path: Path) -> SegmentFile:
    (replica,) = replicas_in([path.parent.parent])
    return next(iter(segments_of(replica)))


def index_of(path: Path) -> Path:
    return path.with_suffix(names.INDEX_SUFFIX)


def test_a_segment_is_cut_where_batches_begin(path: Path) -> None:
    assert cuts_of(found(path), 2 * BATCH) == CUTS
    assert cuts_of(found(path), 5 * BATCH) == ()
    index_of(path).write_bytes(index_of(path).read_bytes() + bytes(4_000))  # of a living broker
    assert cuts_of(found(path), 2 * BATCH) == CUTS


def test_without_an_index_a_segment_stays_whole(path: Path) -> None:
    whole = found(path)
    index_of(path).unlink()
    assert in_sections([whole], BATCH) == [whole]


@pytest.mark.parametrize(
    "entries",
    [
        b"junk" * 50,
        b"",
        b"".join(pack(">ii", 2 * at + 1, BATCH * at + 7) for at in range(1, 8)),
        b"".join(pack(">ii", 2 * at + 9, BATCH * at) for at in range(1, 8)),
        b"".join(pack(">ii", 2 * at + 1, BATCH * (at + 8)) for at in range(1, 8)),
    ],
    ids=["junk", "empty", "within batches", "other offsets", "behind the end"],
)
def test_an_index_is_not_trusted(path: Path, entries: bytes) -> None:
    index_of(path).write_bytes(entries)
    assert cuts_of(found(path), 2 * BATCH) == ()


def test_no_section_begins_at_a_batch_that_is_not_sound(path: Path) -> None:
    overwrite(path, 4 * BATCH + BATCH - 1, b"!")
    cuts = cuts_of(found(path), 2 * BATCH)
    assert [one.offset for one in cuts] == [4, 10, 12]  # the next entry is taken


def test_offsets_ascend_from_cut_to_cut(path: Path) -> None:
    overwrite(path, 4 * BATCH, pack(">q", 1))
    overwrite(index_of(path), 3 * 8, pack(">ii", 2, 4 * BATCH))
    assert [one.offset for one in cuts_of(found(path), 2 * BATCH)] == [4, 10, 12]
    bounded = msgspec.structs.replace(found(path), next_base_offset=10)
    assert [one.offset for one in cuts_of(bounded, 2 * BATCH)] == [4]


def test_sections_are_the_segment_and_know_what_follows(path: Path) -> None:
    segment(path.parent, [plain()], base_offset=16)
    (replica,) = replicas_in([path.parent.parent])
    first, last = segments_of(replica)
    shared = in_sections([first, last], 2 * BATCH)
    assert shared[-1] == last  # it is small, and what lies before it was flushed
    sections = [one.section for one in shared[:-1]]
    assert [(one.start, one.first_offset, one.next_offset) for one in sections if one] == [
        (0, 0, 4),
        (2 * BATCH, 4, 8),
        (4 * BATCH, 8, 12),
        (6 * BATCH, 12, 16),
    ]
    assert [one.has_followers for one in sections if one] == [True, True, True, False]
    assert sum(one.unread_bytes for one in shared) == first.size + last.size
    # Behind the recovery point, damage in one of them ends all that follow.
    recovered = [msgspec.structs.replace(one, is_recovered=True) for one in (first, last)]
    sections = [one.section for one in in_sections(recovered, 2 * BATCH)]
    assert [one.has_followers for one in sections if one] == [True, True, True, False, False]


def test_small_segments_that_are_recovered_are_sections_where_they_are_much(path: Path) -> None:
    behind = [segment(path.parent, [plain()], base_offset=16 + at) for at in range(4)]
    (replica,) = replicas_in([path.parent.parent])
    files = [msgspec.structs.replace(one, is_recovered=True) for one in segments_of(replica)][1:]
    size = sum(one.size for one in files)
    assert in_sections(files, size) == files
    shared = in_sections(files, size - 1)
    assert [Path(one.path) for one in shared] == behind
    assert [one.section.start for one in shared if one.section] == [0] * 4


DAMAGE = Damage(position=9, size=1, kind="crc", reason="")


@pytest.mark.parametrize(
    ("what", "has_followers", "is_recovered", "alone"),
    [
        ({}, True, False, True),
        ({"damage": DAMAGE}, True, True, True),
        ({"damage": DAMAGE, "is_torn": True}, True, True, False),
        ({"damage": DAMAGE, "is_torn": True}, False, True, True),
        ({"damage": DAMAGE}, False, True, True),
        ({"damage": DAMAGE}, False, False, False),
        ({"odd_controls": ((9, 7),)}, True, False, False),
        ({"odd_controls": ((9, 7),)}, False, False, True),
        ({"lowest_offset": 3, "highest_offset": 7}, True, False, False),
        ({"lowest_offset": 4, "highest_offset": 8}, True, False, False),
        ({"lowest_offset": 4, "highest_offset": 7}, True, False, True),
    ],
)
def test_what_can_be_judged_apart(
    path: Path, what: dict[str, object], *, has_followers: bool, is_recovered: bool, alone: bool
) -> None:
    whole = msgspec.structs.replace(found(path), is_recovered=is_recovered)
    section = Section(start=0, first_offset=4, next_offset=8, has_followers=has_followers)
    seen = msgspec.structs.replace(Examined(damage=None, damaged_offset=8, gaps=()), **what)
    assert stands_alone(whole, section, seen) is alone
