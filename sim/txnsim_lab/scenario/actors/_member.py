"""A member of a consumer group: it subscribes, polls, seeks, commits, pauses, leaves or dies. A
wire actor may commit the member's positions in a transaction: ``commit-offsets`` with ``member``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from txnsim.client.errors import RetriableError
from txnsim.client.members.member import GroupMember, PollResult
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.requests import offset_commit
from txnsim.errors import ClientError, InvariantViolation
from txnsim.types import IsolationLevel
from txnsim_lab.scenario.actors._broker_calls import PATIENCE_MS, BrokerCalls
from txnsim_lab.scenario.actors.base import (
    LEAVE_ANSWER_LIMIT_S,
    ClientActor,
    Surroundings,
    group_metadata,
)
from txnsim_lab.scenario.call_results import CallResult, StoryFailedError, failure
from txnsim_lab.scenario.fields import expected_values
from txnsim_lab.scenario.model import Actor
from txnsim_lab.scenario.recorder import decode_value, values_text
from txnsim_lab.scenario.steps_model import Call, required

UNSTABLE_ERROR: Final = "UNSTABLE_OFFSET_COMMIT"


class MemberActor(ClientActor):
    """One consumer in a group, in one process at a time: after ``leave`` or ``die``, ``subscribe``
    starts a new process. In a running process it changes the topics.
    """

    def __init__(self, name: str, declaration: Actor, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings, declaration.client_id)
        self._declaration = declaration
        self._life_count = 0
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if declaration.uncommitted
            else IsolationLevel.READ_COMMITTED
        )

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        if call.do == "commit-offsets":
            return await self._commit(call, expected_code=expected_code, on_sent=on_sent)
        on_sent()
        try:
            await self._make_call(call, expected_code=expected_code)
        except RetriableError as error:
            if call.assigned is not None and error.error is None:
                assignment_text = ", ".join(map(str, sorted(call.assigned)))
                raise StoryFailedError(
                    f"{self.name}: {error}, expected {assignment_text}"
                ) from None
            return failure(error)
        except ClientError as error:
            return failure(error)
        if isinstance(call.generation, str):
            metadata = self._live_member.metadata
            self._surroundings.generations[call.generation] = metadata.generation
            self._surroundings.member_ids[call.generation] = metadata.member_id
        return CallResult()

    async def _make_call(self, call: Call, *, expected_code: str) -> None:
        awaited_partitions = None if call.assigned is None else frozenset(call.assigned)
        match call.do:
            case "subscribe":
                member = await self._create_member() if self._cluster is None else self._live_member
                await member.subscribe(
                    call.topics or (), until=awaited_partitions, timeout_ms=PATIENCE_MS
                )
                self._trace_assignment(member)
            case "poll":
                member = self._live_member
                poll_result = await member.poll(
                    until=awaited_partitions,
                    stable=call.require_stable is not False,
                    waits=expected_code != UNSTABLE_ERROR,
                    timeout_ms=PATIENCE_MS,
                )
                self._note_poll(call, member, poll_result)
            case "seek":
                self._live_member.seek(required(call.partition), call.from_ or 0)
            case "stand-still":
                self._live_member.stand_still()
            case "leave":
                await self._live_member.leave()
                await self._end()
            case "die":
                await self._end()
            case _:
                raise InvariantViolation(f"{self.name} can't {call.do!r}, the file was accepted")

    async def _commit(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        member, group = self._live_member, self._declaration.group or ""
        metadata = group_metadata(call, member.metadata, self._surroundings)
        assert self._cluster is not None
        assert metadata is not None
        offsets = dict(member.positions) if call.offsets is None else call.offsets
        broker_calls = BrokerCalls(
            self._cluster, call, expected_code=expected_code, on_sent=on_sent
        )
        answer = await broker_calls.group_coordinator(
            group, offset_commit(group, metadata, offsets)
        )
        self._surroundings.recorder.note_sent_offsets(self.name, None, group, offsets, answer, None)
        return answer

    # Life

    async def _create_member(self) -> GroupMember:
        """Start the consumer in a new process, with a new member id."""
        self._life_count += 1
        declaration = self._declaration
        id_bits = self._surroundings.environment.rng.stream(f"member {self.name}")
        member = GroupMember(
            await self._ready(),
            MemberOptions(
                group_id=declaration.group or "",
                protocol=declaration.group_protocol,
                member_id=f"{self.name}-{self._life_count}-{id_bits.getrandbits(64):016x}",
                instance_id=declaration.instance_id,
                session_timeout_ms=declaration.session_timeout,
                rebalance_timeout_ms=declaration.rebalance_timeout,
                isolation=self._isolation,
            ),
        )
        self._surroundings.members[self.name] = member
        return member

    @property
    def _live_member(self) -> GroupMember:
        if self._cluster is None:
            raise StoryFailedError(f"{self.name} is no member now: it has to subscribe")
        return self._surroundings.member(self.name)

    async def _end(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            member = self._surroundings.members.get(self.name)
            if member is not None:
                await member.close()
            await cluster.close()

    async def close(self) -> None:
        """Leave the group, as a program does that ends."""
        if self._cluster is not None and self.name in self._surroundings.members:
            # The story is over: where the coordinator is gone, or never took it, nothing is lost.
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(LEAVE_ANSWER_LIMIT_S):
                    await self._live_member.leave()
        await self._end()

    # What it saw

    def _trace_assignment(self, member: GroupMember) -> None:
        assigned_text = ", ".join(map(str, sorted(member.assigned))) or "nothing"
        generation = member.metadata.generation
        epoch_name = (
            "generation" if self._declaration.group_protocol == "classic" else "member epoch"
        )
        group = member.options.group_id
        self._surroundings.tell(
            self.name, f"{epoch_name} {generation} of group {group}: assigned is {assigned_text}"
        )

    def _note_poll(self, call: Call, member: GroupMember, poll_result: PollResult) -> None:
        recorder = self._surroundings.recorder
        if poll_result.positions:
            self._trace_assignment(member)
            recorder.note_positions(self.name, member.options.group_id, poll_result.positions)
        values_read: list[str | None] = []
        for fetch_offset, fetch_result in poll_result.fetched:
            recorder.note_fetch(
                self.name, fetch_offset, self._isolation, fetch_result, transaction=call.transaction
            )
            values_read += [decode_value(record.value) for record in fetch_result.records]
        read_text = values_text(values_read)
        self._surroundings.tell(self.name, f"polls {read_text}")
        expected_read = expected_values(call.reads, self._surroundings.run_selection)
        if expected_read not in (None, tuple(values_read)):
            raise StoryFailedError(
                f"{self.name} polls {read_text}, expected {values_text(expected_read)}"
            )
