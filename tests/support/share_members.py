"""Members of share groups that ask the handlers of a broker, and what they get in short notation.

What is acquired is ``0-4:1``, a range with its delivery count; acknowledgements are ``0-4:1`` or
``0-2:1,2,3``, a range with acknowledge types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from tests.support.broker_api import STAMP_MS, Api, batch, produce, read_back
from txnsim.api.registry import HANDLERS
from txnsim.api.request import ClientLink
from txnsim.errors import ErrorCode
from txnsim.interbroker.share_state import UNKNOWN_OFFSET, InitializeShareState, ShareKey
from txnsim.types import uuid_text

_MOST: Final = 1 << 20


class ShareMember:
    """A member of a share group. By default it fetches partition 0 of its topic."""

    def __init__(self, api: Api, name: str = "m1", group: str = "g", topic: str = "orders") -> None:
        self.api = api
        self.name = name
        self.group = group
        self.topic = topic
        self.link = ClientLink()
        self.epoch = 0

    def key(self, partition: int = 0) -> ShareKey:
        return ShareKey(self.group, uuid_text(self.api.topic_id(self.topic)), partition)

    async def initialize(self, *partitions: int, start: int = 0) -> None:
        """Initialise the state of share partitions, as the group coordinator does."""
        initialize_commands = [
            InitializeShareState(key=self.key(partition), state_epoch=0, start_offset=start)
            for partition in partitions or (0,)
        ]
        for answer_future in self.api.broker.share_persister.initialize(initialize_commands):
            assert (await answer_future).error == ErrorCode.none

    async def fetch(
        self,
        acks: Mapping[int, Sequence[str]] | Sequence[str] = (),
        *,
        partitions: Sequence[int] = (0,),
        version: int = 2,
        epoch: int | None = None,
        **request_fields: Any,
    ) -> Any:
        """The answer to a ShareFetch with the session's next epoch."""
        fields = {
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": _MOST,
            "max_records": 500,
            "batch_size": 500,
            "forgotten_topics_data": [],
            **request_fields,
        }
        return await self._ask("ShareFetch", version, epoch, partitions, acks, fields)

    async def acknowledge(
        self,
        *acks: str,
        version: int = 2,
        epoch: int | None = None,
        partitions: Sequence[int] = (),
        **request_fields: Any,
    ) -> Any:
        """The answer to a ShareAcknowledge about partition 0."""
        return await self._ask("ShareAcknowledge", version, epoch, partitions, acks, request_fields)

    async def get(self, *acks: str, wait: int = 2_000, **request_fields: Any) -> str:
        """Wait for records; the acquired ranges of partition 0 as text."""
        return acquired_ranges(await self.fetch(acks, max_wait=wait, **request_fields))

    def start_get(self, *acks: str, wait: int = 20_000, **request_fields: Any) -> asyncio.Task[str]:
        return task(self.get(*acks, wait=wait, **request_fields))

    async def _ask(
        self,
        api: str,
        version: int,
        epoch: int | None,
        indexes: Sequence[int],
        acks: Mapping[int, Sequence[str]] | Sequence[str],
        values: dict[str, Any],
    ) -> Any:
        acks_by_partition = acks if isinstance(acks, Mapping) else ({0: acks} if acks else {})
        partitions = [
            {
                "partition_index": index,
                "acknowledgement_batches": [
                    _acknowledgement_batch(text) for text in acks_by_partition.get(index, ())
                ],
            }
            for index in dict.fromkeys((*indexes, *acks_by_partition))
        ]
        request = self.api.request(
            api,
            version,
            **{
                "group_id": self.group,
                "member_id": self.name,
                "share_session_epoch": self.epoch if epoch is None else epoch,
                "topics": [{"topic_id": self.api.topic_id(self.topic), "partitions": partitions}]
                if partitions
                else [],
                **values,
            },
        )
        request.link = self.link
        if epoch is None:
            self.epoch += 1
        return read_back(request, await HANDLERS[request.api_key].handle(request))


def task(work_coroutine: Coroutine[Any, Any, str]) -> asyncio.Task[str]:
    """Run a coroutine as a task beside the test."""
    return asyncio.ensure_future(work_coroutine)  # noqa: TID251 - a client's


def acquired_ranges(answer: Any, partition: int = 0) -> str:
    """The acquired ranges of one partition as text; its error's name if it has one, else empty text
    if it is not in the answer.
    """
    assert answer.error_code is ErrorCode.none, answer
    for topic in answer.responses:
        for partition_result in topic.partitions:
            if partition_result.partition_index == partition:
                if partition_result.error_code:
                    return str(partition_result.error_code.name)
                return " ".join(
                    f"{acquired_range.first_offset}-{acquired_range.last_offset}:{acquired_range.delivery_count}"
                    for acquired_range in partition_result.acquired_records
                )
    return ""


def errors(answer: Any) -> dict[int, str]:
    """Errors of acknowledgements, by partition."""
    error_by_partition = {}
    for topic in answer.responses:
        for partition_result in topic.partitions:
            code = getattr(partition_result, "acknowledge_error_code", partition_result.error_code)
            error_by_partition[partition_result.partition_index] = ErrorCode(code).name
    return error_by_partition


async def fill(
    api: Api, *sizes: int, topic: str = "orders", partition: int = 0, stamp_ms: int = STAMP_MS
) -> None:
    """Produce a batch for each size, with this timestamp."""
    for size in sizes or (1,):
        records = batch(*(b"v" for _ in range(size)), timestamp_ms=stamp_ms)
        answer = await api.ask("Produce", 8, **produce(topic, records, partition=partition))
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def _acknowledgement_batch(text: str) -> dict[str, Any]:
    offsets, _, types = text.partition(":")
    first_offset, _, last_offset = offsets.partition("-")
    return {
        "first_offset": int(first_offset),
        "last_offset": int(last_offset or first_offset),
        "acknowledge_types": [int(ack_type) for ack_type in types.split(",")],
    }


FROM_RESET: Final = UNKNOWN_OFFSET
"""A start offset that the group's reset strategy decides."""
