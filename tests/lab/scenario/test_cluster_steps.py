from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, failure, seen, sentences, told, transaction
from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE
from txnsim_lab.check.observations import Cleaned, Deleted, Ended, Read, Wrote

INIT = call("init-producer-id")
COMPACTED = {"t": {"partitions": 1, "configs": {"cleanup.policy": "compact"}}, "in": 1}


def do(verb: str, **fields: Any) -> dict[str, Any]:
    return {"cluster": {"do": verb, **{k.replace("_", "-"): v for k, v in fields.items()}}}


def test_leaders_move_and_coordinators_are_loaded_again() -> None:
    steps = [
        INIT,
        do("move-leader", partition="t-0", to=1),
        do("move-leader", partition="t-0", to=3),
        {"wait-until": {"leader": {"partition": "t-0", "is": 3}}},
        do("move-leader", coordinator_of="app", to=2),
        do("reload-coordinator", coordinator_of="app"),
        *transaction("r1"),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    assert sentences(result).count("is made the leader of") >= 3


@pytest.mark.parametrize(
    "steps",
    [
        [do("stop", broker=2), do("start", broker=2)],
        [do("kill", broker=2, lose_unflushed=True), do("start", broker=2)],
        [do("stop", broker=2), do("start", broker=2, as_version=REFERENCE.name)],
        [do("restart", broker=2)],
        [do("restart", broker=2, kill=True)],
        [do("isolate", broker=2, from_clients=True), do("heal", broker=2)],
    ],
)
def test_brokers_go_and_come_back(steps: list[dict[str, Any]]) -> None:
    whole = {"wait-until": {"in-sync": "t-1"}}
    result = told([INIT, *transaction("r1", partition="t-1"), *steps, whole])
    assert result.as_declared, result.verdict


def test_a_broker_does_not_come_back_as_a_release_that_can_not_register() -> None:
    with pytest.raises(ConfigError, match="does not support finalized version"):
        told([INIT, do("stop", broker=2), do("start", broker=2, as_version="4.3")])


def test_replicas_and_configs_are_changed() -> None:
    steps = [
        do("reassign", partition="t-0", replicas=[2, 3]),
        do("configure", topic="t", name="retention.ms", value="1000"),
        INIT,
        *transaction("r1"),
    ]
    assert told(steps).as_declared
    wrong = told([do("configure", topic="t", name="no.such", value="1")])
    assert "steps.0.cluster: t: no.such: " in wrong.verdict.because[0]
    nobody = told([do("reassign", partition="t-0", replicas=[9])])
    assert "steps.0.cluster: t-0 is not given to (9,)" in nobody.verdict.because[0]


def test_a_log_is_rolled_cleaned_and_cut_when_the_story_says() -> None:
    append = call("append", "bystander", partition="t-0", values=["a", "b"], key="k")
    steps = [append, do("roll", partition="t-0"), do("clean", partition="t-0")]
    result = told([*steps, do("clean", partition="in-0")], topics=COMPACTED)
    assert result.as_declared, result.verdict
    assert len(seen(result, Cleaned)) == 2
    uncommitted = [r for r in seen(result, Read) if r.isolation == "read_uncommitted" and r.records]
    assert [record.value for record in uncommitted[0].records] == ["b"]

    short = {"t": {"partitions": 1, "configs": {"retention.ms": 1_000}}, "in": 1}
    aged = [
        append,
        do("roll", partition="t-0"),
        {"advance": "2m"},
        do("delete-old", partition="t-0"),
    ]
    left = {"expect": {"partition": "t-0", "high-watermark": 2}}
    cut = told([*aged, left], topics=short)
    assert {read.log_start_offset for read in seen(cut, Read)} >= {2}, cut.verdict


def test_topics_come_go_and_grow_in_the_middle_of_a_story() -> None:
    steps = [
        INIT,
        do("create-topic", topic="late", partitions=2, leaders=[3, 1]),
        {"wait-until": {"leader": {"partition": "late-0", "is": 3}}},
        *transaction("r1", partition="late-1"),
        do("grow-topic", topic="late", partitions=3, leaders=[2]),
        {"wait-until": {"leader": {"partition": "late-2", "is": 2}}},
        *transaction("r2", partition="late-2"),
        {"expect": {"partition": "late-2", "committed": ["r2"]}},
        do("delete-topic", topic="in"),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    assert {str(read.place) for read in seen(result, Read)} == {
        "t-0", "t-1", "late-0", "late-1", "late-2",
    }  # fmt: skip
    gone = [INIT, do("delete-topic", topic="t"), call("begin")]
    refused = call("add-partitions", partitions="t-0", error="UNKNOWN_TOPIC_OR_PARTITION")
    assert told([*gone, refused]).as_declared
    assert failure(told([do("delete-topic", topic="t"), do("delete-topic", topic="t")])) == (
        "topic t: UNKNOWN_TOPIC_OR_PARTITION"
    )
    again = told([do("create-topic", topic="t")])
    assert failure(again).startswith("topic t: TOPIC_ALREADY_EXISTS")


def test_a_topic_that_is_made_again_has_lost_nothing() -> None:
    steps = [
        call("append", "bystander", partition="t-0", values=["a", "b"]),
        call("read", "reader", partition="t-0", reads=["a", "b"]),
        do("delete-topic", topic="t"),
        do("create-topic", topic="t"),
        {"wait-until": {"leader": {"partition": "t-0", "is": 1}}},
        call("append", "bystander", partition="t-0", value="a"),
        call("append", "bystander", partition="t-0", value="c"),
        call("read", "reader", partition="t-0", from_=0, reads=["a", "c"]),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
    (deleted,) = seen(result, Deleted)
    assert (deleted.topic, deleted.asked_ms < deleted.at_ms) == ("t", True)
    assert seen(result, Wrote)[-1].asked_ms > deleted.at_ms, "surely of the second topic"


def test_an_id_begins_near_the_end_of_its_epochs() -> None:
    steps = [
        do("age", transactional_id="app", epoch=32_764),
        INIT,
        *transaction("r1"),
        *transaction("r2"),
        *transaction("r3"),
    ]
    result = told(steps, run="TV2")
    assert result.as_declared, result.verdict
    identities = {(one.producer_id, one.producer_epoch) for one in seen(result, Ended)}
    assert len({producer_id for producer_id, _ in identities}) == 2, "the id has rotated"
    busy = [INIT, call("begin"), call("add-partitions", partitions="t-0")]
    refused = told([*busy, do("age", transactional_id="app", epoch=9)])
    assert failure(refused) == ("INVALID_TXN_STATE: app is in Ongoing: only an idle id can be aged")
    past = told(
        [do("age", transactional_id="app", epoch=9), do("age", transactional_id="app", epoch=9)]
    )
    assert failure(past) == "INVALID_PRODUCER_EPOCH: app is at epoch 9 already"


def test_internal_topics_are_configured_and_reassigned_once_they_are_there() -> None:
    offsets = "__consumer_offsets"
    move = do("reassign", partition=f"{offsets}-0", replicas=[2, 3])
    early = told([move])
    assert failure(early) == f"{offsets}-0 is not given to (2, 3): UNKNOWN_TOPIC_OR_PARTITION"
    there = [INIT, call("begin"), call("add-offsets", group="g", always=True)]
    there += [call("commit-offsets", group="g", offsets={"t-0": 1}), call("commit")]
    configure = do("configure", topic=offsets, name="retention.ms", value="1000")
    result = told([*there, configure, move])
    assert result.as_declared, result.verdict
