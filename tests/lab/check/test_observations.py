from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Added,
    Isolation,
    Outcome,
    Position,
    PositionsRead,
    Read,
    Seen,
    Wrote,
)


def test_an_observation_knows_its_partition() -> None:
    wrote = Wrote(at_ms=1, who="p", topic="t", partition=2, value="r1")
    assert wrote.place == TopicPartition("t", 2)
    assert Position(topic="in", partition=1, offset=10).place == TopicPartition("in", 1)


def test_each_kind_has_a_name_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in get_args(Seen)]
    assert len(set(tags)) == len(tags)


def test_what_is_not_said_is_the_usual_case() -> None:
    text = b'{"seen":"wrote","at_ms":1,"who":"p","topic":"t","partition":0,"value":"r1"}'
    wrote = msgspec.json.decode(text, type=Seen)
    assert isinstance(wrote, Wrote)
    assert (wrote.outcome, wrote.transaction, wrote.offset) == (Outcome.OK, None, -1)
    assert msgspec.json.encode(wrote) == text
    read = Read(at_ms=1, who="r", topic="t", partition=0, asked=0, next_offset=0)
    assert read.isolation is Isolation.READ_COMMITTED


@pytest.mark.parametrize(
    "seen",
    [
        Added(at_ms=1, who="p", transaction="T1", partitions=(TopicPartition("t", 0),)),
        PositionsRead(
            at_ms=1, who="r", group="g", positions=(Position(topic="in", partition=0, offset=1),)
        ),
    ],
)
def test_nested_values_come_back_as_written(seen: Seen) -> None:
    assert msgspec.json.decode(msgspec.json.encode(seen), type=Seen) == seen


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `valeu`"):
        msgspec.json.decode(
            b'{"seen":"wrote","at_ms":1,"who":"p","topic":"t","partition":0,"valeu":"r1"}',
            type=Seen,
        )
