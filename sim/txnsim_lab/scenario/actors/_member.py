"""A member of a consumer group: it subscribes, polls, seeks, commits, pauses, leaves or dies. A
wire actor may commit the member's positions in a transaction: ``commit-offsets`` with ``member``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from txnsim.client.errors import RetriableError
from txnsim.client.members.member import GroupMember, Polled
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.requests import offset_commit
from txnsim.errors import ClientError, InvariantViolation
from txnsim.types import IsolationLevel
from txnsim_lab.scenario.actors._broker_calls import PATIENCE_MS, Asking
from txnsim_lab.scenario.actors.base import FAREWELL_S, ClientActor, Surroundings, group_metadata
from txnsim_lab.scenario.call_results import CallResult, StoryFailedError, failure
from txnsim_lab.scenario.fields import expected_values
from txnsim_lab.scenario.model import Actor
from txnsim_lab.scenario.recorder import decode_value, values_text
from txnsim_lab.scenario.steps_model import Call, required

UNSTABLE: Final = "UNSTABLE_OFFSET_COMMIT"


class MemberActor(ClientActor):
    """One consumer in a group, in one process at a time: after ``leave`` or ``die``, ``subscribe``
    starts a new process. In a running process it changes the topics.
    """

    def __init__(self, name: str, part: Actor, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings, part.client_id)
        self._part = part
        self._lives = 0
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED if part.uncommitted else IsolationLevel.READ_COMMITTED
        )

    async def call(
        self, call: Call, *, expected_code: str, sent: Callable[[], object]
    ) -> CallResult:
        if call.do == "commit-offsets":
            return await self._commit(call, expected_code=expected_code, sent=sent)
        sent()
        try:
            await self._do(call, expected_code=expected_code)
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
            metadata = self._alive.metadata
            self._around.generations[call.generation] = metadata.generation
            self._around.member_ids[call.generation] = metadata.member_id
        return CallResult()

    async def _do(self, call: Call, *, expected_code: str) -> None:
        until = None if call.assigned is None else frozenset(call.assigned)
        match call.do:
            case "subscribe":
                member = await self._born() if self._cluster is None else self._alive
                await member.subscribe(call.topics or (), until=until, timeout_ms=PATIENCE_MS)
                self._tell_place(member)
            case "poll":
                member = self._alive
                polled = await member.poll(
                    until=until,
                    stable=call.require_stable is not False,
                    waits=expected_code != UNSTABLE,
                    timeout_ms=PATIENCE_MS,
                )
                self._note_poll(call, member, polled)
            case "seek":
                self._alive.seek(required(call.partition), call.from_ or 0)
            case "stand-still":
                self._alive.stand_still()
            case "leave":
                await self._alive.leave()
                await self._end()
            case "die":
                await self._end()
            case _:
                raise InvariantViolation(f"{self.name} can't {call.do!r}, the file was accepted")

    async def _commit(
        self, call: Call, *, expected_code: str, sent: Callable[[], object]
    ) -> CallResult:
        member, group = self._alive, self._part.group or ""
        metadata = group_metadata(call, member.metadata, self._around)
        assert self._cluster is not None
        assert metadata is not None
        offsets = dict(member.positions) if call.offsets is None else call.offsets
        asking = Asking(self._cluster, call, expected_code=expected_code, sent=sent)
        answer = await asking.group_coordinator(group, offset_commit(group, metadata, offsets))
        self._around.recorder.note_sent_offsets(self.name, None, group, offsets, answer, None)
        return answer

    # Life

    async def _born(self) -> GroupMember:
        """Start the consumer in a new process, with a new member id."""
        self._lives += 1
        part = self._part
        ids = self._around.environment.rng.stream(f"member {self.name}")
        member = GroupMember(
            await self._ready(),
            MemberOptions(
                group_id=part.group or "",
                protocol=part.group_protocol,
                member_id=f"{self.name}-{self._lives}-{ids.getrandbits(64):016x}",
                instance_id=part.instance_id,
                session_timeout_ms=part.session_timeout,
                rebalance_timeout_ms=part.rebalance_timeout,
                isolation=self._isolation,
            ),
        )
        self._around.members[self.name] = member
        return member

    @property
    def _alive(self) -> GroupMember:
        if self._cluster is None:
            raise StoryFailedError(f"{self.name} is no member now: it has to subscribe")
        return self._around.member(self.name)

    async def _end(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            member = self._around.members.get(self.name)
            if member is not None:
                await member.close()
            await cluster.close()

    async def close(self) -> None:
        """Leave the group, as a program does that ends."""
        if self._cluster is not None and self.name in self._around.members:
            # The story is over: where the coordinator is gone, or never took it, nothing is lost.
            with contextlib.suppress(ClientError, TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await self._alive.leave()
        await self._end()

    # What it saw

    def _tell_place(self, member: GroupMember) -> None:
        parts = ", ".join(map(str, sorted(member.assigned))) or "nothing"
        generation = member.metadata.generation
        epoch_name = "generation" if self._part.group_protocol == "classic" else "member epoch"
        group = member.options.group_id
        self._around.tell(
            self.name, f"{epoch_name} {generation} of group {group}: assigned is {parts}"
        )

    def _note_poll(self, call: Call, member: GroupMember, polled: Polled) -> None:
        recorder = self._around.recorder
        if polled.positions:
            self._tell_place(member)
            recorder.note_positions(self.name, member.options.group_id, polled.positions)
        values: list[str | None] = []
        for fetch_offset, result in polled.fetched:
            recorder.note_fetch(
                self.name, fetch_offset, self._isolation, result, transaction=call.transaction
            )
            values += [decode_value(record.value) for record in result.records]
        given_text = values_text(values)
        self._around.tell(self.name, f"polls {given_text}")
        expected = expected_values(call.reads, self._around.situation)
        if expected not in (None, tuple(values)):
            raise StoryFailedError(
                f"{self.name} polls {given_text}, expected {values_text(expected)}"
            )
