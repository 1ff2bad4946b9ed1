from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, seen, told, transaction
from txnsim_lab.check.observations import Added, Ended, Initialised, SentOffsets, Wrote

INIT = call("init-producer-id")


def test_sequences_and_epochs_go_on_as_those_of_a_client_do() -> None:
    steps = [INIT, *transaction("r1", "r2"), *transaction("r3"), *transaction("r4", end="abort")]
    old = [(one.producer_epoch, one.sequence) for one in seen(told(steps), Wrote)]
    new = [(one.producer_epoch, one.sequence) for one in seen(told(steps, run="TV2"), Wrote)]
    assert old == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert new == [(0, 0), (0, 1), (1, 0), (2, 0)]


@pytest.mark.slow
def test_partitions_are_added_only_where_a_client_does() -> None:
    steps = [INIT, *transaction("r1")]
    assert len(seen(told(steps), Added)) == 1
    assert seen(told(steps, run="TV2"), Added) == []
    always = [INIT, call("begin"), call("add-partitions", partitions=["t-0", "t-1"], always=True)]
    (added,) = seen(told([*always, call("abort")], run="TV2"), Added)
    assert len(added.partitions) == 2


def test_an_identity_can_be_raised_and_a_producer_be_replaced() -> None:
    actors = {
        "P": {"plays": "wire", "transactional-id": "app"},
        "Q": {"plays": "wire", "transactional-id": "app", "transaction-timeout": "5s"},
    }
    steps = [
        INIT,
        call("init-producer-id", bump=True),
        call("init-producer-id", "Q"),
        call("begin"),
        call("add-partitions", partitions="t-0", once=True, error="PRODUCER_FENCED"),
        call("init-producer-id", producer_id=77, epoch=0, error="PRODUCER_FENCED"),
    ]
    result = told(steps, actors=actors)
    assert result.as_declared, result.verdict
    identities = [(one.producer_epoch, one.timeout_ms) for one in seen(result, Initialised)]
    assert identities == [(0, 60_000), (1, 60_000), (2, 5_000), (-1, 60_000)]


def test_what_is_unusual_can_be_said() -> None:
    """A batch with another epoch and sequence; one outside of the transaction; a batch of two."""
    steps = [
        INIT,
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", values=["a", "b"], key={"hex": "0001"}, item="x"),
        call("produce", partition="t-0", value="c", epoch=-1, error="any"),
        call("produce", partition="t-0", value="d", sequence=9, error="any"),
        call("commit"),
        call("produce", partition="t-1", value="e", plain=True, sequence=0),
    ]
    result = told(steps)
    wrote = {one.value: one for one in seen(result, Wrote)}
    assert (wrote["a"].item, wrote["b"].key, wrote["b"].sequence) == ("x", "\x00\x01", 1)
    assert wrote["d"].error == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert wrote["e"].transaction is None


