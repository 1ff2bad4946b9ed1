"""Sends single requests to the brokers of the corpus, in the requested version.

Requests that an honest client would never send are needed as well, and every answer is kept as
truth: so there is no client library in between. Answers that only mean "not yet" are repeated.
"""

from __future__ import annotations

import contextlib
import datetime
import time  # noqa: TID251 - waits for processes on the real machine
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from tests.spark.pipeline.corpus.truth import Place
from txnsim.client.raw.connection import NoAnswer, RawConnection
from txnsim.errors import ErrorCode
from txnsim.wire.apis import APIS

KEYS: Final = {name: key for key, (name, _) in APIS.items()}
PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.01
NOT_YET: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
    }
)
VERIFIED_YET: Final = frozenset({ErrorCode.transaction_abortable, ErrorCode.invalid_producer_epoch})
"""Errors of Produce while a broker has not yet heard that verification is switched off."""
GROUP: Final = 0
TRANSACTION: Final = 1
"""Key types of FindCoordinator."""


class RawBrokers:
    """Connections to brokers, by node id."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self._addresses = dict(addresses)
        self._connections: dict[int, RawConnection] = {}
        self._leaders: dict[Place, int] = {}

    def __enter__(self) -> RawBrokers:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def lose(self, broker: int) -> None:
        """Forget a broker that stops: its leaderships move, and it is not asked any more."""
        del self._addresses[broker]
        self._connections.pop(broker).close()
        self._leaders.clear()

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(self._addresses)

    # Asking

    def ask(self, api: str, version: int, *, broker: int = 1, **request_fields: Any) -> Any:
        """Send one request to one broker; returns its answer."""
        connection = self._connections.get(broker)
        if connection is None:
            connection = RawConnection(self._addresses[broker], client_id="corpus")
            self._connections[broker] = connection
        answer = connection.ask(KEYS[api], version, **request_fields)
        assert not isinstance(answer, NoAnswer), f"{api} v{version} to {broker}: {answer.value}"
        return answer

    def until(
        self,
        is_ready: Callable[[Any], bool],
        api: str,
        version: int,
        *,
        broker: int = 1,
        **request_fields: Any,
    ) -> Any:
        """Repeat a request until the answer is ready."""
        return wait_for(
            lambda: self.ask(api, version, broker=broker, **request_fields), is_ready, api
        )

    def ask_coordinator(
        self, api: str, version: int, key: str, key_type: int, **request_fields: Any
    ) -> Any:
        """Repeat a request to the coordinator of a group or transactional id until it is ready to
        answer.
        """

        def ask_once() -> Any:
            coordinator = self.ask("FindCoordinator", 2, key=key, key_type=key_type)
            if (
                coordinator.error_code != ErrorCode.none
                or coordinator.node_id not in self._addresses
            ):
                return None
            return self.ask(api, version, broker=coordinator.node_id, **request_fields)

        return wait_for(ask_once, lambda answer: answer is not None and not _not_yet(answer), api)

    # Partitions

    def metadata(self, topics: Sequence[str] | None = None) -> Any:
        names = None if topics is None else [{"name": topic_name} for topic_name in topics]
        return self.ask("Metadata", 12, topics=names, allow_auto_topic_creation=False)

    def leader(self, partition: Place) -> int:
        """The leader of a partition; waits until there is one."""
        if partition not in self._leaders:
            answer = wait_for(
                lambda: self.metadata([partition.topic]),
                lambda answer: (
                    answer.topics[0].error_code == ErrorCode.none
                    and _leader_of(answer, partition) in self._addresses
                ),
                f"leader of {partition}",
            )
            self._leaders[partition] = _leader_of(answer, partition)
        return self._leaders[partition]

    def produce(
        self, partition: Place, batch: bytes, *, version: int, transactional_id: str | None = None
    ) -> tuple[ErrorCode, int]:
        """Append one batch with acks=-1; returns error and first offset."""
        row = {"index": partition.partition, "records": batch}
        answer = self.ask(
            "Produce",
            version,
            broker=self.leader(partition),
            transactional_id=transactional_id,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": partition.topic, "partition_data": [row]}],
        )
        partition_response = answer.responses[0].partition_responses[0]
        return ErrorCode(partition_response.error_code), partition_response.base_offset

    def produce_until_accepted(
        self, partition: Place, batch: bytes, *, version: int, transactional_id: str | None = None
    ) -> int:
        """Append one batch, as soon as the leader is ready for it; returns its first offset."""

        def ask_once() -> tuple[ErrorCode, int]:
            answer = self.produce(
                partition, batch, version=version, transactional_id=transactional_id
            )
            if answer[0] in NOT_YET:
                self._leaders.pop(partition, None)
            return answer

        retried_errors = NOT_YET | VERIFIED_YET
        error, offset = wait_for(
            ask_once, lambda answer: answer[0] not in retried_errors, f"Produce to {partition}"
        )
        assert error == ErrorCode.none, f"{partition}: {error.name}"
        return int(offset)

    def offset(self, partition: Place, timestamp: int, *, committed: bool = False) -> int:
        """ListOffsets of the leader: -1 asks for the end (with ``committed`` for the last stable
        offset), -2 for the start.
        """
        partition_request = {"partition_index": partition.partition, "current_leader_epoch": -1}
        topics = [
            {"name": partition.topic, "partitions": [{**partition_request, "timestamp": timestamp}]}
        ]

        def ask_once() -> Any:
            answer = self.ask(
                "ListOffsets",
                7,
                broker=self.leader(partition),
                replica_id=-1,
                isolation_level=int(committed),
                topics=topics,
            )
            row = answer.topics[0].partitions[0]
            if row.error_code != ErrorCode.none:
                self._leaders.pop(partition, None)
            return row

        row_found = wait_for(
            ask_once, lambda row: row.error_code == ErrorCode.none, f"end of {partition}"
        )
        return int(row_found.offset)

    def describe_transaction(self, transactional_id: str) -> Any:
        answer = self.ask_coordinator(
            "DescribeTransactions",
            0,
            transactional_id,
            TRANSACTION,
            transactional_ids=[transactional_id],
        )
        return answer.transaction_states[0]

    def until_state(self, transactional_id: str, *states: str) -> Any:
        """Wait until a transactional id is in one of these states; returns its description."""
        return wait_for(
            lambda: self.describe_transaction(transactional_id),
            lambda description: description.transaction_state in states,
            f"{transactional_id} to be {states}",
        )

    # The cluster

    def create_topic(
        self,
        name: str,
        *,
        partitions: Sequence[Sequence[int]] = ((1, 2),),
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic with these replicas, and wait until they are in sync and the first ones
        lead.
        """
        assignments = [
            {"partition_index": partition_index, "broker_ids": list(brokers)}
            for partition_index, brokers in enumerate(partitions)
        ]
        rows = [
            {"name": config_name, "value": config_value}
            for config_name, config_value in (configs or {}).items()
        ]
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1}
        answer = self.ask(
            "CreateTopics",
            7,
            topics=[{**topic, "assignments": assignments, "configs": rows}],
            timeout=30_000,
        )
        error = ErrorCode(answer.topics[0].error_code)
        assert error == ErrorCode.none, f"{name}: {error.name} {answer.topics[0].error_message}"
        for partition_index, brokers in enumerate(partitions):
            self.until_in_sync(Place(name, partition_index), brokers)

    def until_in_sync(self, partition: Place, brokers: Sequence[int]) -> None:
        """Wait until these replicas are in sync, and the first one leads."""
        wait_for(
            lambda: self.metadata([partition.topic]).topics[0],
            lambda topic: any(
                row.partition_index == partition.partition
                and row.leader_id == brokers[0]
                and set(row.isr_nodes) == set(brokers)
                for row in topic.partitions
            ),
            f"{partition} in sync on {brokers}",
        )
        self._leaders.pop(partition, None)
        self.offset(partition, -1)

    def configure(
        self, resource_type: int, resource_name: str, values: Mapping[str, str | None]
    ) -> None:
        """Send IncrementalAlterConfigs; kind 2 is a topic, 4 with an empty name all brokers."""
        rows = [
            {"name": key, "config_operation": int(property_value is None), "value": property_value}
            for key, property_value in values.items()
        ]
        resource = {"resource_type": resource_type, "resource_name": resource_name, "configs": rows}
        answer = self.ask("IncrementalAlterConfigs", 1, resources=[resource])
        assert answer.responses[0].error_code == ErrorCode.none, answer

    def set_transaction_version(self, transaction_version: int, *, is_upgrade: bool) -> None:
        """Set the level of ``transaction.version`` with UpdateFeatures."""
        update = {"feature": "transaction.version", "max_version_level": transaction_version}
        answer = self.ask(
            "UpdateFeatures",
            1,
            timeout=30_000,
            feature_updates=[{**update, "upgrade_type": 1 if is_upgrade else 2}],
        )
        assert answer.error_code == ErrorCode.none, answer


