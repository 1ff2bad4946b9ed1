"""Runs of stories: what a run keeps, shows, and waits for."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
import yaml
from msgspec import structs

from tests.support.clusters import VirtualCluster, options, real_cluster, run_cluster
from tests.support.coordinator import ManualClock
from tests.support.stories import (
    call,
    document,
    late_produce,
    observations_of,
    play_steps,
    sentences,
    small,
    transaction,
)
from tests.support.testing_plays import client, write_aborted, write_committed
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.errors import ConfigError
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.types import BrokerId, ProducerEpoch, ProducerId, ProducerIdAndEpoch, TopicPartition
from txnsim_lab.check.observations import (
    Added,
    Began,
    Described,
    Ended,
    Initialised,
    Isolation,
    Listed,
    Producers,
    Read,
    SentOffsets,
    Wrote,
)
from txnsim_lab.scenario.call_results import CallResult
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.outside_view import ONLOOKER_NAME, observe_partition
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.practise_situation import MARKER_RULE, TOPICS, make
from txnsim_lab.scenario.recorder import Recorder, SentBatch
from txnsim_lab.scenario.runner import (
    FAILED_VERDICT,
    LOOK_SENTENCE,
    ScenarioRun,
    casts_of,
    plan_steps,
    run_in_real_time,
    run_in_virtual_time,
)
from txnsim_lab.scenario.scenario_reader import read
from txnsim_lab.scenario.steps_model import Step

# ``consistency``


RULE = {"id": "late", "point": "client.request", "api": "Produce"}


def problems(steps: list[dict[str, Any]], **head: Any) -> str:
    with pytest.raises(ConfigError) as error_info:
        read("small.yaml", yaml.safe_dump(document(steps, **head), sort_keys=False))
    return str(error_info.value)


def produce(**step_fields: Any) -> dict[str, Any]:
    return call("produce", **{"partition": "t-0", "value": "x", **step_fields})


@pytest.mark.parametrize(
    ("steps", "field_name", "message"),
    [
        ([call("begin", "Q")], "steps.0.call.who", "no actor 'Q'"),
        ([call("beginn")], "steps.0.call.do", "did you mean begin?"),
        ([call("begin", partition="t-0")], "steps.0.call.partition", "no field of begin"),
        ([call("produce", value="x")], "steps.0.call.do", "produce needs partition"),
        ([call("produce", partition="t-0")], "steps.0.call.do", "produce needs value or values"),
        ([produce(values=["a"])], "steps.0.call.values", "either value or values"),
        ([produce(partition="q-0")], "steps.0.call.partition", "no topic 'q'"),
        ([produce(partition="t-2")], "steps.0.call.partition", "has the partitions 0 to 1"),
        ([produce(error="FENCED")], "steps.0.call.error", "no error 'FENCED'"),
        ([produce(error={"V-": {"V9": "NONE"}})], "steps.0.call.error.V-.V9", "take 'V9'"),
        ([produce(error={"V-": {"else": "X"}})], "steps.0.call.error.V-.else", "no error 'X'"),
        (
            [call("read", "reader", partition="t-0", reads={"V9": []})],
            "steps.0.call.reads.V9",
            "no run, mode or take 'V9'",
        ),
        ([produce(error={"V9": "NONE"})], "steps.0.call.error.V9", "no run, mode or take 'V9'"),
        ([produce(background="a"), produce(background="a")], "steps.1.call.background", "a call"),
        ([{"await": "a"}], "steps.0.await", "no step before names 'a'"),
        ([produce(background="ab"), {"give-up": "a"}], "steps.1.give-up", "did you mean ab?"),
        ([{"wait-until": {"answered": "a"}}], "steps.0.wait-until.answered", "no step before"),
        ([{"release": "late"}], "steps.0.release", "no step before names 'late'"),
        ([{"hold": RULE}, {"disarm": "lat"}], "steps.1.disarm", "did you mean late?"),
        ([{"hold": RULE}, {"arm": RULE}], "steps.1.arm.id", "late is armed by a step before"),
        ([{"wait-until": {"struck": "x"}}], "steps.0.wait-until.struck", "no step before"),
        ([{"wait-until": {"marker": "t-9"}}], "steps.0.wait-until.marker", "has the partitions"),
        ([{"advance": "1s", "only": "V9"}], "steps.0.only.0", "no run, mode or take 'V9'"),
        ([{"cluster": {"do": "rol"}}], "steps.0.cluster.do", "did you mean roll?"),
        ([{"cluster": {"do": "stop"}}], "steps.0.cluster.do", "stop needs broker"),
        ([{"cluster": {"do": "stop", "broker": 9}}], "steps.0.cluster.broker", "brokers 1 to 3"),
        ([{"cluster": {"do": "move-leader", "to": 1}}], "steps.0.cluster.do", "needs either"),
        ([call("commit-offsets")], "steps.0.call.do", "commit-offsets needs member, or group"),
        ([call("commit-offsets", member="P")], "steps.0.call.member", "no member 'P'"),
        (
            [{"expect": {"partition": "q-0", "stable": 1}}],
            "steps.0.expect.partition",
            "no topic 'q'",
        ),
        ([produce(of="q-0@1")], "steps.0.call.of.0", "no topic 'q'"),
        ([produce(of=["in-0@0", "in-1@0"])], "steps.0.call.of.1", "has the partitions 0 to 0"),
        ([produce(of="in-0")], "steps.0.call.of.0", "expected a record such as orders-0@5"),
        ([produce(), produce()], "steps.1.call.value", "the value 'x' is used twice in t-0"),
        (
            [produce(), produce(value="y", beside={"t-1": "z", "t-0": "x"})],
            "steps.1.call.beside",
            "t-0 is the partition of the call itself",
        ),
        ([produce(partition="t-1"), produce(beside={"t-1": "x"})], "steps.1.call.beside", "twice"),
        ([produce(beside={"q-0": "y"})], "steps.0.call.beside", "no topic 'q'"),
        ([produce(beside=["t-1"])], "steps.0.call.beside", "expected partitions with values"),
        (
            [{"repeat": 2, "steps": [call("produce", partition="t-0", values=["x", "y{n}"])]}],
            "steps.0.steps.0.call.values",
            "'x' is used twice in t-0",
        ),
        (
            [call("append", "bystander", partition="t-0", count=2)] * 2,
            "steps.1.call.value",
            "'update-0' is used twice",
        ),
        (
            [produce(background="a"), {"await": {"call": "a", "error": "X"}}],
            "steps.1.await.error",
            "no error 'X'",
        ),
    ],
)
def test_steps_use_what_there_is(
    steps: list[dict[str, Any]], field_name: str, message: str
) -> None:
    complaints_text = problems(steps)
    assert f": {field_name}: " in complaints_text
    assert message in complaints_text


@pytest.mark.parametrize(
    ("head", "field_name", "message"),
    [
        ({"runs": {"armed": {"mode": "V-", "verdict": "healthy"}}}, "runs.armed", "something else"),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "lost-writ"}}},
            "runs.V-.verdict.0",
            "lost-write",
        ),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "healthy", "rules": {"x": True}}}},
            "runs.V-.rules.x",
            "no rule 'x'",
        ),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "healthy", "cured": "healthy"}}},
            "runs.V-.cured",
            "there is no cure",
        ),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "healthy", "players": ["kafka"]}}},
            "runs.V-.players.0",
            "did you mean kafka-python?",
        ),
        ({"disarmed": "nothing"}, "disarmed.0", "no verdict 'nothing'"),
        ({"topics": {"t": {"partitions": 2, "leaders": [1]}}}, "topics.t.leaders", "expected 2"),
        ({"topics": {"t": {"leaders": [4]}}}, "topics.t.leaders.0", "brokers 1 to 3"),
        (
            {"actors": {"A": {"plays": "application", "players": ["jva"]}}},
            "actors.A.players.0",
            "no player 'jva'",
        ),
        ({"actors": {"a": {"plays": "member"}}}, "actors.a.plays", "a member needs group"),
        ({"actors": {"a": {"plays": "wire", "group": "g"}}}, "actors.a.group", "is in no group"),
        ({"actors": {"a": {"plays": "wire", "rack": "r"}}}, "actors.a.rack", "is in no rack"),
        ({"racks": ["east"]}, "racks", "expected 3, one per broker"),
        ({"control": "Something else."}, "control", "no step has `only: control`"),
    ],
)
def test_the_head_names_what_there_is(head: dict[str, Any], field_name: str, message: str) -> None:
    complaints_text = problems([{"advance": "1s"}], **head)
    assert f": {field_name}: " in complaints_text
    assert message in complaints_text


def test_a_member_names_topics_and_partitions_that_there_are() -> None:
    actors = {"a": {"plays": "member", "group": "g"}}
    complaints_text = problems(
        [call("subscribe", "a", topics=["q"], assigned=["in-3"])], actors=actors
    )
    assert "steps.0.call.topics.0: no topic 'q'" in complaints_text
    assert "steps.0.call.assigned: topic in has the partitions 0 to 0" in complaints_text
    assert "subscribe needs topics" in problems([call("subscribe", "a")], actors=actors)


def test_a_value_may_stand_twice_where_it_is_one_record_or_one_telling_has_it_once() -> None:
    steps = [
        {**produce(), "only": "armed"},
        {**produce(), "only": "disarmed"},
        produce(partition="t-1"),
        produce(value="y", error={"V+": "INVALID_TXN_STATE"}),
        produce(value="y"),
        produce(value="z"),
        produce(value="z", sequence=2),
        {"cluster": {"do": "delete-topic", "topic": "t"}},
        {"cluster": {"do": "create-topic", "topic": "t"}},
        produce(),
    ]
    assert len(read("small.yaml", yaml.safe_dump(document(steps))).steps) == len(steps)


def test_an_application_sends_no_tombstones() -> None:
    complaints_text = problems(
        [call("send", "a", partition="t-0", value=None)], actors={"a": {"plays": "application"}}
    )
    assert (
        "steps.0.call.value: a tombstone is sent by a wire actor or a bystander" in complaints_text
    )


def test_a_generation_is_named_before_it_is_used() -> None:
    actors = {"P": {"plays": "wire"}, "a": {"plays": "member", "group": "g"}}
    commit = call("commit-offsets", member="a", generation="old")
    poll = call("poll", "a", generation=3)
    complaints_text = problems([commit, poll], actors=actors)
    assert "steps.0.call.generation: no step before names 'old'" in complaints_text
    assert "steps.1.call.generation: expected a name for the generation" in complaints_text


GHOST = [
    call("init-producer-id"),
    *transaction("r1"),
    call("produce", partition="t-0", value="ghost"),
]
CURE = [call("find-hanging", "operator"), call("abort-found", "operator")]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_and_another_one_another() -> None:
    scenario_run = ScenarioRun(scenario=late_produce(), run="V-")
    first_result, same_result, other_result = (
        run_in_virtual_time(scenario_run, seed=seed) for seed in (3, 3, 4)
    )
    assert first_result.trace == same_result.trace
    assert first_result.history == same_result.history
    assert first_result.trace != other_result.trace
    assert first_result.verdict == other_result.verdict


def test_a_verdict_is_what_judges_find_and_a_cure_has_one_of_its_own() -> None:
    runs = {
        "V-": {"mode": "V-", "verdict": "stuck-last-stable-offset", "cured": "healthy"},
        "V+": {"mode": "V+", "verdict": "healthy"},
    }
    result = play_steps(GHOST, runs=runs, cure=CURE)
    assert "stuck-last-stable-offset" in result.verdict.observed
    assert result.cured is not None
    assert any("open since 2" in because for because in result.verdict.because)
    assert not result.verdict.as_declared or result.as_declared


def test_a_story_that_can_not_be_told_says_why_before_and_after_its_cure() -> None:
    result = play_steps([call("init-producer-id"), call("begin"), call("commit")])
    assert result.verdict.observed == (FAILED_VERDICT,)
    assert result.cured is None
    assert not result.as_declared
    late_result = play_steps(
        [{"advance": "1s"}], cure=[call("find-hanging", "operator", names="t-0")]
    )
    assert late_result.verdict.as_declared
    assert late_result.cured is not None
    assert late_result.cured.observed == (FAILED_VERDICT,)
    assert not late_result.as_declared


async def test_a_story_is_told_in_real_time_as_well() -> None:
    steps = [{"say": "It begins.", "advance": "1s"}, call("init-producer-id"), *transaction("r1")]
    scenario_run = ScenarioRun(scenario=small(steps), run="TV2", take="disarmed")
    assert str(scenario_run) == "small TV2 disarmed"
    result = await run_in_real_time(scenario_run)
    assert result.as_declared, result.verdict
    assert result.seed is None
    assert "scenario: It begins." in sentences(result)


def test_somebody_else_plays_only_where_there_is_something_to_play() -> None:
    idle_run = ScenarioRun(scenario=small([{"advance": "1s"}]), run="V-")
    assert casts_of(idle_run, Casting(player="own")) == {}
    with pytest.raises(
        ConfigError, match="small has no application that another player could take"
    ):
        casts_of(idle_run, Casting(player="kafka-python"))
    late_run = ScenarioRun(scenario=late_produce(), run="TV2")
    with pytest.raises(ConfigError, match="kafka-python can't play in late-produce-"):
        casts_of(late_run, Casting(player="kafka-python"))


IDENTITY = ProducerIdAndEpoch(producer_id=ProducerId(7), producer_epoch=ProducerEpoch(1))


def test_a_batch_is_one_observation_per_record() -> None:
    recorder = Recorder(ManualClock())
    batch = SentBatch(
        partition=TopicPartition("t", 0), values=("a", "b"), identity=IDENTITY, sequence=4
    )
    recorder.note_write("P", "T1", batch, CallResult(offset=9))
    recorder.note_write("P", None, batch, CallResult(error="CONNECTION_LOST"))
    first_write, second_write, third_write, _ = [
        observed_write for _, observed_write in recorder.history.all_of(Wrote)
    ]
    named_writes = (first_write, second_write)
    assert [(write.value, write.offset, write.sequence) for write in named_writes] == [
        ("a", 9, 4), ("b", 10, 5),
    ]  # fmt: skip
    assert (third_write.offset, third_write.outcome, third_write.error) == (
        -1,
        "unknown",
        "CONNECTION_LOST",
    )


def test_what_belongs_to_no_transaction_is_no_part_of_one() -> None:
    recorder = Recorder(ManualClock())
    recorder.note_end("P", None, CallResult(), is_commit=True)
    recorder.note_partitions_added("P", None, (), CallResult(), IDENTITY)
    assert list(recorder.history) == []
    recorder.note_begin("P", "app", "T1")
    recorder.note_end("P", "T1", CallResult(error="PRODUCER_FENCED"), is_commit=True, asked_ms=3)
    began, end = recorder.history
    assert isinstance(began, Began)
    assert isinstance(end, Ended)
    assert (end.outcome, end.asked_ms) == ("failed", 3)
    assert (end.producer_epoch, end.next_producer_epoch) == (None, None)


def test_the_identity_that_was_sent_is_noted_and_the_one_that_follows() -> None:
    recorder = Recorder(ManualClock())
    following_identity = ProducerIdAndEpoch(
        producer_id=ProducerId(8), producer_epoch=ProducerEpoch(0)
    )
    recorder.note_partitions_added("P", "T1", (), CallResult(), IDENTITY)
    recorder.note_sent_offsets("P", "T1", "g", {TopicPartition("in", 0): 5}, CallResult(), IDENTITY)
    recorder.note_end(
        "P",
        "T1",
        CallResult(),
        is_commit=True,
        sent_identity=IDENTITY,
        next_identity=following_identity,
    )
    addition, sent_offsets, end = recorder.history
    assert isinstance(addition, Added)
    assert isinstance(sent_offsets, SentOffsets)
    assert isinstance(end, Ended)
    assert {
        (observation.producer_id, observation.producer_epoch)
        for observation in (addition, sent_offsets, end)
    } == {(7, 1)}
    assert (end.next_producer_id, end.next_producer_epoch) == (8, 0)


def test_an_identity_that_was_refused_is_none() -> None:
    recorder = Recorder(ManualClock())
    recorder.note_init("P", "app", IDENTITY, CallResult(error="PRODUCER_FENCED"))
    (observation,) = recorder.history
    assert isinstance(observation, Initialised)
    assert (observation.producer_id, observation.error) == (-1, "PRODUCER_FENCED")


B1 = BrokerId(1)
Found = TypeVar("Found")


async def test_one_hangs_and_two_look_like_it() -> None:
    async with real_cluster(topics=tuple(TOPICS.items())) as sim:
        await make(sim)
        await sim.injector.wait_until_struck(MARKER_RULE, count=1, timeout_ms=30_000)
        async with Cluster(sim.bootstrap) as client:
            admin = Admin(client)
            answers = await admin.list_transactions()
            listed_descriptions = [
                transaction_listing
                for answer in answers.values()
                for transaction_listing in _answer_found(answer)
            ]
            states = {
                transaction_listing.transactional_id: str(transaction_listing.state)
                for transaction_listing in listed_descriptions
            }
            assert states == {"billing": "Empty", "report": "Ongoing", "shop": "PrepareCommit"}
            orders_partition = TopicPartition("orders", 0)
            producers = (await admin.describe_producers([orders_partition]))[orders_partition]
            (late_state,) = _answer_found(producers)
            assert late_state.txn_start_offset == 0


def test_what_takes_long_can_be_ended_as_its_readers_are_advised() -> None:
    """This holds also if one broker coordinates and leads everything."""

    async def main(cluster: VirtualCluster) -> None:
        topic_partitions = [TopicPartition("orders", 1), TopicPartition("payments", 0)]
        for topic_partition in (*topic_partitions, cluster.home("report"), cluster.home("shop")):
            if cluster.leader(topic_partition) != B1:
                cluster.sim.move_leader(topic_partition, B1)
        await make(cluster.sim)
        await cluster.wait_until_struck(MARKER_RULE)
        async with Cluster(cluster.sim.bootstrap) as client:
            await Admin(client).force_terminate_transaction("report")
            answer = (await Admin(client).describe_transactions(["report"]))["report"]
            assert str(_answer_found(answer).state) == "Empty"

    cluster_options = options(topics=tuple(TOPICS.items()))
    run_cluster(main, cluster_options=structs.replace(cluster_options, ready_coordinators=True))


def _answer_found(answer: Found | ClientError) -> Found:
    assert not isinstance(answer, ClientError)
    return answer


# What an onlooker notes, and in which order.


@within(run_virtual, topics=["orders"])
async def test_open_transactions_coordinators_open_transactions_again_then_readers(
    kafka: AsyncSimulatedKafka,
) -> None:
    await write_committed(kafka, "orders", "a", "b")
    await write_aborted(kafka, "orders", "c")
    recorder = Recorder(kafka.rebuilt.environment.clock)
    async with client(kafka) as outside_cluster:
        await observe_partition(outside_cluster, TopicPartition("orders", 0), recorder, offset=1)
    kinds = [type(observation) for observation in recorder.history]
    assert kinds[:4] == [Producers, Listed, Described, Producers]
    assert set(kinds[4:]) == {Read}
    assert {observation.who for observation in recorder.history} == {ONLOOKER_NAME}
    values_by_isolation = {
        isolation: [
            record.value
            for observation in recorder.history
            if isinstance(observation, Read) and observation.isolation is isolation
            for record in observation.records
        ]
        for isolation in Isolation
    }
    assert values_by_isolation == {
        Isolation.READ_COMMITTED: ["b"],
        Isolation.READ_UNCOMMITTED: ["b", "c"],
    }


@within(run_virtual, settings={"auto.create.topics.enable": False})
async def test_who_does_not_answer_ends_the_look(kafka: AsyncSimulatedKafka) -> None:
    async with client(kafka, api_timeout_ms=500) as outside_cluster:
        with pytest.raises(ClientError):
            await observe_partition(
                outside_cluster,
                TopicPartition("nowhere", 0),
                Recorder(kafka.rebuilt.environment.clock),
            )


def test_steps_are_numbered_and_told_in_words() -> None:
    planned_steps = plan_steps((*find("z01")[1].steps, LOOK_SENTENCE))
    assert [step.number for step in planned_steps] == list(range(len(planned_steps)))
    assert {step.of for step in planned_steps} == {len(planned_steps)}
    assert planned_steps[0].text == "The producer opens a transaction."
    assert planned_steps[-1].text == LOOK_SENTENCE
    assert all(step.text for step in planned_steps)


def test_a_step_without_a_sentence_is_told_by_what_it_does() -> None:
    steps = [
        Step.model_validate(body)
        for body in (
            {"wait-until": {"struck": "late"}},
            {"release": "late"},
            {"call": {"who": "reader", "do": "read", "partition": "t-0"}},
        )
    ]
    assert [step.text for step in plan_steps(steps)] == [
        "wait until: struck late",
        "release: late",
        "reader: read t-0",
    ]


# ``stage``


def test_a_program_is_told_of_the_partition_that_it_sends_to() -> None:
    result = run_in_virtual_time(ScenarioRun(scenario=late_produce(), run="V+"))
    assert {
        (observation.topic, observation.partition) for observation in observations_of(result, Wrote)
    } == {("payments", 0)}


def test_a_topic_that_cant_be_is_refused() -> None:
    story = small([{"advance": "1s"}], topics={"t": {"partitions": 1, "configs": {"no.such": 1}}})
    with pytest.raises(ConfigError, match=r"small: topic t: .*no\.such"):
        run_in_virtual_time(ScenarioRun(scenario=story, run="V-"))


def test_what_still_waits_when_a_story_ends_does_not_keep_it() -> None:
    hold = {"hold": {"id": "late", "point": "client.response", "api": "InitProducerId"}}
    steps = [hold, call("init-producer-id", background="init"), {"wait-until": {"struck": "late"}}]
    assert play_steps(steps).as_declared
