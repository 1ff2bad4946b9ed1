"""Parts that threads read at the same time come in their order, and no thread is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from txnsim_spark.read_ahead import read_ahead


def read_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "txnsim-read-ahead"]


@pytest.mark.parametrize("thread_count", [1, 2, 3, 8])
def test_items_come_in_the_order_of_the_readers(thread_count: int) -> None:
    readers = [lambda count=count: iter(range(count)) for count in (0, 5, 1, 20, 0, 3)]
    assert [*read_ahead(readers, thread_count)] == [
        (reader_number, item)
        for reader_number, count in enumerate((0, 5, 1, 20, 0, 3))
        for item in range(count)
    ]
    assert not read_threads()


def test_two_parts_are_read_at_the_same_time() -> None:
    read_barrier = threading.Barrier(2, timeout=60)

    def read() -> Iterator[int]:
        yield read_barrier.wait()  # raises if no other part is read

    assert len([*read_ahead([read, read], 2)]) == 2


@pytest.mark.parametrize("thread_count", [1, 2])
def test_an_error_comes_behind_the_items_before_it(thread_count: int) -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise ValueError("damaged")

    items = read_ahead([lambda: iter([0]), fail, lambda: iter(range(100))], thread_count)
    assert [next(items), next(items)] == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="damaged"):
        next(items)
    assert not read_threads()


def test_who_stops_to_ask_leaves_no_thread_behind() -> None:
    items = read_ahead([lambda: iter(range(1_000))] * 3, 2)
    assert next(items) == (0, 0)
    assert len(read_threads()) == 2
    items.close()
    assert not read_threads()


def test_one_reader_needs_no_thread() -> None:
    items = read_ahead([lambda: iter(range(3))], 4)
    assert next(items) == (0, 0)
    assert not read_threads()
