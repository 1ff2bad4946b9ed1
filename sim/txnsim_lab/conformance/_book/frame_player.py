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
from txnsim_lab.conformance._book.targets import ALONE, Around
from txnsim_lab.conformance._book.transcript import Transcript

KEYS: Final = {name: key for key, (name, _) in APIS.items()}
NO_SUCH_ID: Final = uuid.UUID("11111111-2222-4333-8444-555555555555")
"""A topic id that no topic has."""

Story = Callable[["FramePlayer"], None]
Topic = tuple[str, Any]
"""(name, topic id)."""

_PAUSE_S: Final = 0.01
_STEPS_AT_ONCE: Final = 200
_ASKED_ABOVE_A_LEAP: Final = 20
_LATER_QUESTIONS: Final = 3
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
        version: The wanted version.
    """

    def __init__(self, api: str, version: int) -> None:
        super().__init__(f"the broker does not offer {api} v{version}")


class FramePlayer:
    """Plays a case against one broker.

    Args:
        address: Address of the broker.
        scene: Prefix of every name that the case uses, so that cases do not affect each other.
        level: Finalized level of ``transaction.version``.
        around: The surroundings on a cluster with other users.
    """

    def __init__(self, address: str, *, scene: str, level: int, around: Around = ALONE) -> None:
        self.transcript = Transcript()
        self.level = level
        self._around = around
        self._address = address
        self._scene = scene
        self._topics_to_wait_for = 0
        self._connection = RawConnection(address)

    def close(self) -> None:
        self._connection.close()

    def name(self, short_name: str = "t") -> str:
        """A name that only this case uses."""
        return f"{self._scene}-{short_name}"

    # Asking

    def ask(self, api: str, version: int, note: str = "", **values: Any) -> Any:
        """Send a request, add the answer to the transcript, and return it."""
        answer = self.quiet(api, version, **values)
        self.note(f"{api} v{version} {note}".rstrip(), answer)
        return answer

    def quiet(self, api: str, version: int, **values: Any) -> Any:
        answer = self._connection.ask(KEYS[api], version, **values)
        if answer is NoAnswer.CLOSED:
            self.reconnect()
        return answer

    def ask_bytes(self, note: str, data: bytes) -> bytes | NoAnswer:
        """Send raw bytes on a new connection; add what comes back to the transcript."""
        with RawConnection(self._address) as connection:
            connection.send_bytes(data)
            answer = connection.receive_frame()
        self.note(note, answer if isinstance(answer, NoAnswer) else answer.hex())
        return answer

    def ask_in_vain(self, api: str, version: int, note: str, **values: Any) -> None:
        """Send a request that should get no answer on a new connection; add what happens to the
        transcript.
        """
        with RawConnection(self._address) as connection:
            connection.send(KEYS[api], version, **values)
            # A broker that has answered later questions has had its time for this one, too.
            for _ in range(_LATER_QUESTIONS):
                self.quiet("ApiVersions", 0)
            answer = connection.silence()
        self.note(
            f"{api} v{version} {note}",
            answer if isinstance(answer, NoAnswer) else f"answered {len(answer)} bytes",
        )

    def note(self, label: str, answer: object) -> None:
        """Add an entry to the transcript."""
        self.transcript.note(label, answer)

    def reconnect(self, client_id: str | None = "differ") -> None:
        """Continue with a new connection."""
        self.close()
        self._connection = RawConnection(self._address, client_id=client_id)

    def until(self, is_ready: Callable[[Any], bool], api: str, version: int, **values: Any) -> Any:
        deadline_s = RawConnection.now_s() + self._around.patience_s
        while True:
            answer = self.quiet(api, version, **values)
            if is_ready(answer):
                return answer
            assert RawConnection.now_s() < deadline_s, f"{api} stays {answer}"
            RawConnection.pause(_PAUSE_S)

    def ask_until_settled(self, api: str, version: int, note: str = "", **values: Any) -> Any:
        answer = self.until(
            lambda answer: answer.error_code not in _RETRIABLE_ERRORS, api, version, **values
        )
        self.note(f"{api} v{version} {note}".rstrip(), answer)
        return answer

    # What many stories do first; nothing of it is written down

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        """A new topic that all its leaders know. Its log keeps its records in one segment: the
        records have old times, next to markers with present ones, and would otherwise roll the
        segment or expire at once.
        """
        lasting_configs = {"segment_ms": str(2**63 - 1), "retention_ms": "-1"}
        return self.plain_topic(name, partitions, **{**lasting_configs, **configs})

    def plain_topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        """A new topic with only these configs."""
        topic_name = self.name(name)
        create_version, metadata_version = (
            self._newest(*api_and_version)
            for api_and_version in (("CreateTopics", 7), ("Metadata", 12))
        )
        self.quiet(
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
        metadata = self.until(
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
            self.until(
                lambda answer: answer.topics[0].partitions[0].error_code is ErrorCode.none,
                "ListOffsets",
                self._newest("ListOffsets", 7),
                replica_id=-1,
                topics=[
                    {
                        "name": topic_name,
                        "partitions": [{"partition_index": partition_index, "timestamp": -1}],
                    }
                ],
            )
        return topic_name, getattr(metadata, "topic_id", None)

    def _newest(self, api: str, highest: int) -> int:
        """The newest version up to a wanted one that the broker offers.

        Raises:
            NotOfferedError: There is none.
        """
        version = self._around.version(api, highest)
        if version is None:
            raise NotOfferedError(api, highest)
        return version

    def caught_up(self) -> None:
        """Wait until the broker has applied all that the controller has decided so far. It creates
        a topic and waits for it, since a broker applies decisions in order.
        """
        self.plain_topic(self.next_wait())

    def next_wait(self) -> str:
        """A name for a topic that is created only to wait for it."""
        self._topics_to_wait_for += 1
        return f"wait-{self._topics_to_wait_for}"

    def coordinator(self, transactional_id: str) -> None:
        """Wait until the transactional id has a loaded coordinator."""
        self.until(
            lambda answer: answer.error_code is ErrorCode.none,
            "FindCoordinator",
            self._newest("FindCoordinator", 1),
            key=transactional_id,
            key_type=1,
        )
        if self._around.version("DescribeTransactions", 0) is not None:
            self.until(
                lambda answer: answer.transaction_states[0].error_code not in _RETRIABLE_ERRORS,
                "DescribeTransactions",
                0,
                transactional_ids=[transactional_id],
            )

    def producer(self, transactional_id: str | None = None, timeout_ms: int = 60_000) -> Any:
        """Get a producer id and epoch: the answer to InitProducerId."""
        if transactional_id is not None:
            self.coordinator(transactional_id)
        return self.until(
            lambda answer: answer.error_code not in _RETRIABLE_ERRORS,
            "InitProducerId",
            self._newest("InitProducerId", 4),
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
        )

    def climb(self, transactional_id: str, epoch: int) -> None:
        reached_epoch = self.producer(transactional_id).producer_epoch
        if epoch - reached_epoch > _ASKED_ABOVE_A_LEAP:
            epoch_below = epoch - _ASKED_ABOVE_A_LEAP
            if RawConnection.age(transactional_id, epoch_below):
                reached_epoch = epoch_below
        values = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
        while reached_epoch < epoch:
            step_count = min(_STEPS_AT_ONCE, epoch - reached_epoch)
            answers = self._connection.ask_often(KEYS["InitProducerId"], 4, step_count, **values)
            # The last answer with an epoch has the highest; CONCURRENT_TRANSACTIONS has none.
            reached_epoch = next(
                answer.producer_epoch for answer in answers if answer.producer_epoch >= 0
            )

    def until_state(self, transactional_id: str, state: str) -> None:
        """Wait until a transactional id has a state."""
        self.until(
            lambda answer: answer.transaction_states[0].transaction_state == state,
            "DescribeTransactions",
            self._newest("DescribeTransactions", 0),
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


def add_values(
    transactional_id: str,
    pid: int,
    epoch: int,
    topics: list[tuple[str, list[int]]],
    *,
    verify: bool = False,
) -> dict[str, Any]:
    """The fields of AddPartitionsToTxn, in the forms of both older and newer versions."""
    asked_topics = [
        {"name": topic_name, "partitions": partitions} for topic_name, partitions in topics
    ]
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": pid,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": asked_topics,
        "transactions": [
            {
                "transactional_id": transactional_id,
                "producer_id": pid,
                "producer_epoch": epoch,
                "verify_only": verify,
                "topics": asked_topics,
            }
        ],
    }
