"""Anomalies as they happen to client libraries, over TCP: a late Produce that joins the next
transaction, a late EndTxn that tears it. The stories are those of the matrix, told of applications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.stories import MODES, call, observations_of, play_steps, sentences
from txnsim.errors import ClientError, ConfigError
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import Ended, SentOffsets, Wrote
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.model import Run, Scenario
from txnsim_lab.scenario.players._base import (
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    ApplicationPlayer,
    PlayerPart,
)
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, run_in_real_time, run_in_virtual_time

PATIENCE_SECONDS: Final = 30
ATTEMPTS_MAX: Final = 20
"""Of an end of a transaction that may be asked for again, as its error says."""


class ConfluentPlayer(ApplicationPlayer):
    """A transactional ``confluent_kafka.Producer``."""

    name = "confluent-kafka"

    def __init__(self, part: PlayerPart) -> None:
        self._part = part
        self._producer: Any = None
        self._delivered: asyncio.Future[int] | None = None

    async def begin(self) -> None:
        """Get an identity, unless it has one, and begin a transaction."""
        if self._producer is None:
            part = self._part
            self._producer = Producer(
                {
                    "bootstrap.servers": part.bootstrap,
                    "client.id": part.client_id,
                    "transactional.id": part.transactional_id,
                    "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                    "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                    "linger.ms": 0,
                }
            )
            await self._patiently(lambda: self._producer.init_transactions(PATIENCE_SECONDS))
        await asyncio.to_thread(self._producer.begin_transaction)

    async def send(self, record_value: str, topic_partition: TopicPartition) -> None:
        loop = asyncio.get_running_loop()
        delivered_future = self._delivered = loop.create_future()

        def tell(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            loop.call_soon_threadsafe(settle, error, -1 if offset is None else offset)

        def settle(error: KafkaError | None, offset: int) -> None:
            if delivered_future.done():
                return
            if error is None:
                delivered_future.set_result(offset)
            else:
                delivered_future.set_exception(ClientError(f"confluent-kafka: {error}"))

        self._producer.produce(
            topic_partition.topic,
            record_value.encode(),
            partition=topic_partition.partition,
            on_delivery=tell,
        )

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; returns its offset."""
        assert self._delivered is not None
        while not self._delivered.done():
            await asyncio.to_thread(self._producer.poll, 0.05)
            await asyncio.sleep(0)
        return await self._delivered

    async def commit(self) -> None:
        await self._patiently(lambda: self._producer.commit_transaction(PATIENCE_SECONDS))

    async def abort(self) -> None:
        await self._patiently(lambda: self._producer.abort_transaction(PATIENCE_SECONDS))

    async def close(self) -> None:
        """Close the producer: librdkafka does it when the object is freed."""
        self._producer = None

    async def _patiently(self, ask: Callable[[], object]) -> None:
        """Ask again while the error says that this may help."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await asyncio.to_thread(ask)
            except KafkaException as error:
                kafka_error = error.args[0]
                if attempt == ATTEMPTS_MAX or not kafka_error.retriable():
                    raise ClientError(f"confluent-kafka: {kafka_error}") from error
            else:
                return


PLAYED = Path(__file__).parent / "played"
KAFKA_PYTHON = Casting(player="kafka-python")
OWN = Casting(player="own")


def confluent() -> Casting:

    return Casting(make=ConfluentPlayer)


def story(name: str) -> Scenario:
    return catalog.load(PLAYED / f"{name}.yaml")


def check(result: RunResult) -> None:
    assert result.as_declared, (result.run, result.take, result.verdict, result.remarks)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("run_name", ["V-", "V+"])
async def test_kafka_python_commits_a_record_that_it_has_aborted(run_name: str) -> None:
    """z02: verification lets it through, as the partition is part of the next transaction."""
    late_scenario = story("late-produce")
    armed_result = await run_in_real_time(
        ScenarioRun(scenario=late_scenario, run=run_name), KAFKA_PYTHON
    )
    check(armed_result)
    assert armed_result.players == ("kafka-python",)
    outcomes = {write.value: write.outcome for write in observations_of(armed_result, Wrote)}
    assert outcomes == {"r1": "unknown", "r2": "ok"}
    ends = observations_of(armed_result, Ended)
    assert [(end.transaction, end.commit, end.outcome) for end in ends] == [
        ("T1", False, "ok"), ("T2", True, "ok"),
    ]  # fmt: skip
    assert "the released batch" in sentences(armed_result)
    check(
        await run_in_real_time(
            ScenarioRun(scenario=late_scenario, run=run_name, take="disarmed"), KAFKA_PYTHON
        )
    )


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("run_name", ["V-", "V+"])
async def test_librdkafka_has_its_next_transaction_torn_by_its_first_commit(run_name: str) -> None:
    """In z05 the client times out, commits again on another connection, and gets two successes."""
    late_scenario = story("late-commit")
    armed_result = await run_in_real_time(
        ScenarioRun(scenario=late_scenario, run=run_name), confluent()
    )
    check(armed_result)
    assert armed_result.players == ("confluent-kafka",)
    assert {write.outcome for write in observations_of(armed_result, Wrote)} == {"ok"}
    assert {end.outcome for end in observations_of(armed_result, Ended)} == {"ok"}
    check(
        await run_in_real_time(
            ScenarioRun(scenario=late_scenario, run=run_name, take="disarmed"), confluent()
        )
    )


RUNS = [
    pytest.param(name, run, id=f"{name} {run}")
    for name in ("late-produce", "late-commit")
    for run, world in story(name).runs.items()
    if world.players is None or "own" in world.players
]


OVER_TCP = "late-produce"
"""Of the other story, whose client waits for half a minute, time is virtual."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "run_name", [run_case.values[1] for run_case in RUNS if run_case.values[0] == OVER_TCP]
)
async def test_our_client_fares_likewise_and_is_protected_by_transactions_v2(run_name: str) -> None:
    scenario_run = ScenarioRun(scenario=story(OVER_TCP), run=run_name)
    if run_name == "V-":
        # It raises its epoch after the abort, which the partition has not heard of (z02b).
        assert scenario_run.scenario.runs[run_name].verdict == ("aborted-read",)
    check(await run_in_real_time(scenario_run, OWN))
    check(
        await run_in_real_time(
            ScenarioRun(scenario=story(OVER_TCP), run=run_name, take="disarmed"), OWN
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("take_name", ["armed", "disarmed"])
@pytest.mark.parametrize(("name", "run_name"), RUNS)
def test_it_fares_likewise_in_virtual_time(name: str, run_name: str, take_name: str) -> None:
    check(run_in_virtual_time(ScenarioRun(scenario=story(name), run=run_name, take=take_name)))


# Consumers in groups as actors: a rebalance in the middle of a transaction, and members that have
# been replaced and do not know it yet.


SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
}


def play(steps: list[dict[str, Any]], protocol: str, mode: str, *, verdict_text: str) -> Any:
    """Two instances of an application, each a member and a producer of its own."""
    part = {
        "plays": "member",
        "group": "billing",
        "group-protocol": protocol,
        "session-timeout": "6s",
    }
    return play_steps(
        steps,
        run_name=mode,
        topics={"out": 1, "in": 2},
        actors={
            "first": {**part, "instance-id": "1"},
            "second": {**part, "instance-id": "2"},
            "first-out": {"plays": "wire", "transactional-id": "billing-1"},
            "second-out": {"plays": "wire", "transactional-id": "billing-2"},
        },
        settings=SETTINGS,
        runs={mode: {"mode": mode, "verdict": verdict_text}},
    )


def process(
    instance_id: str, record_value: str, *, transaction: str, commits: dict[str, Any], end: str
) -> list[dict[str, Any]]:
    """Consume, transform, produce; the positions go into the transaction."""
    output, work = f"{instance_id}-out", f"work on {record_value}"
    return [
        call("begin", output, transaction=transaction),
        call("add-partitions", output, partitions="out-0"),
        call(
            "produce",
            output,
            partition="out-0",
            value=f"{record_value} in {transaction}",
            item=work,
        ),
        call("add-offsets", output, group="billing"),
        call("commit-offsets", output, **commits),
        call(end, output),
    ]


BOTH = ["in-0", "in-1"]
BEGIN = [
    call("append", "bystander", partition="in-0", value="r1"),
    call("init-producer-id", "first-out"),
    call("init-producer-id", "second-out"),
    call("subscribe", "first", topics="in", assigned=BOTH),
]
worlds = pytest.mark.parametrize(
    ("protocol", "mode"),
    [(protocol, mode) for protocol in ("classic", "consumer") for mode in MODES],
)


def zombie(**commits: Any) -> list[dict[str, Any]]:
    """The first one stands still in the middle of a transaction. The second one takes its place."""
    middle = process("first", "r1", transaction="T1", commits={}, end="commit")[:4]
    end = "abort" if "error" in commits else "commit"
    return [
        *BEGIN,
        call("poll", "first", reads=["r1"], transaction="T1"),
        *middle,
        call("stand-still", "first"),
        call("subscribe", "second", topics="in", assigned=BOTH),
        call("poll", "second", reads=["r1"], transaction="T2"),
        *process("second", "r1", transaction="T2", commits={"member": "second"}, end="commit"),
        call("commit-offsets", "first-out", **commits),
        call(end, "first-out"),
    ]


@worlds
def test_a_zombie_s_positions_are_refused_and_so_its_work_is_done_once(
    protocol: str, mode: str
) -> None:
    steps = zombie(member="first", error="UNKNOWN_MEMBER_ID")
    result = play(steps, protocol, mode, verdict_text="healthy")
    assert result.as_declared, result.verdict
    assert [sent_offsets.error for sent_offsets in observations_of(result, SentOffsets)] == [
        "",
        "",
        *["UNKNOWN_MEMBER_ID"] * 2,
    ]


@worlds
def test_without_its_metadata_the_group_can_t_tell_a_zombie(protocol: str, mode: str) -> None:
    steps = zombie(group="billing", offsets={"in-0": 1})
    result = play(steps, protocol, mode, verdict_text="duplicate")
    assert result.as_declared, result.verdict


@worlds
def test_a_rebalance_in_the_middle_of_a_transaction(protocol: str, mode: str) -> None:
    """What the application knew of itself before the rebalance is of the old generation."""
    steps = [
        *BEGIN,
        call("poll", "first", reads=["r1"]),
        *process("first", "r1", transaction="T1", commits={}, end="commit")[:4],
        call("subscribe", "second", topics="in", background="joining"),
        call("poll", "first", assigned="in-0"),
        {"await": "joining"},
        call("poll", "second", assigned="in-1"),
        # It has kept in-0: a member of the consumer protocol may commit that all the same.
        call(
            "commit-offsets",
            "first-out",
            member="first",
            offsets={"in-0" if protocol == "classic" else "in-1": 1},
            error="ILLEGAL_GENERATION",
            generation=1,
        ),
        call("abort", "first-out"),
        call("seek", "first", partition="in-0", from_=0),
        call("poll", "first", reads=["r1"]),
        *process("first", "r1", transaction="T2", commits={"member": "first"}, end="commit"),
    ]
    result = play(steps, protocol, mode, verdict_text="healthy")
    assert result.as_declared, result.verdict
    assert [end.commit for end in observations_of(result, Ended)] == [False, True]


# A coordinator that moves: how it forgets (``coordinator.unload``: a broker that knows that it
# coordinates no more, and still remembers), and how it loads. One that waits until what it has read
# is replicated answers from nothing that can be lost: the scenario of that loss can't be told.


HOLD = {"hold": {"id": "old", "point": "coordinator.unload", "topic": "__transaction_state"}}
BEGUN: list[dict[str, Any]] = [
    call("init-producer-id"),
    {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}},
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
]
AWAY = {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 2}}
BACK = {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}}
ASKED_OLD = call("add-partitions", partitions="t-0", broker=1)
REFUSED = call("add-partitions", partitions="t-0", broker=1, error="NOT_COORDINATOR")
WAITING = {"loads_wait_for_replication": True}


