"""What is told of a bad record is made when it is asked for."""

from __future__ import annotations

from sys import getsizeof

import pytest

from txnsim.log.validation import RecordErrors, Refused


def many(count: int) -> RecordErrors:
    errors = RecordErrors(lambda refused: f"{refused.timestamp} {refused.key_size}")
    for index in range(count):
        errors.note(Refused(index * 2, 5 + index, -1, 3))
    return errors


def test_it_is_a_sequence_of_pairs() -> None:
    errors = many(3)
    wanted = ((0, "5 -1"), (2, "6 -1"), (4, "7 -1"))
    assert errors == wanted
    assert errors == many(3)
    assert errors != wanted[:2]
    assert errors != 3
    assert hash(errors) == hash(many(3))
    assert (errors[-1], errors[:2], len(errors)) == (wanted[-1], wanted[:2], 3)
    with pytest.raises(IndexError):
        errors[3]
    assert not many(0)


def test_a_bad_record_takes_few_bytes() -> None:
    errors = many(100_000)
    arrays = (errors._indexes, errors._timestamps, errors._key_sizes, errors._value_sizes)
    assert sum(map(getsizeof, arrays)) < 100_000 * 24
