from __future__ import annotations

from tests.support.stories import call, failure, seen, sentences, told, transaction
from txnsim_lab.check.observations import PositionsRead, Read

OPEN = [
    call("init-producer-id"),
    *transaction("r1"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r2"),
]


def read(**fields: object) -> dict[str, object]:
    return call("read", "reader", partition="t-0", **fields)


def test_a_reader_goes_on_from_where_it_stands_and_sees_what_it_may() -> None:
    steps = [
        *OPEN,
        read(reads=["r1"]),
        read(reads=[]),
        read(reads=["r1"], from_=0),
        read(reads=["r1", "r2"], uncommitted=True),
        call("abort"),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    assert "gets r1, and then nothing more, though the high watermark is 3" in sentences(result)
    assert {one.who for one in seen(result, Read)} == {"reader", "onlooker"}


def test_a_reader_that_gets_something_else_fails_the_story() -> None:
    result = told([*OPEN, read(reads=["r2"])])
    assert failure(result) == "reader reads r1 from t-0, expected r2"
    beyond = told([*OPEN, call("abort"), read(from_=77, error="OFFSET_OUT_OF_RANGE")])
    assert beyond.as_declared, beyond.verdict


def test_a_group_that_never_committed_stands_nowhere() -> None:
    ask = {"group": "g", "partitions": ["in-0"]}
    result = told([call("read-positions", "reader", **ask, positions={"in-0": -1})])
    assert result.as_declared, result.verdict
    (found,) = seen(result, PositionsRead)
    assert [(one.place.topic, one.offset) for one in found.positions] == [("in", -1)]
    wrong = told([call("read-positions", "reader", **ask, positions={"in-0": 3})])
    assert "expected" in wrong.verdict.because[0]


def test_positions_that_an_open_transaction_may_change_are_unstable() -> None:
    asked = {"group": "g", "partitions": "in-0"}
    steps = [
        call("init-producer-id"),
        call("begin"),
        call("add-offsets", group="g"),
        call("commit-offsets", group="g", offsets={"in-0": 10}),
        call("read-positions", "reader", **asked, positions={"in-0": -1}),
        call("read-positions", "reader", **asked, require_stable=True,
             error="UNSTABLE_OFFSET_COMMIT"),
        call("commit"),
        {"wait-until": {"marker": "__consumer_offsets@g"}},
        call("read-positions", "reader", **asked, require_stable=True, positions={"in-0": 10}),
    ]  # fmt: skip
    assert told(steps).as_declared


def test_a_reader_may_ask_for_few_bytes_at_a_time() -> None:
    steps = [call("init-producer-id"), *transaction("r1", "r2", "r3")]
    result = told([*steps, read(max_bytes=1, reads=["r1", "r2", "r3"])])
    assert result.as_declared, result.verdict
    records = [len(one.records) for one in seen(result, Read) if one.who == "reader"]
    assert records[:3] == [1, 1, 1]
