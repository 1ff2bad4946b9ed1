"""Sends requests to one broker, frame by frame, and keeps a transcript of its answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from txnsim.client.raw.connection import NoAnswer, RawConnection
from txnsim.errors import ErrorCode
from txnsim.wire.apis import APIS
from txnsim.wire.batch import Record, build_batch
from txnsim_lab.conformance._book.batches import STAMP_MS
from txnsim_lab.conformance._book.targets import NO_OTHER_USERS, PlaySurroundings
from txnsim_lab.conformance._book.transcript import Transcript

API_KEYS: Final = {api_name: api_key for api_key, (api_name, _) in APIS.items()}
UNUSED_TOPIC_ID: Final = uuid.UUID("11111111-2222-4333-8444-555555555555")
"""A topic id that no topic has."""

Story = Callable[["FramePlayer"], None]
Topic = tuple[str, Any]
"""(name, topic id)."""

_RETRY_PAUSE_S: Final = 0.01
_EPOCHS_AT_ONCE: Final = 200
_EPOCHS_ABOVE_LEAP: Final = 20
_LATER_REQUEST_COUNT: Final = 3
_RETRIABLE_ERRORS: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)


class NotOfferedError(Exception):
    """The broker does not offer that version of an API.

    Args:
        api: Name of the API.
        version: The version that a request needs.
    """

    def __init__(self, api: str, version: int) -> None:
        super().__init__(f"the broker does not offer {api} v{version}")


class FramePlayer:
    """Plays a case against one broker.

    Args:
        address: Address of the broker.
        play_prefix: Prefix of every name that the case uses, so that cases do not affect each
            other.
        level: Finalized level of ``transaction.version``.
        surroundings: The limits on a cluster with other users.
    """

    def __init__(
        self,
        address: str,
        *,
        play_prefix: str,
        level: int,
        surroundings: PlaySurroundings = NO_OTHER_USERS,
    ) -> None:
        self.transcript = Transcript()
        self.level = level
        self._surroundings = surroundings
        self._address = address
        self._play_prefix = play_prefix
        self._topics_to_wait_for = 0
        self._connection = RawConnection(address)

    def close(self) -> None:
        self._connection.close()

    def full_name(self, short_name: str = "t") -> str:
        """A name that only this case uses."""
        return f"{self._play_prefix}-{short_name}"

    # Asking

    def ask(self, api: str, version: int, note: str = "", **fields: Any) -> Any:
        """Send a request, add the answer to the transcript, and return it."""
        answer = self.ask_unrecorded(api, version, **fields)
        self.note(f"{api} v{version} {note}".rstrip(), answer)
        return answer

    def ask_unrecorded(self, api: str, version: int, **fields: Any) -> Any:
        answer = self._connection.ask(API_KEYS[api], version, **fields)
        if answer is NoAnswer.CLOSED:
            self.reconnect()
        return answer

    def ask_bytes(self, note: str, request_bytes: bytes) -> bytes | NoAnswer:
        """Send raw bytes on a new connection; add what comes back to the transcript."""
        with RawConnection(self._address) as connection:
            connection.send_bytes(request_bytes)
            answer = connection.receive_frame()
        self.note(note, answer if isinstance(answer, NoAnswer) else answer.hex())
        return answer

    def ask_unanswered(self, api: str, version: int, note: str, **fields: Any) -> None:
        """Send a request that should get no answer on a new connection; add what happens to the
        transcript.
        """
        with RawConnection(self._address) as connection:
            connection.send(API_KEYS[api], version, **fields)
            # A broker that has answered later questions has had its time for this one, too.
            for _ in range(_LATER_REQUEST_COUNT):
                self.ask_unrecorded("ApiVersions", 0)
            answer = connection.silence()
        self.note(
            f"{api} v{version} {note}",
            answer if isinstance(answer, NoAnswer) else f"answered {len(answer)} bytes",
        )

    def note(self, label: str, answer: object) -> None:
        """Add an entry to the transcript."""
        self.transcript.note(label, answer)

    def reconnect(self, client_id: str | None = "differ") -> None:
        """Close the connection and open a new one."""
        self.close()
        self._connection = RawConnection(self._address, client_id=client_id)

    def ask_until(
        self, is_ready: Callable[[Any], bool], api: str, version: int, **fields: Any
    ) -> Any:
        deadline_s = RawConnection.now_s() + self._surroundings.patience_s
        while True:
            answer = self.ask_unrecorded(api, version, **fields)
            if is_ready(answer):
                return answer
            assert RawConnection.now_s() < deadline_s, f"{api} stays {answer}"
            RawConnection.pause(_RETRY_PAUSE_S)

    def ask_until_settled(self, api: str, version: int, note: str = "", **fields: Any) -> Any:
        answer = self.ask_until(
            lambda answer: answer.error_code not in _RETRIABLE_ERRORS, api, version, **fields
        )
        self.note(f"{api} v{version} {note}".rstrip(), answer)
        return answer

    # What many stories do first; nothing of it is written down

    def create_topic(self, short_name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        """Create a topic, and wait until its leaders know it. Its log keeps its records in one
        segment: the records have old times, next to markers with present ones, and would otherwise
        roll the segment or expire at once.
        """
        lasting_configs = {"segment_ms": str(2**63 - 1), "retention_ms": "-1"}
        return self.create_plain_topic(short_name, partitions, **{**lasting_configs, **configs})

    def create_plain_topic(
        self, short_name: str = "t", partitions: int = 1, **configs: str
    ) -> Topic:
        """Create a topic with only these configs, and wait until its leaders know it."""
        topic_name = self.full_name(short_name)
        create_version, metadata_version = (
            self._newest_version(*api_and_version)
            for api_and_version in (("CreateTopics", 7), ("Metadata", 12))
        )
        self.ask_unrecorded(
            "CreateTopics",
            create_version,
            topics=[
                {
                    "name": topic_name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [
                        {"name": config_key.replace("_", "."), "value": config_value}
                        for config_key, config_value in configs.items()
                    ],
                }
            ],
        )
        metadata = self.ask_until(
            lambda answer: (
                answer.topics[0].error_code is ErrorCode.none
                and all(partition.leader_id >= 0 for partition in answer.topics[0].partitions)
            ),
            "Metadata",
            metadata_version,
            topics=[{"name": topic_name}],
            allow_auto_topic_creation=False,
        ).topics[0]
        for partition_index in range(partitions):
            self.ask_until(
                lambda answer: answer.topics[0].partitions[0].error_code is ErrorCode.none,
                "ListOffsets",
                self._newest_version("ListOffsets", 7),
                replica_id=-1,
                topics=[
                    {
                        "name": topic_name,
                        "partitions": [{"partition_index": partition_index, "timestamp": -1}],
                    }
                ],
            )
        return topic_name, getattr(metadata, "topic_id", None)

    def _newest_version(self, api: str, highest_wanted_version: int) -> int:
        """The newest version that the broker offers, up to ``highest_wanted_version``.

        Raises:
            NotOfferedError: The broker offers none of these versions.
        """
        version = self._surroundings.chosen_version(api, highest_wanted_version)
        if version is None:
            raise NotOfferedError(api, highest_wanted_version)
        return version

    def await_metadata(self) -> None:
        """Wait until the broker has applied all that the controller has decided so far. It creates
        a topic and waits for it, since a broker applies decisions in order.
        """
        self.create_plain_topic(self.next_awaited_topic())

    def next_awaited_topic(self) -> str:
        """A new name for a topic that is created only to wait for it."""
        self._topics_to_wait_for += 1
        return f"wait-{self._topics_to_wait_for}"

    def await_coordinator(self, transactional_id: str) -> None:
        """Wait until the transactional id has a loaded coordinator."""
        self.ask_until(
            lambda answer: answer.error_code is ErrorCode.none,
            "FindCoordinator",
            self._newest_version("FindCoordinator", 1),
            key=transactional_id,
            key_type=1,
        )
        if self._surroundings.chosen_version("DescribeTransactions", 0) is not None:
            self.ask_until(
                lambda answer: answer.transaction_states[0].error_code not in _RETRIABLE_ERRORS,
                "DescribeTransactions",
                0,
                transactional_ids=[transactional_id],
            )

    def init_producer(self, transactional_id: str | None = None, timeout_ms: int = 60_000) -> Any:
        """Get a producer id and epoch: the answer to InitProducerId."""
        if transactional_id is not None:
            self.await_coordinator(transactional_id)
        return self.ask_until(
            lambda answer: answer.error_code not in _RETRIABLE_ERRORS,
            "InitProducerId",
            self._newest_version("InitProducerId", 4),
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
        )

    def raise_epoch(self, transactional_id: str, epoch: int) -> None:
        reached_epoch = self.init_producer(transactional_id).producer_epoch
        if epoch - reached_epoch > _EPOCHS_ABOVE_LEAP:
            epoch_below = epoch - _EPOCHS_ABOVE_LEAP
            if RawConnection.age(transactional_id, epoch_below):
                reached_epoch = epoch_below
        request_fields = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
        while reached_epoch < epoch:
            step_count = min(_EPOCHS_AT_ONCE, epoch - reached_epoch)
            init_answers = self._connection.ask_often(
                API_KEYS["InitProducerId"], 4, step_count, **request_fields
            )
            # The last answer with an epoch has the highest; CONCURRENT_TRANSACTIONS has none.
            reached_epoch = next(
                answer.producer_epoch for answer in init_answers if answer.producer_epoch >= 0
            )

    def await_state(self, transactional_id: str, state: str) -> None:
        """Wait until a transactional id has a state."""
        self.ask_until(
            lambda answer: answer.transaction_states[0].transaction_state == state,
            "DescribeTransactions",
            self._newest_version("DescribeTransactions", 0),
            transactional_ids=[transactional_id],
        )


def records(*values: str, **header: Any) -> bytes:
    """Build a batch of records with these values."""
    header.setdefault("timestamp_ms", STAMP_MS)
    return build_batch([Record(key=b"k", value=value.encode()) for value in values], **header)


def produce(
    topic: Topic,
    batch: bytes | None,
    version: int,  # noqa: ARG001 - as callers of all verbs have one
    *,
    partition: int = 0,
    transactional_id: str | None = None,
    acks: int = -1,
) -> dict[str, Any]:
    """The fields of a Produce request with one batch."""
    topic_name, topic_id = topic
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": 15_000,
        "topic_data": [
            {
                "name": topic_name,
                "topic_id": topic_id,
                "partition_data": [{"index": partition, "records": batch}],
            }
        ],
    }


def fetch(
    topic: Topic,
    offset: int = 0,
    *,
    partition: int = 0,
    isolation: int = 0,
    max_wait_ms: int = 0,
    **partition_fields: Any,
) -> dict[str, Any]:
    """Return the fields of a Fetch request for one partition; ``partition_fields`` are added to the
    partition.
    """
    topic_name, topic_id = topic
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": isolation,
        "topics": [
            {
                "topic": topic_name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": 1 << 20,
                        **partition_fields,
                    }
                ],
            }
        ],
    }


def add_partitions_values(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: list[tuple[str, list[int]]],
    *,
    only_verifies: bool = False,
) -> dict[str, Any]:
    """The fields of AddPartitionsToTxn, in the forms of both older and newer versions."""
    asked_topics = [
        {"name": topic_name, "partitions": partitions} for topic_name, partitions in topics
    ]
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": producer_epoch,
        "v3_and_below_topics": asked_topics,
        "transactions": [
            {
                "transactional_id": transactional_id,
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "verify_only": only_verifies,
                "topics": asked_topics,
            }
        ],
    }
