"""Requests about many keys: find each key's broker, send each broker one request for its keys, and
repeat this for undecided keys.

Each key has its own outcome, so that one missing topic does not spoil the answer for the others.
Kafka's counterparts are ``AdminApiDriver`` with its lookup strategies (``PartitionLeaderStrategy``,
``CoordinatorStrategy``) and handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from txnsim.client.backoff import Deadline
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, NotSupportedError, RetriableError, code_name
from txnsim.client.metadata import RETRIED_TOPIC_ERRORS
from txnsim.client.reactions import UNSAID
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class KeyLookup(msgspec.Struct, Generic[K], kw_only=True):
    """The result of a lookup. A key that it does not contain is looked up again; ``waiting`` says
    why.
    """

    mapped: dict[K, int] = {}
    error_by_key: dict[K, ClientError] = {}
    waiting: dict[K, ErrorCode] = {}


class KeyedResponse(msgspec.Struct, Generic[K, V], kw_only=True):
    """A broker's answer by key; an unmentioned key goes to the same broker again."""

    completed: dict[K, V] = {}
    error_by_key: dict[K, ClientError] = {}
    unmapped: dict[K, ErrorCode] = {}
    """Keys whose broker must be looked up again."""
    waiting: dict[K, ErrorCode] = {}
    """Keys without a decision yet, each with the reason."""

    def complete(self, key: K, outcome: V) -> None:
        """Take a row with a key's outcome."""
        self._take(key, self.completed, outcome)

    def refuse(self, key: K, error: ClientError) -> None:
        """Take a row with a final error of a key."""
        self._take(key, self.error_by_key, error)

    def send_elsewhere(self, key: K, error: ErrorCode) -> None:
        """Take a row from which a key has another broker by now."""
        self._take(key, self.unmapped, error)

    def wait(self, key: K, error: ErrorCode) -> None:
        """Take a row without a decision about a key."""
        self._take(key, self.waiting, error)

    def _take(self, key: K, outcomes: dict[K, T], outcome: T) -> None:
        """Take a row about a key. With a second one the broker contradicts itself: neither of the
        two counts, and the request may have taken effect.
        """
        if any(
            key in taken
            for taken in (self.completed, self.error_by_key, self.unmapped, self.waiting)
        ):
            contradiction = ClientError(f"the broker answered twice about {key}")
            contradiction.in_doubt = True
            self.error_by_key[key] = contradiction
        else:
            outcomes[key] = outcome


_UNSAID: Final = UNSAID | {ErrorCode.concurrent_transactions}
"""Errors after which a request may have taken effect. With CONCURRENT_TRANSACTIONS a coordinator
has already raised the epoch, and aborts the open transaction first.
"""

LookUp = Callable[[Cluster, Sequence[K], Deadline], Awaitable[KeyLookup[K]]]
AskBroker = Callable[[int, Sequence[K]], Awaitable[KeyedResponse[K, V]]]


async def run_by_key(
    cluster: Cluster,
    keys: Collection[K],
    *,
    request_name: str,
    look_up: LookUp[K],
    ask_broker: AskBroker[K, V],
    timeout_ms: float | None = None,
) -> dict[K, V | ClientError]:
    """Ask until every key has an outcome or time is up.

    Returns:
        Key -> outcome, in the order of ``keys``. Keys left when time was up have a RetriableError
        that says what they waited for.
    """
    key_run = _KeyRun(tuple(keys), ask_broker)
    deadline = cluster.deadline(timeout_ms)
    backoff = cluster.backoff()
    while True:
        unmapped_keys = key_run.keys_without_broker()
        if unmapped_keys:
            try:
                key_run.take_lookup(await look_up(cluster, unmapped_keys, deadline))
            except (*LOST_ANSWER_ERRORS, NotSupportedError) as error:
                # ask_any has used up the time, or no version fits: nothing can come after that.
                key_run.fail_rest(error)
        await key_run.ask_brokers()
        if deadline.has_passed:
            key_run.expire(f"{request_name} not achieved within {deadline.timeout_ms:.0f} ms")
        if key_run.is_done:
            return key_run.outcomes()
        await backoff.wait(deadline)


