from __future__ import annotations

from tests.support.stories import call, small
from txnsim.types import TopicPartition
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.on_real._adapting import SHORT_MS, adapted


def test_a_member_and_what_it_subscribes_to() -> None:
    actors = {"a": {"plays": "member", "group": "g"}}
    made = adapted(small([call("subscribe", "a", topics=["t", "in"])], actors=actors), "my-")
    assert made.actors["a"].group == "my-g"
    subscribed = made.steps[0].call
    assert subscribed is not None
    assert subscribed.topics == ("my-t", "my-in")


def test_every_name_of_the_clusters_gets_the_prefix_and_no_other() -> None:
    steps = [
        {"hold": {"id": "t", "point": "client.request", "transactional_id": "app"}},
        {"wait-until": {"struck": "t"}},
        {"wait-until": {"transaction": {"id": "app", "is": "Ongoing"}}},
        {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}},
        {"cluster": {"do": "move-leader", "partition": "__transaction_state@app", "to": 1}},
        call("commit-offsets", group="g", offsets={"in-0": 3}),
        call("producers", "operator", partition="__consumer_offsets@g"),
        call("producers", "operator", partition="__consumer_offsets-3"),
        {"cluster": {"do": "create-topic", "topic": "late"}},
        call("begin", transaction="T1"),
    ]  # fmt: skip
    made = adapted(small(steps), "my-").steps
    assert set(adapted(small(steps), "my-").topics) == {"my-t", "my-in"}
    rule = made[0].rule
    assert rule is not None
    assert (rule.id, rule.transactional_id) == ("t", "my-app")
    assert made[1].struck == "t"
    assert made[2].wait_until is not None
    assert made[2].wait_until.transaction is not None
    assert made[2].wait_until.transaction.id == "my-app"
    assert made[3].cluster is not None
    assert made[3].cluster.coordinator_of == "my-app"
    assert [place for step in made[4:8] for place in step.partitions] == [
        TopicPartition("__transaction_state@my-app", -1),
        TopicPartition("__consumer_offsets@my-g", -1),
        TopicPartition("__consumer_offsets", 3),
    ]
    commit = made[5].call
    assert commit is not None
    assert (commit.group, commit.offsets) == ("my-g", {TopicPartition("my-in", 0): 3})
    assert made[8].cluster is not None
    assert made[8].cluster.topic == "my-late"
    assert made[9].call is not None
    assert made[9].call.transaction == "T1"


def test_only_ordinary_timeouts_are_shortened() -> None:
    actors = {
        "P": {"plays": "wire"},
        "Q": {"plays": "wire", "transactional-id": "q", "transaction-timeout": "1h"},
        "R": {"plays": "reader"},
    }
    made = adapted(small([call("begin")], actors=actors), "my-").actors
    assert (made["P"].transactional_id, made["P"].transaction_timeout) == ("my-P", SHORT_MS)
    assert (made["Q"].transactional_id, made["Q"].transaction_timeout) == ("my-q", 3_600_000)
    assert made["R"].transactional_id is None


def test_a_story_that_stays_within_a_timeout_keeps_it() -> None:
    actors = {"P": {"plays": "wire"}}
    made = adapted(small([{"advance": "50s"}], actors=actors), "my-").actors
    assert made["P"].transaction_timeout == 60_000


def test_a_step_keeps_its_place_in_the_file() -> None:
    scenario = find("z01")[1]
    assert [one.place for one in adapted(scenario, "my-").steps] == [
        one.place for one in scenario.steps
    ]
