"""A group coordinator over logs in lists, in virtual time: what a broker would give it, by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec

from tests.support.at_once import load_whole
from tests.support.consumer_groups import image
from txnsim.coordinators.group.service import GroupCoordinator
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import ConsumerHeartbeat, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from txnsim.group.offset_commands import (
    CommitOffsets,
    CommittingProducer,
    FetchOffsets,
    NewPosition,
)
from txnsim.group.sharing.share import ShareHeartbeat
from txnsim.group.state import Group
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareStateError,
    ShareStateSummary,
)
from txnsim.log.answers import Appended
from txnsim.metadata.image import ClusterImage
from txnsim.releases import LATEST_RULES, Rules
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.settings import Settings
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim.wire.batch import read_batch_header

GROUP: Final = "g"
PARTITIONS: Final = 3
HOME: Final = partition_for(GROUP, PARTITIONS)
RANGE: Final = (("range", b"range"),)
PRODUCER: Final = CommittingProducer(
    transactional_id=TransactionalId("id"),
    producer_id=ProducerId(7),
    producer_epoch=ProducerEpoch(0),
)


class ListLog:
    """Partitions of ``__consumer_offsets``. Appends are replicated at once unless ``is_held``."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.high_watermark = 0
        self.is_held = False
        self.refusal: ErrorCode | None = None
        self.limit = 1_048_588
        """``max.message.bytes`` of the topic."""
        self.failure = ErrorCode.none
        """The error with which waits end on ``release``."""
        self.guards: list[int] = []
        self.admission: Callable[[], Awaitable[Rejection | None]] | None = None
        """A fault that holds or refuses appends."""
        self._released: list[asyncio.Event] = []

    def append(self, partition: int, batch: bytes, *, guard: int = 0) -> Appended | Rejection:
        """Append a batch; stands for ``CoordinatorLog.append``."""
        if self.refusal is not None:
            return Rejection(error=self.refusal, reason="the log refuses")
        if len(batch) > self.limit:
            return Rejection(error=ErrorCode.message_too_large, reason=f"{len(batch)} bytes")
        header = read_batch_header(batch)
        base_offset, self.end = self.end, self.end + header.records_count
        self.batches.append(base_offset.to_bytes(8, "big") + batch[8:])
        self.guards.append(guard)
        if not self.is_held:
            self.high_watermark = self.end
        return Appended(
            base_offset=base_offset,
            last_offset=self.end - 1,
            log_append_time_ms=-1,
            log_start_offset=0,
        )

    def admit(self, *_: Any) -> Awaitable[Rejection | None] | None:
        """Stands for ``CoordinatorLog.admit``."""
        return None if self.admission is None else self.admission()

    def batch_bytes_max(self, partition: int) -> int:
        """Stands for ``CoordinatorLog.batch_bytes_max``."""
        return self.limit

    def high_watermark_of(self, partition: int) -> int:
        """Stands for ``CoordinatorLog.high_watermark_of``."""
        return self.high_watermark

    def wait_for_commit(
        self, partition: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[ErrorCode] | None:
        """Stands for ``CoordinatorLog.wait_for_commit``."""
        return None if self.high_watermark > offset else self._wait()

    async def _wait(self) -> ErrorCode:
        event = asyncio.Event()
        self._released.append(event)
        await event.wait()
        return self.failure

    def release(self, failure_error: ErrorCode = ErrorCode.none) -> None:
        self.is_held, self.failure = False, failure_error
        if not failure_error:
            self.high_watermark = self.end
        for event in self._released:
            event.set()
        self._released.clear()


class ShareCoordinators:
    """Share coordinators that record their commands and answer at once, or on ``release``."""

    def __init__(self, tasks: Any) -> None:
        self._tasks = tasks
        self.commands: list[Any] = []
        self.error = 0
        """The error of each answer."""
        self.summaries: dict[int, ShareStateSummary] = {}
        """By partition, where a share partition was begun."""
        self.is_held = False
        self._waiting: list[tuple[Pending[Any], Any]] = []

    def initialize(self, commands: Iterable[InitializeShareState]) -> list[Pending[Any]]:
        return self._ask(commands)

    def delete(self, commands: Iterable[DeleteShareState]) -> list[Pending[Any]]:
        return self._ask(commands)

    def summarize(self, commands: Iterable[ReadShareState]) -> list[Pending[Any]]:
        return self._ask(commands)

    def release(self) -> None:
        """Answer all held commands; from now on answer each command at once."""
        self.is_held = False
        waiting_requests, self._waiting = self._waiting, []
        for pending_future, command in waiting_requests:
            pending_future.resolve(self._answer(command))

    def _ask(self, commands: Iterable[Any]) -> list[Pending[Any]]:
        pending_answers = []
        for command in commands:
            self.commands.append(command)
            pending_future: Pending[Any] = Pending(self._tasks)
            self._waiting.append((pending_future, command))
            pending_answers.append(pending_future)
        if not self.is_held:
            self.release()
        return pending_answers

    def _answer(self, command: Any) -> ShareStateError | ShareStateSummary:
        if isinstance(command, ReadShareState) and not self.error:
            summary = self.summaries.get(command.key.partition, ShareStateSummary(key=command.key))
            return msgspec.structs.replace(summary, key=command.key)
        make_kind = ShareStateSummary if isinstance(command, ReadShareState) else ShareStateError
        return make_kind(key=command.key, error=self.error, message="no" if self.error else None)


class GroupBench:
    """The coordinator of a broker that leads all partitions."""

    def __init__(
        self,
        env: VirtualEnvironment,
        *,
        rules: Rules = LATEST_RULES,
        partitions: int | None = None,
        **settings: Any,
    ) -> None:
        self.env = env
        self.log = ListLog()
        self.image: ClusterImage = image(orders=3)
        self.shares = ShareCoordinators(env.tasks)
        self.latest: int | Rejection = 0
        """The latest offset that the leader of every log answers."""
        numbers = itertools.count(1)
        self.settings = Settings(
            offsets_topic_num_partitions=PARTITIONS,
            **{"group_initial_rebalance_delay_ms": 0, **settings},
        )
        self.groups = GroupCoordinator(
            broker_id=BrokerId(1),
            clock=env.clock,
            settings=self.settings,
            release_rules=rules,
            read_settings=lambda: self.settings,
            tasks=env.tasks,
            log=self.log,
            read_image=lambda: self.image,
            make_id=lambda: f"id{next(numbers)}",
            make_short_id=lambda: f"short{next(numbers)}",
            tracer=env.tracer,
            share_coordinators=self.shares,
            find_latest_offset=self._latest_offset,
            partition_count=partitions,
        )
        self.epoch = 0
        self.groups.is_running = True
        for partition in range(PARTITIONS):
            self.load(partition)

    async def _latest_offset(self, _: TopicPartition) -> int | Rejection:
        return self.latest

    # Life

    def load(self, partition: int = HOME) -> None:
        """Load a partition from the log under the next epoch."""
        self.epoch += 1
        batches = tuple(self.log.batches) if partition == HOME else ()
        load_whole(self.groups, partition, CoordinatorEpoch(self.epoch), batches)

    def unload(self) -> None:
        """Unload the group's partition, as after a move to another broker."""
        self.groups.unload(HOME)

    def pace(self) -> Pace:
        """The pace of a large request."""
        return Pace(self.env.tasks.turns, self.env.clock.stopwatch_ns)

    def later(self, request_coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a request; the caller waits for its answer later."""
        return self.env.tasks.spawn(request_coroutine, name="test")

    async def pass_ms(self, ms: int) -> None:
        """Let monotonic time pass."""
        await asyncio.sleep(ms / 1_000)

    # Requests

    async def join(self, member_id: str = "", **more_fields: Any) -> Any:
        """Send a JoinGroup of a client that needs no member id first."""
        values = {
            "group_id": GROUP,
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "member_id_required": False,
        }
        return await self.groups.join(JoinGroup(member_id=member_id, **{**values, **more_fields}))

    async def sync(
        self, member_id: str, generation: int = 1, *, assignments: dict[str, bytes] | None = None
    ) -> Any:
        """Send a SyncGroup."""
        return await self.groups.sync(
            SyncGroup(
                group_id=GROUP,
                generation=generation,
                member_id=member_id,
                assignments=tuple((assignments or {}).items()),
            )
        )

    def heartbeat(self, member_id: str, generation: int = 1, *, group_id: str = GROUP) -> ErrorCode:
        """Send a Heartbeat; return the error."""
        rejection = self.groups.heartbeat(
            Heartbeat(group_id=group_id, generation=generation, member_id=member_id)
        )
        return ErrorCode.none if rejection is None else rejection.error

    async def leave(self, member_id: str, *, group_id: str = GROUP) -> Any:
        """Send a LeaveGroup of one member."""
        return await self.groups.leave(LeaveGroup(group_id=group_id, members=((member_id, None),)))

    async def stable(self, **more_fields: Any) -> str:
        """Bring the group into the state Stable with one member; return the member's id."""
        join_reply = await self.join(**more_fields)
        assert join_reply.error is ErrorCode.none, join_reply
        member_id: str = join_reply.member_id
        sync_reply = await self.sync(
            member_id, join_reply.generation, assignments={member_id: b"assigned"}
        )
        assert sync_reply.error is ErrorCode.none, sync_reply
        return member_id

    async def consume(
        self, member_id: str, epoch: int = 0, pace: Pace | None = None, **more_fields: Any
    ) -> Any:
        """Send a ConsumerGroupHeartbeat; a large one needs a ``pace``."""
        joining_fields = {
            "rebalance_timeout_ms": 60_000,
            "topic_names": ("orders",),
            "owned_partitions": frozenset(),
        }
        values = {
            "group_id": GROUP,
            "client_id": "c",
            "client_host": "/h",
            **(joining_fields if epoch == 0 else {}),
            **more_fields,
        }
        return await self.groups.consumer_heartbeat(
            ConsumerHeartbeat(member_id=member_id, member_epoch=epoch, **values), pace
        )

    async def share(
        self,
        member_id: str,
        epoch: int = 0,
        *topics: str,
        pace: Pace | None = None,
        **more_fields: Any,
    ) -> Any:
        """Send a ShareGroupHeartbeat; a large one needs a ``pace``."""
        names = topics or (("orders",) if epoch == 0 else None)
        values = {"group_id": GROUP, "client_id": "c", "client_host": "/h", **more_fields}
        return await self.groups.share_heartbeat(
            ShareHeartbeat(member_id=member_id, member_epoch=epoch, topic_names=names, **values),
            pace,
        )

    async def commit(self, offset: int = 5, **more_fields: Any) -> Any:
        """Commit one position."""
        return await self.groups.commit(commit_of(offset, **more_fields))

    async def fetch(self, **more_fields: Any) -> Any:
        """Fetch one position; return the offset or the rejection."""
        positions = await self.groups.fetch(
            FetchOffsets(group_id=GROUP, partitions=(TopicPartition("orders", 0),), **more_fields)
        )
        return positions if isinstance(positions, Rejection) else positions[0].offset

    def group(self, group_id: str = GROUP) -> Group:
        group = self.groups.find(group_id)
        assert not isinstance(group, Rejection), group
        return group


def commit_of(offset: int = 5, **more_fields: Any) -> CommitOffsets:
    """A command that commits one position."""
    position = NewPosition(topic_partition=TopicPartition("orders", 0), offset=offset)
    return CommitOffsets(**{"group_id": GROUP, "positions": (position,), **more_fields})


def run_groups(main: Callable[[GroupBench], Awaitable[None]], **settings: Any) -> None:
    """Run a story in virtual time."""

    async def run_test(env: VirtualEnvironment) -> None:
        group_bench = GroupBench(env, **settings)
        await main(group_bench)
        group_bench.groups.stop()
        await env.tasks.close()

    run_virtual(run_test, seed=1)