def wait_for(ask: Callable[[], Any], is_ready: Callable[[Any], bool], subject: str) -> Any:
    """Call ``ask`` until the answer is ready; returns the answer."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_ready(answer := ask()):
        assert time.monotonic() < deadline_s, f"{subject}: still {answer}"
        time.sleep(_PAUSE_S)
    return answer


def now_ms() -> int:
    """Wall time in ms, as brokers have it."""
    return time.time_ns() // 1_000_000


def as_ms(moment: datetime.datetime | None) -> int:
    """A time in an answer in milliseconds; -1 for none."""
    return -1 if moment is None else round(moment.timestamp() * 1_000)


def _leader_of(answer: Any, partition: Place) -> int:
    with contextlib.suppress(StopIteration):
        return next(
            int(row.leader_id)
            for row in answer.topics[0].partitions
            if row.partition_index == partition.partition
        )
    return -1


def _not_yet(answer: Any) -> bool:
    """Whether a coordinator's answer only means that it is not ready."""
    errors = [getattr(answer, "error_code", ErrorCode.none)]
    for row in getattr(answer, "transaction_states", ()) or getattr(answer, "groups", ()):
        errors.append(row.error_code)
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        errors += [row.partition_error_code for row in topic.results_by_partition]
    for topic in getattr(answer, "topics", ()):
        errors += [row.error_code for row in topic.partitions]
    return any(error in NOT_YET for error in errors)