class _KeyRun(msgspec.Struct, Generic[K, V], eq=False):
    """The state of every key: its broker, its outcome, or what it waits for."""

    _keys: tuple[K, ...]
    _ask: AskBroker[K, V]
    _brokers: dict[K, int] = {}
    _outcomes: dict[K, V | ClientError] = {}
    _reasons: dict[K, str] = {}
    _keys_in_doubt: set[K] = set()
    """Keys of requests that got no answer, or an answer that does not say whether they took
    effect.
    """

    @property
    def is_done(self) -> bool:
        # A broker may answer about keys that it was not asked about.
        return all(key in self._outcomes for key in self._keys)

    def outcomes(self) -> dict[K, V | ClientError]:
        for key in self._keys_in_doubt:
            outcome = self._outcomes[key]
            if isinstance(outcome, ClientError):
                outcome.in_doubt = True
        return {key: self._outcomes[key] for key in self._keys}

    def keys_without_broker(self) -> list[K]:
        return [k for k in self._keys if k not in self._outcomes and k not in self._brokers]

    def take_lookup(self, lookup: KeyLookup[K]) -> None:
        self._brokers.update(lookup.mapped)
        self._outcomes.update(lookup.error_by_key)
        self._reasons.update(
            (key, code_name(error_code)) for key, error_code in lookup.waiting.items()
        )

    def fail_rest(self, error: ClientError) -> None:
        """No more answers can come: undecided keys get this outcome."""
        self._outcomes.update({k: error for k in self._keys if k not in self._outcomes})

    def expire(self, timeout_message: str) -> None:
        """Time is up: undecided keys get an error that says what they waited for."""
        for key in self._keys:
            if key not in self._outcomes:
                self._outcomes[key] = RetriableError(
                    f"{timeout_message}: {self._reasons.get(key, 'no answer')}",
                    error=ErrorCode.request_timed_out,
                )

    async def ask_brokers(self) -> None:
        """Send every broker one request for its keys, to all brokers in parallel."""
        keys_by_broker: dict[int, list[K]] = {}
        for key in self._keys:
            if key in self._brokers and key not in self._outcomes:
                keys_by_broker.setdefault(self._brokers[key], []).append(key)
        responses = await asyncio.gather(
            *(
                self._ask(broker_id, broker_keys)
                for broker_id, broker_keys in keys_by_broker.items()
            ),
            return_exceptions=True,
        )
        for broker_keys, response in zip(keys_by_broker.values(), responses, strict=True):
            self._take_response(broker_keys, response)

    def _take_response(
        self, broker_keys: list[K], response: KeyedResponse[K, V] | BaseException
    ) -> None:
        match response:
            case KeyedResponse():
                self._outcomes.update(response.completed)
                self._outcomes.update(response.error_by_key)
                for key, error_code in (*response.unmapped.items(), *response.waiting.items()):
                    self._reasons[key] = code_name(error_code)
                    if error_code in _UNSAID:
                        self._keys_in_doubt.add(key)
                for key in response.unmapped:
                    self._brokers.pop(key, None)
            case NotSupportedError():
                self._outcomes.update(dict.fromkeys(broker_keys, response))
            case ClientError():
                # Connection lost or no answer: look the broker up again.
                for key in broker_keys:
                    self._reasons[key] = str(response)
                    self._keys_in_doubt.add(key)
                    self._brokers.pop(key, None)
            case BaseException():
                raise response


async def look_up_leaders(
    cluster: Cluster, partitions: Sequence[TopicPartition], deadline: Deadline
) -> KeyLookup[TopicPartition]:
    """Find partition leaders by one Metadata request (PartitionLeaderStrategy)."""
    topic_names = tuple(dict.fromkeys(partition.topic for partition in partitions))
    cluster_view = await cluster.refresh(topic_names, deadline=deadline)
    lookup: KeyLookup[TopicPartition] = KeyLookup()
    for partition in partitions:
        topic = cluster_view.topic(partition.topic)
        partition_view = topic.partition(partition.partition) if topic is not None else None
        error_number = topic.error if topic is not None else 0
        if not error_number and partition_view is not None:
            error_number = partition_view.error
        if error_number and error_number not in RETRIED_TOPIC_ERRORS:
            lookup.error_by_key[partition] = ClientError(
                _lookup_failure(partition, error_number), error=ErrorCode(error_number)
            )
        elif not error_number and partition_view is not None and partition_view.leader_id >= 0:
            lookup.mapped[partition] = partition_view.leader_id
        else:
            lookup.waiting[partition] = ErrorCode(
                error_number or ErrorCode.unknown_topic_or_partition
            )
    return lookup


def _lookup_failure(partition: TopicPartition, error_number: int) -> str:
    """The wording of PartitionLeaderStrategy.handleTopicError."""
    message_start = f"Failed to fetch metadata for partition {partition} due to"
    match error_number:
        case ErrorCode.topic_authorization_failed:
            return f"{message_start} topic authorization failure"
        case ErrorCode.invalid_topic_exception:
            return f"{message_start} invalid topic `{partition.topic}`"
        case _:
            return f"{message_start} unexpected error for topic `{partition.topic}`"


async def look_up_coordinators(
    cluster: Cluster, transactional_ids: Sequence[str], deadline: Deadline
) -> KeyLookup[str]:
    """Find transaction coordinators (CoordinatorStrategy)."""
    answer_by_key = await cluster.find_coordinators(tuple(transactional_ids), deadline)
    lookup: KeyLookup[str] = KeyLookup()
    for key, (error_number, broker_id) in answer_by_key.items():
        match error_number:
            case ErrorCode.none:
                lookup.mapped[key] = broker_id
            case ErrorCode.coordinator_not_available | ErrorCode.coordinator_load_in_progress:
                lookup.waiting[key] = ErrorCode(error_number)
            case ErrorCode.transactional_id_authorization_failed:
                lookup.error_by_key[key] = ClientError(
                    f"FindCoordinator request for transactionalId `{key}` failed due to"
                    " authorization failure",
                    error=ErrorCode(error_number),
                )
            case _:
                lookup.error_by_key[key] = ClientError(
                    f"FindCoordinator request for key `{key}` failed due to an unexpected error",
                    error=ErrorCode(error_number),
                )
    if any(cluster.view.broker(broker_id) is None for broker_id in lookup.mapped.values()):
        await cluster.refresh(deadline=deadline)
    return lookup


def fixed_broker(broker_id: int) -> LookUp[K]:
    """Every key belongs to one broker (StaticBrokerStrategy)."""

    async def look_up(_cluster: Cluster, keys: Sequence[K], _: Deadline) -> KeyLookup[K]:
        return KeyLookup(mapped=dict.fromkeys(keys, broker_id))

    return look_up
