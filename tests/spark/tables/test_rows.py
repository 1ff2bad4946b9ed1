"""Columns that are made where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from txnsim_spark.scan.segments import Replica, SegmentFile
from txnsim_spark.tables import rows as r

REPLICA = Replica(log_dir="/logs", broker=1, topic="orders", partition=2, path="/logs/orders-2")
SEGMENT = SegmentFile(replica=REPLICA, path="x", base_offset=7, next_base_offset=None, size=1)


class Pair(msgspec.Struct, frozen=True):
    """What a decoded table may be made of."""

    a: int
    b: str | None


def test_only_columns_of_the_schema_are_made() -> None:
    def never(kind: pa.DataType) -> pa.Array:
        raise AssertionError(kind)

    rows = r.Rows(2, {"a": r.same(5, 2), "b": never})
    schema = pa.schema([pa.field("a", pa.int32())])
    assert rows.in_schema(schema).to_pylist() == [{"a": 5}, {"a": 5}]


def test_a_place_is_the_same_in_all_rows() -> None:
    rows = r.Rows(2, r.of_segment(SEGMENT, 2))
    schema = pa.schema(
        [
            ("log_dir", pa.string()),
            ("broker", pa.int32()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("segment_base_offset", pa.int64()),
        ]
    )
    assert [tuple(row.values()) for row in rows.in_schema(schema).to_pylist()] == [
        ("/logs", 1, "orders", 2, 7)
    ] * 2


def test_numbers_words_and_nothing() -> None:
    numbers = np.array([3, -1, 9], dtype=np.int64)
    assert r.integers(numbers)(pa.int32()).to_pylist() == [3, -1, 9]
    assert r.integers(numbers, absent=numbers == 9)(pa.int64()).to_pylist() == [3, -1, None]
    assert r.not_negative(numbers)(pa.int64()).to_pylist() == [3, None, 9]
    assert r.truths(numbers > 0)(pa.bool_()).to_pylist() == [True, False, True]
    assert r.words(numbers, "abcd")(pa.string()).to_pylist() == ["d", None, None]
    for number, word in ((1, "b"), (-1, None), (4, None)):
        alike = np.full(2, number, dtype=np.int64)
        assert r.words(alike, "abcd")(pa.string()).to_pylist() == [word, word]
    assert r.words(numbers[:0], "abcd")(pa.string()).to_pylist() == []
    assert r.nothing(2)(pa.string()).to_pylist() == [None, None]
    assert r.same(None, 2)(pa.int32()).to_pylist() == [None, None]
    assert r.values(lambda: [b"x", None])(pa.binary()).to_pylist() == [b"x", None]


def test_structs_come_in_pieces_of_bounded_size() -> None:
    count = r.ROWS_MAX + 3

    def found() -> Iterator[Pair]:
        for number in range(count):
            yield Pair(number, None if number % 2 else "x")

    pieces = list(r.of_structs(found(), lambda size: {"topic": r.same("t", size)}))
    assert [piece.count for piece in pieces] == [r.ROWS_MAX, 3]
    schema = pa.schema([("b", pa.string()), ("a", pa.int64()), ("topic", pa.string())])
    assert pieces[1].in_schema(schema).to_pylist()[0] == {
        "b": "x" if r.ROWS_MAX % 2 == 0 else None,
        "a": r.ROWS_MAX,
        "topic": "t",
    }
    assert list(r.of_structs(iter(()), lambda _: {})) == []


def test_small_batches_are_put_together_up_to_a_bound() -> None:
    def of(*values: bytes) -> pa.RecordBatch:
        return pa.record_batch({"value": pa.array(values, pa.binary())})

    many, large = of(*[b"m"] * r.ROWS_MAX), of(b"l" * r.JOINED_BYTES_MAX)
    given = [of(b"a"), of(b"b", b"c"), many, of(b"d"), large, of(b"e"), of(b"f")]
    made = list(r.joined(given))
    assert [one.num_rows for one in made] == [3, r.ROWS_MAX, 1, 1, 2]
    assert pa.Table.from_batches(made) == pa.Table.from_batches(given)
    assert list(r.joined(())) == []
