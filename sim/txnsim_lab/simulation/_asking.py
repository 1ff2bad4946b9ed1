"""A curious client while it acts: what was drawn becomes a message; of the answer a sum is kept."""

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
from txnsim_lab.scenario.answers import CallResult
from txnsim_lab.simulation._curiosity import CURIOUS, KEYS, TOPICS, hints_of
from txnsim_lab.simulation._plan import Body

ASK: Final = "ask"
"""The step."""
PATIENCE_MS: Final = 10_000
_UNTOLD: Final = {
    "producer_id": -1,
    "producer_epoch": -1,
    "member_id": "",
    "member_epoch": 0,
    "generation_id": -1,
}
"""Remembered fields of answers -> value before any answer."""
_EITHER: Final = "generation_id_or_member_epoch"
_GONE: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch)


class Curious:
    """Requests anything, and remembers the answers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._cluster: Cluster | None = None
        self._told: dict[tuple[str, str], Any] = {}
        self._sequences: dict[tuple[Any, ...], int] = {}

    async def ask(self, asked: Body) -> CallResult:
        """Send a request; the error that was answered, and the sum of the whole answer.

        Raises:
            ClientError: There was none.
        """
        if self._cluster is None:
            self._cluster = self._around.client(CURIOUS, request_timeout_ms=PATIENCE_MS)
            await self._cluster.connect()
            await self._cluster.refresh(TOPICS)
        key, version = KEYS[asked["api"]], asked["version"]
        message = self._made(request_class(key, version), asked["fields"])
        broker = await self._broker(self._cluster, asked["to"])
        answer = await (await self._cluster.connection(broker)).ask_by_hand(key, version, message)
        error = next((one for one in _errors(answer) if one), ErrorCode.none)
        self._remember(asked["fields"], answer, error)
        told = hashlib.blake2b(repr(answer).encode(), digest_size=4).hexdigest()
        return CallResult(error=code_name(error), because=told)

    async def close(self) -> None:
        """Leave."""
        if self._cluster is not None:
            await self._cluster.close()

    async def _broker(self, cluster: Cluster, to: Body) -> int:
        deadline = cluster.deadline(PATIENCE_MS)
        match to:
            case {"leader": place}:
                topic, _, index = place.rpartition("-")
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

    def _made(self, kind: Any, said: Body, place: tuple[Any, ...] = ()) -> Any:
        """A message, or a part of one; the place is what the parts around it name."""
        place = (*place, *(said[name] for name in ("name", "index") if name in said))
        values = {}
        for hint in hints_of(kind):
            value = said[hint.name]
            if hint.is_list and value is not None:
                times = value["times"] if isinstance(value, dict) else 1
                each = [value["each"]] if isinstance(value, dict) else value
                value = tuple(self._one(hint.kind, one, place) for one in each) * times
            else:
                value = self._one(hint.kind, value, place)
            values[hint.name] = value
        return kind(**values)

    def _one(self, kind: Any, value: Any, place: tuple[Any, ...]) -> Any:
        match value:
            case None:
                return None
            case {"told": name, "of": whose}:
                told = self._remembered(name, whose)
                most = PRODUCER_EPOCH_MAX if name == "producer_epoch" else (1 << 31) - 1
                return told if isinstance(told, str) else min(told + value.get("plus", 0), most)
            case {"id-of": topic}:
                known = None if self._cluster is None else self._cluster.view.topic(topic)
                return UUID(int=1) if known is None else known.topic_id
            case {"batch": _}:
                return self._batch(value, place)
        if is_dataclass(kind):
            return self._made(kind, value, place)
        if issubclass(kind, timedelta):
            return timedelta(milliseconds=value)
        if kind is bytes:
            return bytes.fromhex(value)
        return float(value) if issubclass(kind, float) else value

    def _batch(self, said: Body, place: tuple[Any, ...]) -> bytes:
        now_ms = self._around.environment.clock.now_ms()
        producer_id = self._remembered("producer_id", said["of"])
        epoch = self._remembered("producer_epoch", said["of"])
        identity = (producer_id, epoch, *place)
        sequence = self._sequences.get(identity, 0)
        self._sequences[identity] = sequence + len(said["batch"])
        numbered = producer_id >= 0
        epoch = min(max(0, epoch + said["epoch-plus"]), PRODUCER_EPOCH_MAX)
        return build_batch(
            [Record(key=bytes.fromhex(key), value=b"curious") for key in said["batch"]],
            timestamp_ms=now_ms + said["ahead-ms"],
            producer_id=producer_id,
            producer_epoch=epoch if numbered else -1,
            base_sequence=max(0, sequence + said["sequence-plus"]) if numbered else -1,
            transactional=numbered,
        )

    # What was told

    def _remembered(self, name: str, whose: str) -> Any:
        names = ("member_epoch", "generation_id") if name == _EITHER else (name,)
        known = [self._told[whose, one] for one in names if (whose, one) in self._told]
        return known[0] if known else _UNTOLD.get(name, -1)

    def _remember(self, said: Body, answer: Any, error: ErrorCode) -> None:
        whose = said.get("transactional_id") or said.get("group_id") or ""
        if "member_epoch" in said:
            whose = f"{whose} {said['member_id']}"
        for one in getattr(answer, "transaction_states", ()):
            self._note(one.transactional_id, one)
        self._note(whose, answer)
        if error in _GONE:
            self._told = {key: told for key, told in self._told.items() if key[0] != whose}

    def _note(self, whose: str, answer: Any) -> None:
        for name, nothing in _UNTOLD.items():
            told = getattr(answer, name, nothing)
            if told not in (nothing, None, -1, -2):
                self._told[whose, name] = told


def _errors(answer: Any) -> Iterator[ErrorCode]:
    """Every error code in an answer."""
    if isinstance(answer, tuple):
        for one in answer:
            yield from _errors(one)
    elif is_dataclass(answer):
        for field in fields(answer):
            value = getattr(answer, field.name)
            if isinstance(value, ErrorCode):
                yield value
            else:
                yield from _errors(value)
