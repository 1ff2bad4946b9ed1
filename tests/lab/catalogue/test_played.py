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

from tests.support.stories import seen, sentences
from txnsim.errors import ClientError
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import Ended, Wrote
from txnsim_lab.scenario import catalog
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.players._base import (
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Part,
    Player,
)
from txnsim_lab.scenario.players.casting import Casting
from txnsim_lab.scenario.runner import RunResult, ScenarioRun, run_in_real_time, run_in_virtual_time

PATIENCE_SECONDS: Final = 30
ATTEMPTS_MAX: Final = 20
"""Of an end of a transaction that may be asked for again, as its error says."""


class ConfluentPlayer(Player):
    """A transactional ``confluent_kafka.Producer``."""

    name = "confluent-kafka"

    def __init__(self, part: Part) -> None:
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

    async def send(self, value: str, place: TopicPartition) -> None:
        """Send a record."""
        loop = asyncio.get_running_loop()
        delivered = self._delivered = loop.create_future()

        def tell(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            loop.call_soon_threadsafe(settle, error, -1 if offset is None else offset)

        def settle(error: KafkaError | None, offset: int) -> None:
            if delivered.done():
                return
            if error is None:
                delivered.set_result(offset)
            else:
                delivered.set_exception(ClientError(f"confluent-kafka: {error}"))

        self._producer.produce(
            place.topic, value.encode(), partition=place.partition, on_delivery=tell
        )

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; returns its offset."""
        assert self._delivered is not None
        while not self._delivered.done():
            await asyncio.to_thread(self._producer.poll, 0.05)
            await asyncio.sleep(0)
        return await self._delivered

    async def commit(self) -> None:
        """Commit the transaction."""
        await self._patiently(lambda: self._producer.commit_transaction(PATIENCE_SECONDS))

    async def abort(self) -> None:
        """Abort the transaction."""
        await self._patiently(lambda: self._producer.abort_transaction(PATIENCE_SECONDS))

    async def close(self) -> None:
        """Leave: librdkafka does when nobody holds the producer."""
        self._producer = None

    async def _patiently(self, ask: Callable[[], object]) -> None:
        """Ask again while the error says that this may help."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                await asyncio.to_thread(ask)
            except KafkaException as error:
                told = error.args[0]
                if attempt == ATTEMPTS_MAX or not told.retriable():
                    raise ClientError(f"confluent-kafka: {told}") from error
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
@pytest.mark.parametrize("run", ["V-", "V+"])
async def test_kafka_python_commits_a_record_that_it_has_aborted(run: str) -> None:
    """z02: verification lets it through, as the partition is part of the next transaction."""
    late = story("late-produce")
    armed = await run_in_real_time(ScenarioRun(scenario=late, run=run), KAFKA_PYTHON)
    check(armed)
    assert armed.players == ("kafka-python",)
    outcomes = {wrote.value: wrote.outcome for wrote in seen(armed, Wrote)}
    assert outcomes == {"r1": "unknown", "r2": "ok"}
    assert [(end.transaction, end.commit, end.outcome) for end in seen(armed, Ended)] == [
        ("T1", False, "ok"), ("T2", True, "ok"),
    ]  # fmt: skip
    assert "the released batch" in sentences(armed)
    check(
        await run_in_real_time(ScenarioRun(scenario=late, run=run, take="disarmed"), KAFKA_PYTHON)
    )


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("run", ["V-", "V+"])
async def test_librdkafka_has_its_next_transaction_torn_by_its_first_commit(run: str) -> None:
    """z05: it loses patience, commits again on another connection, and is told of two successes."""
    late = story("late-commit")
    armed = await run_in_real_time(ScenarioRun(scenario=late, run=run), confluent())
    check(armed)
    assert armed.players == ("confluent-kafka",)
    assert {wrote.outcome for wrote in seen(armed, Wrote)} == {"ok"}
    assert {end.outcome for end in seen(armed, Ended)} == {"ok"}
    check(await run_in_real_time(ScenarioRun(scenario=late, run=run, take="disarmed"), confluent()))


RUNS = [
    pytest.param(name, run, id=f"{name} {run}")
    for name in ("late-produce", "late-commit")
    for run, world in story(name).runs.items()
    if world.players is None or "own" in world.players
]


OVER_TCP = "late-produce"
"""Of the other story, whose client waits for half a minute, time is virtual."""


@pytest.mark.slow
@pytest.mark.parametrize("run", [one.values[1] for one in RUNS if one.values[0] == OVER_TCP])
async def test_our_client_fares_likewise_and_is_protected_by_transactions_v2(run: str) -> None:
    scenario_run = ScenarioRun(scenario=story(OVER_TCP), run=run)
    if run == "V-":
        # It raises its epoch after the abort, which the partition has not heard of (z02b).
        assert scenario_run.scenario.runs[run].verdict == ("aborted-read",)
    check(await run_in_real_time(scenario_run, OWN))
    check(
        await run_in_real_time(ScenarioRun(scenario=story(OVER_TCP), run=run, take="disarmed"), OWN)
    )


@pytest.mark.slow
@pytest.mark.parametrize("take", ["armed", "disarmed"])
@pytest.mark.parametrize(("name", "run"), RUNS)
def test_it_fares_likewise_in_virtual_time(name: str, run: str, take: str) -> None:
    check(run_in_virtual_time(ScenarioRun(scenario=story(name), run=run, take=take)))
