"""A member of a share group: it subscribes, polls, acknowledges, leaves or dies (KIP-932)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from txnsim.client.admin import Admin
from txnsim.client.errors import RetriableError
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareAnswers, ShareMember
from txnsim.errors import ClientError, InvariantViolation
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import Isolation
from txnsim_lab.scenario.actors._broker_calls import PATIENCE_MS
from txnsim_lab.scenario.actors.base import LEAVE_ANSWER_LIMIT_S, ClientActor, Surroundings
from txnsim_lab.scenario.call_results import CallResult, StoryFailedError, failure
from txnsim_lab.scenario.fields import expected_values
from txnsim_lab.scenario.model import Actor
from txnsim_lab.scenario.recorder import decode_value, values_text
from txnsim_lab.scenario.steps_model import Call

WAIT_MS: Final = 500
"""fetch.max.wait.ms: how long a leader waits for records."""


class ShareMemberActor(ClientActor):
    """One consumer in a share group, in one process at a time: after ``leave`` or ``die``,
    ``subscribe`` starts a new process.
    """

    def __init__(self, name: str, declaration: Actor, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings, declaration.client_id)
        self._group = declaration.group or ""
        self._life_count = 0
        self._member: ShareMember | None = None
        self._place_by_held_value: dict[str | None, tuple[TopicPartition, int]] = {}
        """Acquired records that are not acknowledged yet, by value."""
        self._isolation = Isolation.READ_UNCOMMITTED
        self._delivery_limit: int | None = None

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        del expected_code  # leaders are asked once
        on_sent()
        try:
            return await self._make_call(call)
        except RetriableError as error:
            if call.assigned is not None and error.error is None:
                assignment_text = ", ".join(map(str, sorted(call.assigned)))
                raise StoryFailedError(
                    f"{self.name}: {error}, expected {assignment_text}"
                ) from None
            return failure(error)
        except ClientError as error:
            return failure(error)

    async def _make_call(self, call: Call) -> CallResult:
        awaited_partitions = None if call.assigned is None else frozenset(call.assigned)
        match call.do:
            case "subscribe":
                member = await self._create_member() if self._member is None else self._member
                await member.subscribe(
                    call.topics or (), until=awaited_partitions, timeout_ms=PATIENCE_MS
                )
                await self._learn_configs()
                self._trace_assignment(member)
            case "poll":
                member = self._live_member
                poll_result = await member.poll(
                    until=awaited_partitions, max_wait_ms=WAIT_MS, timeout_ms=PATIENCE_MS
                )
                return self._note_acquired(call, poll_result)
            case "acknowledge":
                return await self._acknowledge(call)
            case "leave":
                await self._live_member.leave()
                await self._end()
            case "die":
                await self._end()
            case _:
                raise InvariantViolation(f"{self.name} can't {call.do!r}, the file was accepted")
        return CallResult()

    async def look(self) -> None:
        """Poll, if it is a member: only a poll shows whether the group still gets records."""
        if self._member is not None:
            with contextlib.suppress(ClientError):
                self._note_answers(
                    await self._member.poll(max_wait_ms=WAIT_MS, timeout_ms=PATIENCE_MS)
                )

    async def _acknowledge(self, call: Call) -> CallResult:
        member = self._live_member
        values = (*self._place_by_held_value,) if call.values is None else call.values
        for value in values:
            if value not in self._place_by_held_value:
                raise StoryFailedError(f"{self.name} does not hold {value!r}")
            partition, offset = self._place_by_held_value[value]
            if call.as_ != "renew":
                del self._place_by_held_value[value]
            member.acknowledge(partition, [offset], call.as_)
        return self._note_answers(await member.commit())

    # Life

    async def _create_member(self) -> ShareMember:
        """Start the consumer in a new process, with a new member id."""
        self._life_count += 1
        id_bits = self._surroundings.environment.rng.stream(f"member {self.name}")
        member_id = f"{self.name}-{self._life_count}-{id_bits.getrandbits(64):016x}"
        options = MemberOptions(group_id=self._group, member_id=member_id)
        self._member = ShareMember(await self._ready(), options)
        return self._member

    @property
    def _live_member(self) -> ShareMember:
        if self._member is None:
            raise StoryFailedError(f"{self.name} is no member now: it has to subscribe")
        return self._member

    async def _learn_configs(self) -> None:
        """Read the configs of its group that the judges need."""
        admin = Admin(await self._ready())
        configs = await admin.group_configs(
            self._group, ("share.isolation.level", "share.delivery.count.limit")
        )
        self._isolation = Isolation(configs.get("share.isolation.level") or self._isolation)
        delivery_limit = configs.get("share.delivery.count.limit")
        self._delivery_limit = None if delivery_limit is None else int(delivery_limit)

    async def _end(self) -> None:
        member, self._member = self._member, None
        cluster, self._cluster = self._cluster, None
        self._place_by_held_value.clear()
        if member is not None:
            self._surroundings.recorder.note_share_leave(self.name, self._group)
            await member.close()
        if cluster is not None:
            await cluster.close()

    async def close(self) -> None:
        """Leave the group, as a program does that ends."""
        if self._member is not None:
            # The story is over: where the coordinator is gone, or never took it, nothing is lost.
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(LEAVE_ANSWER_LIMIT_S):
                    await self._member.leave()
        await self._end()

    # What it saw

    def _trace_assignment(self, member: ShareMember) -> None:
        assigned_text = ", ".join(map(str, sorted(member.assigned))) or "nothing"
        epoch = member.metadata.generation
        self._surroundings.tell(
            self.name,
            f"member epoch {epoch} of share group {self._group}: assigned is {assigned_text}",
        )

    def _note_acquired(self, call: Call, poll_result: ShareAnswers) -> CallResult:
        values: list[str | None] = []
        for acquired_records in poll_result.acquired:
            for record, _ in acquired_records.records:
                value = decode_value(record.value)
                self._place_by_held_value[value] = (acquired_records.topic_partition, record.offset)
                values.append(value)
        answer = self._note_answers(poll_result)
        read_text = values_text(values)
        self._surroundings.tell(self.name, f"is given {read_text}")
        expected_read = expected_values(call.reads, self._surroundings.run_selection)
        if expected_read not in (None, tuple(values)):
            raise StoryFailedError(
                f"{self.name} is given {read_text}, expected {values_text(expected_read)}"
            )
        return answer

    def _note_answers(self, poll_result: ShareAnswers) -> CallResult:
        """Note the answers of the leaders; returns the first error."""
        self._surroundings.recorder.note_share_answers(
            self.name,
            self._group,
            poll_result,
            isolation=self._isolation,
            delivery_limit=self._delivery_limit,
        )
        error = poll_result.error
        return failure(ClientError("a leader refuses", error=error)) if error else CallResult()
