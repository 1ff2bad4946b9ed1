"""The curious client: it sends the requests that were drawn, and keeps a digest of each answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from txnsim.client.cluster import Cluster
from txnsim.client.errors import code_name
from txnsim.errors import ErrorCode
from txnsim.types import PRODUCER_EPOCH_MAX, TopicPartition
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.codec import request_class
from txnsim_lab.scenario.actors.base import Surroundings
from txnsim_lab.scenario.call_results import CallResult
from txnsim_lab.simulation._curious_requests import (
    API_KEYS,
    CURIOUS_FEATURE,
    OWN_TOPICS,
    CuriousRequest,
    DrawnBatch,
    RememberedField,
    hints_of,
)
from txnsim_lab.simulation.plan import StepBody

ASK_KEY: Final = "ask"
"""Key of the step that sends a drawn request."""
PATIENCE_MS: Final = 10_000
_INITIAL_FIELDS: Final = {
    "producer_id": -1,
    "producer_epoch": -1,
    "member_id": "",
    "member_epoch": 0,
    "generation_id": -1,
}
"""Fields that are remembered from answers -> value before any answer."""
_GENERATION_OR_EPOCH: Final = "generation_id_or_member_epoch"
_NOT_A_MEMBER_ERRORS: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch)


class Curious:
    """Sends any request, and remembers fields of the answers."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._cluster: Cluster | None = None
        self._remembered_fields: dict[tuple[str, str], Any] = {}
        self._sequence_by_producer: dict[tuple[Any, ...], int] = {}

    async def ask(self, request: CuriousRequest) -> CallResult:
        """Send a request, and return the answer's error with a digest of the whole answer.

        Raises:
            ClientError: There was no answer.
        """
        if self._cluster is None:
            self._cluster = self._surroundings.client(
                CURIOUS_FEATURE, request_timeout_ms=PATIENCE_MS
            )
            await self._cluster.connect()
            await self._cluster.refresh(OWN_TOPICS)
        api_key, version = API_KEYS[request["api"]], request["version"]
        request_message = self._build_message(request_class(api_key, version), request["fields"])
        broker = await self._choose_broker(self._cluster, request["to"])
        answer = await (await self._cluster.connection(broker)).ask_in_version(
            api_key, version, request_message
        )
        error = next((code for code in _error_codes_of(answer) if code), ErrorCode.none)
        self._remember(request["fields"], answer, error)
        answer_digest = hashlib.blake2b(repr(answer).encode(), digest_size=4).hexdigest()
        return CallResult(error=code_name(error), because=answer_digest)

    async def close(self) -> None:
        if self._cluster is not None:
            await self._cluster.close()

    async def _choose_broker(self, cluster: Cluster, addressee: StepBody) -> int:
        deadline = cluster.deadline(PATIENCE_MS)
        match addressee:
            case {"leader": partition}:
                topic, _, index_text = partition.rpartition("-")
                cluster.forget_leader(topic)
                topic_partition = TopicPartition(topic, int(index_text))
                return (await cluster.leader(topic_partition, deadline=deadline)).leader_id
            case {"group": group}:
                return await cluster.group_coordinator(group, deadline)
            case {"id": own_id}:
                cluster.forget_coordinator(own_id)
                return await cluster.coordinator(own_id, deadline=deadline)
        return int(addressee["broker"])

    # From what was drawn

    def _build_message(
        self, message_class: Any, drawn_fields: StepBody, enclosing_keys: tuple[Any, ...] = ()
    ) -> Any:
        """Build a message, or a part of one.

        ``enclosing_keys`` has the names and indexes of the enclosing parts.
        """
        enclosing_keys = (
            *enclosing_keys,
            *(drawn_fields[name] for name in ("name", "index") if name in drawn_fields),
        )
        message_fields = {}
        for hint in hints_of(message_class):
            drawn_value = drawn_fields[hint.name]
            if hint.is_list and drawn_value is not None:
                repeat_count = drawn_value["times"] if isinstance(drawn_value, dict) else 1
                elements = [drawn_value["each"]] if isinstance(drawn_value, dict) else drawn_value
                drawn_value = (
                    tuple(
                        self._build_value(hint.kind, element, enclosing_keys)
                        for element in elements
                    )
                    * repeat_count
                )
            else:
                drawn_value = self._build_value(hint.kind, drawn_value, enclosing_keys)
            message_fields[hint.name] = drawn_value
        return message_class(**message_fields)

    def _build_value(
        self, value_class: Any, drawn_value: Any, enclosing_keys: tuple[Any, ...]
    ) -> Any:
        match drawn_value:
            case None:
                return None
            case {"told": _}:
                return self._remembered_value(drawn_value)
            case {"id-of": topic}:
                topic_view = None if self._cluster is None else self._cluster.view.topic(topic)
                return UUID(int=1) if topic_view is None else topic_view.topic_id
            case {"batch": _}:
                return self._build_batch(drawn_value, enclosing_keys)
        if is_dataclass(value_class):
            return self._build_message(value_class, drawn_value, enclosing_keys)
        if issubclass(value_class, timedelta):
            return timedelta(milliseconds=drawn_value)
        if value_class is bytes:
            return bytes.fromhex(drawn_value)
        return float(drawn_value) if issubclass(value_class, float) else drawn_value

    def _remembered_value(self, remembered_field: RememberedField) -> int | str:
        value_told: int | str = self._recall(remembered_field["told"], remembered_field["of"])
        if isinstance(value_told, str):
            return value_told
        largest_value = (
            PRODUCER_EPOCH_MAX if remembered_field["told"] == "producer_epoch" else (1 << 31) - 1
        )
        return min(value_told + remembered_field.get("plus", 0), largest_value)

    def _build_batch(self, drawn_batch: DrawnBatch, enclosing_keys: tuple[Any, ...]) -> bytes:
        now_ms = self._surroundings.environment.clock.now_ms()
        producer_id = self._recall("producer_id", drawn_batch["of"])
        epoch = self._recall("producer_epoch", drawn_batch["of"])
        producer_key = (producer_id, epoch, *enclosing_keys)
        sequence = self._sequence_by_producer.get(producer_key, 0)
        self._sequence_by_producer[producer_key] = sequence + len(drawn_batch["batch"])
        has_sequence = producer_id >= 0
        epoch = min(max(0, epoch + drawn_batch["epoch-plus"]), PRODUCER_EPOCH_MAX)
        return build_batch(
            [Record(key=bytes.fromhex(key), value=b"curious") for key in drawn_batch["batch"]],
            timestamp_ms=now_ms + drawn_batch["ahead-ms"],
            producer_id=producer_id,
            producer_epoch=epoch if has_sequence else -1,
            base_sequence=max(0, sequence + drawn_batch["sequence-plus"]) if has_sequence else -1,
            is_transactional=has_sequence,
        )

    # What earlier answers said

    def _recall(self, field_name: str, owner_id: str) -> Any:
        possible_names = (
            ("member_epoch", "generation_id")
            if field_name == _GENERATION_OR_EPOCH
            else (field_name,)
        )
        values = [
            self._remembered_fields[owner_id, possible_name]
            for possible_name in possible_names
            if (owner_id, possible_name) in self._remembered_fields
        ]
        return values[0] if values else _INITIAL_FIELDS.get(field_name, -1)

    def _remember(self, request_fields: StepBody, answer: Any, error: ErrorCode) -> None:
        owner_id = request_fields.get("transactional_id") or request_fields.get("group_id") or ""
        if "member_epoch" in request_fields:
            owner_id = f"{owner_id} {request_fields['member_id']}"
        for transaction in getattr(answer, "transaction_states", ()):
            self._remember_fields(transaction.transactional_id, transaction)
        self._remember_fields(owner_id, answer)
        if error in _NOT_A_MEMBER_ERRORS:
            self._remembered_fields = {
                key: value for key, value in self._remembered_fields.items() if key[0] != owner_id
            }

    def _remember_fields(self, owner_id: str, answer: Any) -> None:
        for field_name, initial_field_value in _INITIAL_FIELDS.items():
            field_value = getattr(answer, field_name, initial_field_value)
            if field_value not in (initial_field_value, None, -1, -2):
                self._remembered_fields[owner_id, field_name] = field_value


def _error_codes_of(answer: Any) -> Iterator[ErrorCode]:
    if isinstance(answer, tuple):
        for answer_part in answer:
            yield from _error_codes_of(answer_part)
    elif is_dataclass(answer):
        for field in fields(answer):
            value = getattr(answer, field.name)
            if isinstance(value, ErrorCode):
                yield value
            else:
                yield from _error_codes_of(value)
