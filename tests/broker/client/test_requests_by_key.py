"""Each key has its own outcome, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.broker.client.fake_broker import FakeBroker, ReceivedRequest
from txnsim.client._requests_by_key import (
    KeyedResponse,
    KeyLookup,
    LookUp,
    fixed_broker,
    look_up_coordinators,
    look_up_leaders,
    run_by_key,
)
from txnsim.client.backoff import Deadline
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, ConnectionLostError, NotSupportedError, RetriableError
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

E = ErrorCode
PATIENCE_MS = 400
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=PATIENCE_MS)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as fake_broker:
        yield fake_broker


@pytest.fixture
async def cluster(broker: FakeBroker) -> AsyncIterator[Cluster]:
    async with Cluster(broker.address, settings=SETTINGS) as connected_cluster:
        yield connected_cluster


class Script:
    """Returns the given lookups and answers in turn; the last of each is repeated."""

    def __init__(self, lookups: list[Any], answers: list[Any]) -> None:
        self._lookups = lookups
        self._answers = answers
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.looked_up: list[tuple[str, ...]] = []

    async def look_up(self, _cluster: Cluster, keys: Sequence[str], _: Deadline) -> KeyLookup[str]:
        self.looked_up.append(tuple(keys))
        lookup: KeyLookup[str] = self._next(self._lookups)
        return lookup

    async def ask(self, broker_id: int, keys: Sequence[str]) -> KeyedResponse[str, str]:
        self.asked.append((broker_id, tuple(keys)))
        answer: KeyedResponse[str, str] = self._next(self._answers)
        return answer

    @staticmethod
    def _next(items: list[Any]) -> Any:
        item = items.pop(0) if len(items) > 1 else items[0]
        if isinstance(item, BaseException):
            raise item
        return item

    async def run(self, cluster: Cluster, *keys: str) -> dict[str, str | ClientError]:
        return await run_by_key(
            cluster,
            keys,
            request_name="Ask",
            look_up=self.look_up,
            ask_broker=self.ask,
            timeout_ms=PATIENCE_MS,
        )


async def test_brokers_are_asked_once_for_all_their_keys(cluster: Cluster) -> None:
    script = Script(
        [KeyLookup(mapped={"a": 1, "b": 2, "c": 1})],
        [KeyedResponse(completed={"a": "A", "c": "C"}), KeyedResponse(completed={"b": "B"})],
    )
    assert await script.run(cluster, "b", "a", "c") == {"b": "B", "a": "A", "c": "C"}
    assert sorted(script.asked) == [(1, ("a", "c")), (2, ("b",))]


async def test_unmapped_keys_are_looked_up_again_and_waiting_ones_are_not(cluster: Cluster) -> None:
    script = Script(
        [KeyLookup(mapped={"a": 1, "b": 1}), KeyLookup(mapped={"a": 2})],
        [
            KeyedResponse(
                unmapped={"a": E.not_coordinator}, waiting={"b": E.coordinator_load_in_progress}
            ),
            KeyedResponse(completed={"a": "A", "b": "B"}),
        ],
    )
    assert await script.run(cluster, "a", "b") == {"a": "A", "b": "B"}
    assert script.looked_up == [("a", "b"), ("a",)]


async def test_one_failure_spoils_nothing(cluster: Cluster) -> None:
    no_error, never_error = ClientError("no"), ClientError("never")
    script = Script(
        [KeyLookup(mapped={"a": 1, "b": 1}, error_by_key={"c": never_error})],
        [KeyedResponse(completed={"a": "A"}, error_by_key={"b": no_error})],
    )
    assert await script.run(cluster, "a", "b", "c") == {"a": "A", "b": no_error, "c": never_error}


async def test_a_lost_connection_is_looked_up_again(cluster: Cluster) -> None:
    script = Script(
        [KeyLookup(mapped={"a": 1})],
        [ConnectionLostError("cut"), KeyedResponse(completed={"a": "A"})],
    )
    assert await script.run(cluster, "a") == {"a": "A"}
    assert script.looked_up == [("a",), ("a",)]


@pytest.mark.parametrize(
    ("first_answer", "is_in_doubt"),
    [
        (ConnectionLostError("cut"), True),
        (KeyedResponse(unmapped={"a": E.coordinator_not_available}), True),
        (KeyedResponse(waiting={"a": E.concurrent_transactions}), True),
        (KeyedResponse(waiting={"a": E.coordinator_load_in_progress}), False),
    ],
)
async def test_a_refusal_is_in_doubt_behind_what_may_have_taken_effect(
    cluster: Cluster, first_answer: object, is_in_doubt: bool
) -> None:
    script = Script(
        [KeyLookup(mapped={"a": 1})],
        [first_answer, KeyedResponse(error_by_key={"a": ClientError("no")})],
    )
    refusal = (await script.run(cluster, "a"))["a"]
    assert isinstance(refusal, ClientError)
    assert refusal.in_doubt is is_in_doubt


async def test_a_version_that_does_not_fit_is_final(cluster: Cluster) -> None:
    version_error = NotSupportedError("too old")
    assert await Script([KeyLookup(mapped={"a": 1})], [version_error]).run(cluster, "a") == {
        "a": version_error
    }
    assert await Script([version_error], []).run(cluster, "a") == {"a": version_error}


async def test_a_bug_of_ours_is_not_hidden(cluster: Cluster) -> None:
    with pytest.raises(ZeroDivisionError):
        await Script([KeyLookup(mapped={"a": 1})], [ZeroDivisionError()]).run(cluster, "a")


@pytest.mark.parametrize(
    ("lookup", "answer", "reason"),
    [
        (KeyLookup(waiting={"a": E.leader_not_available}), None, "LEADER_NOT_AVAILABLE"),
        (
            KeyLookup(mapped={"a": 1}),
            KeyedResponse(waiting={"a": E.concurrent_transactions}),
            "CONCURRENT",
        ),
        (KeyLookup(mapped={"a": 1}), ConnectionLostError("cut"), "cut"),
        (KeyLookup(mapped={"a": 1}), KeyedResponse(), "no answer"),
    ],
)
async def test_time_being_up_says_what_was_waited_for(
    cluster: Cluster, lookup: Any, answer: Any, reason: str
) -> None:
    outcome = (await Script([lookup], [answer]).run(cluster, "a"))["a"]
    assert isinstance(outcome, RetriableError)
    assert str(outcome).startswith(f"Ask not achieved within {PATIENCE_MS} ms: ")
    assert reason in str(outcome)
    assert outcome.error == E.request_timed_out


async def test_nothing_asked_is_nothing_answered(cluster: Cluster) -> None:
    assert await Script([], []).run(cluster) == {}


async def test_leaders_are_found_per_partition(broker: FakeBroker, cluster: Cluster) -> None:
    existing_partition, partition_beyond = TopicPartition("t", 0), TopicPartition("t", 9)
    missing_partition = TopicPartition("nope", 0)
    lookup = await look_up_leaders(
        cluster, (existing_partition, partition_beyond, missing_partition), cluster.deadline()
    )
    assert lookup.mapped == {existing_partition: 1}
    assert lookup.waiting == dict.fromkeys(
        (partition_beyond, missing_partition), E.unknown_topic_or_partition
    )


@pytest.mark.parametrize(
    ("error", "expected_reason"),
    [
        (29, "due to topic authorization failure"),
        (17, "due to invalid topic `t`"),
        (87, "due to unexpected error for topic `t`"),
    ],
)
async def test_refused_topics_are_reported_in_kafkas_words(
    broker: FakeBroker, cluster: Cluster, error: int, expected_reason: str
) -> None:
    broker.handlers[ClientApi.METADATA] = lambda request: broker.metadata(request, error=error)
    partition = TopicPartition("t", 0)
    lookup = await look_up_leaders(cluster, (partition,), cluster.deadline())
    assert expected_reason in str(lookup.error_by_key[partition])


@pytest.mark.parametrize(
    ("error", "group"),
    [(0, "mapped"), (14, "waiting"), (15, "waiting"), (53, "error_by_key"), (42, "error_by_key")],
)
async def test_coordinators_are_found_per_id(
    broker: FakeBroker, cluster: Cluster, error: int, group: str
) -> None:
    def answer(request: ReceivedRequest) -> Any:
        return broker.find_coordinator(request, error=error)

    broker.handlers[ClientApi.FIND_COORDINATOR] = answer
    lookup = await look_up_coordinators(cluster, ("a",), cluster.deadline())
    assert list(getattr(lookup, group)) == ["a"]


async def test_a_fixed_broker_has_every_key(cluster: Cluster) -> None:
    look_up: LookUp[str] = fixed_broker(3)
    lookup = await look_up(cluster, ("a", "b"), cluster.deadline())
    assert lookup.mapped == {"a": 3, "b": 3}
