"""Arrays made of their buffers are those that pyarrow makes of the values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim_spark.tables import arrays

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=5)
TIMES = pa.timestamp("us", tz="UTC")
PLACES = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))
PLACE = st.fixed_dictionaries({"topic": st.none() | TEXT, "partition": st.none() | INT32})
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), INT32),
    (pa.int64(), INT64),
    (TIMES, st.integers(0, 2**50)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=5)),
    (pa.list_(pa.string()), st.lists(TEXT, max_size=3)),
    (pa.list_(pa.int32()), st.lists(st.none() | INT32, max_size=3)),
    (PLACES, st.lists(st.none() | PLACE, max_size=3)),
]


@given(st.data())
def test_values_are_those_of_pyarrow(data: st.DataObject) -> None:
    kind, one = data.draw(st.sampled_from(KINDS))
    found = data.draw(st.lists(st.none() | one, max_size=20))
    made = arrays.of_values(found, kind)
    made.validate(full=True)
    wanted = pa.array(found, kind)
    assert made.equals(wanted)
    assert made.null_count == wanted.null_count


@given(st.lists(st.tuples(INT32, st.booleans()), max_size=20))
def test_numbers_and_truths_are_those_of_pyarrow(rows: list[tuple[int, bool]]) -> None:
    # As the walk has them: every second number of a larger table.
    table = np.array([[number, 0] for number, _ in rows], dtype=np.int64).reshape(-1, 2)
    absent = np.array([flag for _, flag in rows], dtype=np.bool_)
    for kind in (pa.int32(), pa.int64()):
        wanted = pa.array(table[:, 0].astype(kind.to_pandas_dtype()), kind, mask=absent)
        assert arrays.of_numbers(table[:, 0], kind, absent=absent).equals(wanted)
    assert arrays.of_truths(absent, pa.bool_()).equals(pa.array(absent))
    assert arrays.of_truths(~absent, pa.bool_(), absent=absent).equals(
        pa.array(~absent, mask=absent)
    )


@given(st.lists(st.none() | INT64, max_size=20), st.integers(0, 20))
def test_numbers_come_back(found: list[int | None], start: int) -> None:
    wanted = [-1 if one is None else one for one in found]
    whole = pa.array(found, pa.int64())
    parts = pa.chunked_array([whole[:start], whole[start:]])
    assert arrays.numbers_in(whole[start:], absent=-1).tolist() == wanted[start:]
    assert arrays.numbers_in(parts, absent=-1).tolist() == wanted
    truths = pa.array([None if one is None else one > 0 for one in found], pa.bool_())
    assert arrays.numbers_in(truths, absent=-1).tolist() == [
        -1 if one is None else int(one > 0) for one in found
    ]


@given(st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=9))
def test_pieces_are_those_of_the_buffer(rows: list[tuple[bytes, bytes | None]]) -> None:
    buffer, begins = b"", []
    for between, piece in rows:
        begins.append(len(buffer + between))
        buffer += between + (piece or b"")
    sizes = np.array([-1 if piece is None else len(piece) for _, piece in rows], dtype=np.int64)
    whole, places = np.frombuffer(buffer, dtype=np.uint8), np.array(begins, dtype=np.int64)
    expected = [piece for _, piece in rows]
    made = arrays.of_pieces(whole, places, sizes, pa.binary())
    made.validate(full=True)
    assert made.to_pylist() == expected
    texts = [None if one is None else one.decode("utf-8", "replace") for one in expected]
    assert arrays.of_pieces(whole, places, sizes, pa.string()).to_pylist() == texts


@pytest.mark.parametrize("value", [5, None])
def test_one_value_stands_in_all_rows(value: int | None) -> None:
    assert arrays.repeated(value, 3, pa.int32()).equals(pa.array([value] * 3, pa.int32()))


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OverflowError):
        arrays.of_values([2**31], pa.int32())
    with pytest.raises(OverflowError):
        arrays.of_values([2**63], pa.int64())
    with pytest.raises(TypeError):
        arrays.of_values([7], pa.string())
    with pytest.raises(TypeError, match="no array of double"):
        arrays.of_values([0.5], pa.float64())
    monkeypatch.setattr(arrays, "_BYTES_MAX", 3)
    with pytest.raises(OverflowError, match="4 bytes"):
        arrays.of_values(["ab", "cd"], pa.string())
    with pytest.raises(OverflowError, match="4 bytes"):
        arrays.of_pieces(np.zeros(4, np.uint8), np.zeros(1), np.ones(1), pa.binary())


WITHOUT_PANDAS = """
import sys
import numpy as np
import pyarrow as pa
from txnsim_spark.tables import arrays
arrays.of_values([[{"a": "x"}], None], pa.list_(pa.struct([("a", pa.string())])))
arrays.repeated(5, 2, pa.int64())
arrays.of_numbers(np.arange(3), pa.int32())
arrays.of_pieces(np.frombuffer(b"abc", np.uint8), np.arange(2), np.array([1, -1]), pa.string())
assert "pandas" not in sys.modules
pa.array([1])
assert "pandas" in sys.modules, "then arrays may be made by pyarrow again"
"""


@pytest.mark.slow
def test_pandas_is_not_loaded() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)
