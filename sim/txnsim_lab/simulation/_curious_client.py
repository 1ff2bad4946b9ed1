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
    CURIOUS,
    KEYS,
    TOPICS,
    CuriousRequest,
    DrawnBatch,
    RememberedField,
    hints_of,
)
from txnsim_lab.simulation._plan import Body

ASK: Final = "ask"
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
        self._around = surroundings
        self._cluster: Cluster | None = None
        self._remembered_fields: dict[tuple[str, str], Any] = {}
        self._sequences: dict[tuple[Any, ...], int] = {}

    async def ask(self, request: CuriousRequest) -> CallResult:
        """Send a request, and return the answer's error with a digest of the whole answer.

        Raises:
            ClientError: There was no answer.
        """
        if self._cluster is None:
            self._cluster = self._around.client(CURIOUS, request_timeout_ms=PATIENCE_MS)
            await self._cluster.connect()
            await self._cluster.refresh(TOPICS)
        key, version = KEYS[request["api"]], request["version"]
        message = self._build_message(request_class(key, version), request["fields"])
        broker = await self._broker(self._cluster, request["to"])
        answer = await (await self._cluster.connection(broker)).ask_by_hand(key, version, message)
        error = next((code for code in _errors(answer) if code), ErrorCode.none)
        self._remember(request["fields"], answer, error)
        answer_digest = hashlib.blake2b(repr(answer).encode(), digest_size=4).hexdigest()
        return CallResult(error=code_name(error), because=answer_digest)

    async def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            await self._cluster.close()

    async def _broker(self, cluster: Cluster, to: Body) -> int:
        deadline = cluster.deadline(PATIENCE_MS)
        match to:
            case {"leader": partition}:
                topic, _, index = partition.rpartition("-")
                cluster.forget_leader(topic)
                where = TopicPartition(topic, int(index))
                return (await cluster.leader(where, deadline=deadline)).leader_id
            case {"group": group}:
                return await cluster.group_coordinator(group, deadline)
            case {"id": own}:
                cluster.forget_coordinator(own)
                return await cluster.coordinator(own, deadline=deadline)
        return int(to["broker"])

    # From what was drawn

    def _build_message(self, kind: Any, drawn_fields: Body, path: tuple[Any, ...] = ()) -> Any:
        """Build a message, or a part of one; ``path`` has the names and indexes of the enclosing
        parts.
        """
        path = (*path, *(drawn_fields[name] for name in ("name", "index") if name in drawn_fields))
        values = {}
        for hint in hints_of(kind):
            value = drawn_fields[hint.name]
            if hint.is_list and value is not None:
                times = value["times"] if isinstance(value, dict) else 1
                elements = [value["each"]] if isinstance(value, dict) else value
                value = (
                    tuple(self._build_value(hint.kind, element, path) for element in elements)
                    * times
                )
            else:
                value = self._build_value(hint.kind, value, path)
            values[hint.name] = value
        return kind(**values)

    def _build_value(self, kind: Any, value: Any, path: tuple[Any, ...]) -> Any:
        match value:
            case None:
                return None
            case {"told": _}:
                return self._remembered_value(value)
            case {"id-of": topic}:
                topic_view = None if self._cluster is None else self._cluster.view.topic(topic)
                return UUID(int=1) if topic_view is None else topic_view.topic_id
            case {"batch": _}:
                return self._batch(value, path)
        if is_dataclass(kind):
            return self._build_message(kind, value, path)
        if issubclass(kind, timedelta):
            return timedelta(milliseconds=value)
        if kind is bytes:
            return bytes.fromhex(value)
        return float(value) if issubclass(kind, float) else value

    def _remembered_value(self, field: RememberedField) -> int | str:
        remembered: int | str = self._recall(field["told"], field["of"])
        if isinstance(remembered, str):
            return remembered
        most = PRODUCER_EPOCH_MAX if field["told"] == "producer_epoch" else (1 << 31) - 1
        return min(remembered + field.get("plus", 0), most)

    def _batch(self, drawn_batch: DrawnBatch, path: tuple[Any, ...]) -> bytes:
        now_ms = self._around.environment.clock.now_ms()
        producer_id = self._recall("producer_id", drawn_batch["of"])
        epoch = self._recall("producer_epoch", drawn_batch["of"])
        identity = (producer_id, epoch, *path)
        sequence = self._sequences.get(identity, 0)
        self._sequences[identity] = sequence + len(drawn_batch["batch"])
        numbered = producer_id >= 0
        epoch = min(max(0, epoch + drawn_batch["epoch-plus"]), PRODUCER_EPOCH_MAX)
        return build_batch(
            [Record(key=bytes.fromhex(key), value=b"curious") for key in drawn_batch["batch"]],
            timestamp_ms=now_ms + drawn_batch["ahead-ms"],
            producer_id=producer_id,
            producer_epoch=epoch if numbered else -1,
            base_sequence=max(0, sequence + drawn_batch["sequence-plus"]) if numbered else -1,
            transactional=numbered,
        )

    # What earlier answers said

    def _recall(self, name: str, whose: str) -> Any:
        names = ("member_epoch", "generation_id") if name == _GENERATION_OR_EPOCH else (name,)
        values = [
            self._remembered_fields[whose, field_name]
            for field_name in names
            if (whose, field_name) in self._remembered_fields
        ]
        return values[0] if values else _INITIAL_FIELDS.get(name, -1)

    def _remember(self, request_fields: Body, answer: Any, error: ErrorCode) -> None:
        whose = request_fields.get("transactional_id") or request_fields.get("group_id") or ""
        if "member_epoch" in request_fields:
            whose = f"{whose} {request_fields['member_id']}"
        for transaction in getattr(answer, "transaction_states", ()):
            self._note(transaction.transactional_id, transaction)
        self._note(whose, answer)
        if error in _NOT_A_MEMBER_ERRORS:
            self._remembered_fields = {
                key: value for key, value in self._remembered_fields.items() if key[0] != whose
            }

    def _note(self, whose: str, answer: Any) -> None:
        for name, nothing in _INITIAL_FIELDS.items():
            value = getattr(answer, name, nothing)
            if value not in (nothing, None, -1, -2):
                self._remembered_fields[whose, name] = value


def _errors(answer: Any) -> Iterator[ErrorCode]:
    """Every error code in an answer."""
    if isinstance(answer, tuple):
        for part in answer:
            yield from _errors(part)
    elif is_dataclass(answer):
        for field in fields(answer):
            value = getattr(answer, field.name)
            if isinstance(value, ErrorCode):
                yield value
            else:
                yield from _errors(value)
