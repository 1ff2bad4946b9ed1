"""LeaderEpochFileCache: where each leader epoch begins and ends."""

from __future__ import annotations

import pytest

from txnsim.log._epoch_cache import EpochCache


def cache(*entries: tuple[int, int]) -> EpochCache:
    made = EpochCache()
    for epoch, start in entries:
        made.assign(epoch, start)
    assert made.entries() == entries
    return made


@pytest.mark.parametrize(
    ("epoch", "start", "entries"),
    [
        (4, 30, ((1, 0), (2, 10), (4, 30))),
        (2, 15, ((1, 0), (2, 10))),  # known already
        (2, 10, ((1, 0), (2, 10))),
        (2, 5, ((1, 0), (2, 5))),  # began earlier than we thought
        (3, 10, ((1, 0), (3, 10))),  # the older epoch wrote nothing
        (3, 0, ((3, 0),)),
        (1, 20, ((1, 20),)),  # contradicts both
    ],
)
def test_assign(epoch: int, start: int, entries: tuple[tuple[int, int], ...]) -> None:
    known = cache((1, 0), (2, 10))
    known.assign(epoch, start)
    assert known.entries() == entries


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (7, (7, 50)),  # the latest ends at the log end
        (8, (-1, -1)),
        (1, (1, 5)),  # before the first known: where that one starts
        (2, (2, 10)),
        (3, (2, 10)),  # between: the largest known below
        (4, (4, 30)),
        (6, (4, 30)),
    ],
)
def test_end_offset_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    assert cache((2, 5), (4, 10), (7, 30)).end_offset_for(asked, log_end_offset=50) == answer


def test_an_empty_cache_knows_nothing() -> None:
    empty = cache()
    assert empty.latest == -1
    assert empty.end_offset_for(0, log_end_offset=5) == (-1, -1)
    assert empty.epoch_of(0) == -1
    empty.drop_before(5)
    assert empty.entries() == ()


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 2), (9, 2), (10, 4), (99, 7)])
def test_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert cache((2, 5), (4, 10), (7, 30)).epoch_of(offset) == epoch


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(31, ((2, 5), (4, 10), (7, 30))), (30, ((2, 5), (4, 10))), (10, ((2, 5),)), (0, ())],
)
def test_truncation_drops_what_begins_at_or_above(
    offset: int, entries: tuple[tuple[int, int], ...]
) -> None:
    known = cache((2, 5), (4, 10), (7, 30))
    known.truncate_to(offset)
    assert known.entries() == entries
    assert known.latest == (entries[-1][0] if entries else -1)


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (3, ((2, 5), (4, 10))),
        (5, ((2, 5), (4, 10))),
        (7, ((2, 7), (4, 10))),
        (10, ((4, 10),)),
        (12, ((4, 12),)),
    ],
)
def test_a_raised_log_start_cuts_the_epoch_that_spans_it(
    offset: int, entries: tuple[tuple[int, int], ...]
) -> None:
    known = cache((2, 5), (4, 10))
    known.drop_before(offset)
    assert known.entries() == entries