def offsets(run: str) -> Any:
    steps = [
        INIT,
        call("begin", transaction="first"),
        call("add-offsets", group="g"),
        call("commit-offsets", group="g", offsets={"in-0": 7}),
        call("commit"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteCommit"}}},
        call("read-positions", "reader", group="g", partitions="in-0", positions={"in-0": 7}),
    ]
    return told(steps, run=run)


def test_positions_are_part_of_a_transaction() -> None:
    for run in ("V-", "TV2"):
        result = offsets(run)
        assert result.as_declared, result.verdict
        (sent,) = seen(result, SentOffsets)
        assert (sent.transaction, sent.group, sent.position) == ("first", "g", 7)
        assert len(seen(result, Added)) == (1 if run == "V-" else 0)


def test_what_is_never_answered_has_an_unknown_outcome() -> None:
    rule = {"id": "lost", "point": "client.request", "api": "EndTxn", "action": {"do": "drop"}}
    steps = [
        INIT,
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1"),
        {"arm": rule},
        call("commit", connection="b", background="end"),
        {"wait-until": {"struck": "lost"}},
    ]
    result = told(steps)
    assert [end.outcome for end in seen(result, Ended)] == ["unknown"]


def test_who_commits_positions_as_a_member_is_checked_by_the_group() -> None:
    begun = [call("init-producer-id"), call("begin"), call("add-offsets", group="g")]
    sent = {"group": "g", "offsets": {"in-0": 10}}
    stranger = call(
        "commit-offsets", **sent, member_id="m", generation=1, error="ILLEGAL_GENERATION"
    )
    nobody = call("commit-offsets", **sent)
    result = told([*begun, stranger, nobody, call("commit")])
    assert result.as_declared, result.verdict


def test_an_output_of_an_input_that_was_only_polled_in_an_abort_is_missed() -> None:
    """The application does not go back behind the abort."""
    actors = {"P": {"plays": "wire"}, "eater": {"plays": "member", "group": "g"}}
    steps = [
        call("append", "bystander", partition="in-0", values=["a", "b"]),
        call("init-producer-id"),
        call("subscribe", "eater", topics="in", assigned="in-0"),
        call("poll", "eater", reads=["a", "b"], transaction="T1"),
        call("begin", transaction="T1"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="A", item="a", of="in-0@0"),
        call("abort"),
        call("begin", transaction="T2"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="B", item="b", of=["in-0@1"]),
        call("add-offsets", group="g"),
        call("commit-offsets", member="eater"),
        call("commit"),
    ]
    settings = {"group.initial.rebalance.delay.ms": 0}
    result = told(steps, actors=actors, settings=settings)
    assert result.verdict.observed == ("skipped-input",)
    assert result.verdict.because[0].endswith("no member of the group has processed 0")
    again = call("produce", partition="t-0", value="A again", item="a", of="in-0@0")
    steps.insert(10, again)
    result = told(steps, actors=actors, settings=settings)
    assert result.as_declared, result.verdict


def test_a_record_without_a_value_is_a_tombstone_for_everybody() -> None:
    actors = {"P": {"plays": "wire"}}
    steps = [
        call("append", "bystander", partition="t-0", value=None, key="k"),
        call("init-producer-id"),
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", values=["a", None], key="k"),
        call("commit"),
        call("read", "reader", partition="t-0", reads={"V-": [None, "a", None], "else": ["b"]}),
        {"expect": {"partition": "t-0", "committed": [None, "a", None]}},
    ]
    result = told(steps, actors=actors)
    assert result.as_declared, result.verdict
    assert [one.value for one in seen(result, Wrote)] == [None, "a", None]
    (because,) = told(steps, actors=actors, run="TV2").verdict.because
    assert "reads null, a, null from t-0, expected b" in because


@pytest.mark.parametrize("leaders", [(1, 1), (1, 2)])
def test_one_request_may_bring_records_to_several_partitions(leaders: tuple[int, int]) -> None:
    """Where another broker leads one of them, that one is asked for again, alone."""
    steps = [
        INIT,
        call("begin"),
        call("add-partitions", partitions=["t-0", "t-1"]),
        call("produce", partition="t-0", value="a", beside={"t-1": "b"}, item="x"),
        call("produce", partition="t-1", values=["c", "d"], beside={"t-0": "e"}),
        call("commit"),
    ]
    topics = {"t": {"partitions": 2, "leaders": [*leaders]}, "in": 1}
    for run in ("V-", "TV2"):
        result = told(steps, run=run, topics=topics)
        assert result.as_declared, result.verdict
        wrote = seen(result, Wrote)
        assert [(one.value, one.partition, one.sequence, one.offset) for one in wrote] == [
            *(("a", 0, 0, 0), ("b", 1, 0, 0)),
            *(("c", 1, 1, 1), ("d", 1, 2, 2), ("e", 0, 1, 1)),
        ]
        assert [one.item for one in wrote[:2]] == ["x", "b"]


def test_what_one_partition_refuses_is_no_word_about_the_other() -> None:
    steps = [
        INIT,
        call("begin"),
        call("produce", partition="t-1", value="a"),
        call("produce", partition="t-1", value="b", sequence=7, beside={"t-0": "c"}, error="any"),
        call("produce", partition="t-0", value="d", beside={"t-1": "e"}, background="late"),
        {"give-up": "late"},
        call("abort"),
    ]
    topics = {"t": {"partitions": 2, "leaders": [1, 1]}, "in": 1}
    wrote = seen(told(steps, run="V-", topics=topics), Wrote)
    told_of = {one.value: (one.error, one.outcome) for one in wrote}
    assert told_of == {
        "a": ("", "ok"),
        "b": ("OUT_OF_ORDER_SEQUENCE_NUMBER", "failed"),
        "c": ("", "ok"),
        "d": ("REQUEST_TIMED_OUT", "unknown"),
        "e": ("REQUEST_TIMED_OUT", "unknown"),
    }
