"""A consumer that continues from its position, or reads the committed positions of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.fetching import FetchResult, NearReplicas, fetch
from txnsim.client.isolation import AbortedTransaction
from txnsim.client.tracing import ClientTrace
from txnsim.errors import ClientError, ErrorCode
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.scenario.actors.base import ClientActor, Surroundings
from txnsim_lab.scenario.call_results import CallResult, StoryFailedError, failure
from txnsim_lab.scenario.fields import Values, expected_values
from txnsim_lab.scenario.model import Actor
from txnsim_lab.scenario.recorder import decode_value, values_text
from txnsim_lab.scenario.steps_model import Call, required

READ_BYTES_MAX: Final = 1_000_000
PATIENCE_MS: Final = 60_000
"""Limit of the wait for a last stable offset."""
POLL_MS: Final = 20
NO_WAIT_MS: Final = 0
"""A Fetch must not wait: it could be answered with records that are written later."""


class ReaderActor(ClientActor):
    """Reads partitions, each from its last position."""

    def __init__(self, name: str, declaration: Actor, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings, declaration.client_id)
        self._declaration = declaration
        self._near = None if declaration.rack is None else NearReplicas(declaration.rack)
        self._position_by_partition: dict[tuple[TopicPartition, IsolationLevel], int] = {}

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        """Read all records there are, or the committed positions of a group."""
        del expected_code
        on_sent()
        if call.do == "read-positions":
            return await self._read_positions(call)
        partition = required(call.partition)
        isolation = IsolationLevel.READ_COMMITTED
        if call.uncommitted or self._declaration.uncommitted:
            isolation = IsolationLevel.READ_UNCOMMITTED
        max_bytes = call.max_bytes or READ_BYTES_MAX
        values, last_fetch = await self.read(
            partition, isolation, start_offset=call.from_, max_bytes=max_bytes
        )
        deadline = (await self._ready()).deadline(PATIENCE_MS)
        while (
            call.stable_offset is not None
            and last_fetch.last_stable_offset < call.stable_offset
            and not deadline.has_passed
        ):
            await pause(self._surroundings.environment.clock, POLL_MS)
            more_values, next_fetch = await self.read(partition, isolation, max_bytes=max_bytes)
            values += more_values
            aborted = (*(last_fetch.aborted or ()), *(next_fetch.aborted or ()))
            last_fetch = replace(next_fetch, aborted=aborted)
        self._surroundings.tell(
            self.name, _sentence_of_read(partition, isolation, values, last_fetch)
        )
        wanted_values = expected_values(call.reads, self._surroundings.run_selection)
        if wanted_values not in (None, values):
            raise StoryFailedError(
                f"{self.name} reads {values_text(values)} from {partition}, expected"
                f" {values_text(wanted_values)}"
            )
        if last_fetch.error != ErrorCode.none:
            return CallResult(error=last_fetch.error.name.upper())
        if answer_text := _unexpected_text(call, last_fetch):
            raise StoryFailedError(f"{self.name} reads {partition}: {answer_text}")
        return CallResult()

    async def read(
        self,
        partition: TopicPartition,
        isolation: IsolationLevel,
        *,
        start_offset: int | None = None,
        max_bytes: int = READ_BYTES_MAX,
    ) -> tuple[Values, FetchResult]:
        """Read all records that the partition has now.

        Returns:
            The values of the records, and the last answer to a Fetch, with the aborted transactions
            of all answers.
        """
        trace = ClientTrace(
            self._surroundings.environment.tracer, self._declaration.client_id or self.name
        )
        with trace.trace_call(
            "read", tp=str(partition), isolation=isolation.name.lower(), start=start_offset
        ):
            return await self._read_to_end(
                partition, isolation, start_offset=start_offset, max_bytes=max_bytes
            )

    async def _read_to_end(
        self,
        partition: TopicPartition,
        isolation: IsolationLevel,
        *,
        start_offset: int | None,
        max_bytes: int,
    ) -> tuple[Values, FetchResult]:
        position_key = (partition, isolation)
        offset = (
            self._position_by_partition.get(position_key, 0)
            if start_offset is None
            else start_offset
        )
        values: list[str | None] = []
        aborted: list[AbortedTransaction] = []
        while True:
            fetch_result = await self._fetch_records(partition, offset, isolation, max_bytes)
            self._surroundings.recorder.note_fetch(self.name, offset, isolation, fetch_result)
            if fetch_result.error == ErrorCode.offset_out_of_range and start_offset is None:
                offset = await self._earliest_offset(partition)  # auto.offset.reset=earliest
                continue
            values += [decode_value(record.value) for record in fetch_result.records]
            aborted += fetch_result.aborted or ()
            self._position_by_partition[position_key] = fetch_result.next_offset
            if fetch_result.next_offset == offset:
                return tuple(values), replace(fetch_result, aborted=tuple(aborted))
            offset = fetch_result.next_offset

    async def _fetch_records(
        self, partition: TopicPartition, offset: int, isolation: IsolationLevel, max_bytes: int
    ) -> FetchResult:
        try:
            return await fetch(
                await self._ready(),
                partition.topic,
                partition.partition,
                offset,
                isolation=isolation,
                max_wait_ms=NO_WAIT_MS,
                max_bytes=max_bytes,
                near_replicas=self._near,
            )
        except ClientError as error:
            if error.error is None:
                raise
            return FetchResult(partition=partition, error=error.error, next_offset=offset)

    async def _earliest_offset(self, partition: TopicPartition) -> int:
        return await Admin(await self._ready()).earliest_offset(partition)

    async def _read_positions(self, call: Call) -> CallResult:
        group, partitions = call.group or "", call.partitions or ()
        try:
            needs_stable = bool(call.require_stable)
            offsets = await Admin(await self._ready()).committed_positions(
                group, partitions, stable=needs_stable
            )
        except ClientError as error:
            answer = failure(error)
            self._surroundings.recorder.note_positions(self.name, group, {}, error=answer.error)
            return answer
        self._surroundings.recorder.note_positions(self.name, group, offsets)
        positions = ", ".join(f"{partition} at {offset}" for partition, offset in offsets.items())
        self._surroundings.tell(self.name, f"group {group} stands on {positions}")
        if call.positions is not None and call.positions != offsets:
            raise StoryFailedError(f"group {group} stands on {offsets}, expected {call.positions}")
        return CallResult()


def _unexpected_text(call: Call, last_fetch: FetchResult) -> str:
    """What a step expects otherwise of the last answer; empty if nothing."""
    if call.at_follower is not None and call.at_follower != last_fetch.follower_id:
        brokers_phrase = (
            "the leader" if last_fetch.follower_id < 0 else f"broker {last_fetch.follower_id}"
        )
        return f"{brokers_phrase} answers, expected broker {call.at_follower}"
    if call.stable_offset not in (None, last_fetch.last_stable_offset):
        return (
            f"the last stable offset is {last_fetch.last_stable_offset}, expected"
            f" {call.stable_offset}"
        )
    aborted_offsets = tuple(
        dict.fromkeys(
            aborted_transaction.first_offset for aborted_transaction in last_fetch.aborted or ()
        )
    )
    if call.aborted not in (None, aborted_offsets):
        return (
            f"the answers name aborted transactions at {aborted_offsets}, expected {call.aborted}"
        )
    return ""


def _sentence_of_read(
    partition: TopicPartition, isolation: IsolationLevel, values: Values, last_fetch: FetchResult
) -> str:
    isolation_name = isolation.name.lower()
    if last_fetch.error != ErrorCode.none:
        error_name = last_fetch.error.name.upper()
        return f"a {isolation_name} Fetch of {partition} at {last_fetch.next_offset}: {error_name}"
    stable_offset, high_watermark = last_fetch.last_stable_offset, last_fetch.high_watermark
    end_text = ", and then nothing more" if values else ""
    is_starving = (
        last_fetch.next_offset < high_watermark and stable_offset <= last_fetch.next_offset
    )
    reason = (
        f"{end_text}, though the high watermark is {high_watermark}: "
        f"the last stable offset stands at {stable_offset}"
        if is_starving and isolation is IsolationLevel.READ_COMMITTED
        else f"; the last stable offset is {stable_offset}, the high watermark {high_watermark}"
    )
    place_suffix = (
        "" if last_fetch.follower_id < 0 else f" at the follower on broker {last_fetch.follower_id}"
    )
    return (
        f"a {isolation_name} reader of {partition}{place_suffix} gets {values_text(values)}{reason}"
    )