def test_it_answers_from_memory_until_it_has_dropped_its_entries() -> None:
    steps = [*BEGUN, HOLD, AWAY, ASKED_OLD, {"release": "old"}, REFUSED, call("commit")]
    result = play_steps(steps, run_name="V+")
    assert result.as_declared, result.verdict


def test_it_can_append_nothing_meanwhile() -> None:
    commit_step = call("commit", broker=1, error="NOT_COORDINATOR", once=True)
    result = play_steps(
        [*BEGUN, HOLD, AWAY, commit_step, call("commit", broker=2), {"release": "old"}]
    )
    assert result.as_declared, result.verdict


def test_what_it_has_loaded_since_is_not_dropped() -> None:
    steps = [*BEGUN, HOLD, AWAY, BACK, {"release": "old"}, ASKED_OLD, call("commit", broker=1)]
    result = play_steps(steps, run_name="V+")
    assert result.as_declared, result.verdict


def told_z34(run: Run) -> tuple[str, ...]:
    scenario: Scenario = find("z34")[1].model_copy(update={"runs": {"V+": run}})
    return run_in_virtual_time(ScenarioRun(scenario=scenario, run="V+")).verdict.observed


@pytest.mark.slow
def test_what_a_waiting_coordinator_answers_from_is_not_lost() -> None:
    run = find("z34")[1].runs["V+"]
    assert "stuck-last-stable-offset" in told_z34(run)
    # By the time it answers, the replica that has not fetched is out of sync, and can't lead.
    with pytest.raises(ConfigError, match="broker 3 is no replica that is in sync"):
        told_z34(run.model_copy(update={"rules": WAITING}))
