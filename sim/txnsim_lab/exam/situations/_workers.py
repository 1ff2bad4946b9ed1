"""Workers that read, process and write exactly once, including their positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final

import msgspec

from txnsim_lab.exam._application import (
    CALL_ATTEMPTS_MAX,
    DEFAULT_BOUNDS,
    INPUT_TOPIC,
    POLL_MS,
    POLLS_MAX,
    TRANSACTIONAL_ID,
    Application,
)
from txnsim_lab.exam._ledger import LedgerEntry, ReportedEnd
from txnsim_lab.exam.results import MissError, NotAskedError
from txnsim_lab.exam.situation import PlaySituation, Situation, SituationKind, situation

# Workers: applications that read, work and write exactly once, positions included.
#
# Where a library ties a member of a group to its producer, its driver has the command ``worker``.
# Elsewhere the application ties them itself, as Kafka's guides have it: a subscription, positions
# sent with the member's metadata, and a way back to what was read after an abort.

GROUP: Final = "g"


class TakenRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one partition that a worker has read for one transaction."""

    values: tuple[str, ...]
    partition: int
    first: int
    """Offset of the first record."""
    following: int
    """Offset after the last record."""


class Worker:
    """A consume-transform-produce worker; its producer has its name, and so has its member if a
    library ties both.
    """

    def __init__(
        self,
        app: Application,
        name: str = "w",
        *,
        topic: str = INPUT_TOPIC,
        transactional_id: str = TRANSACTIONAL_ID,
    ) -> None:
        """Starts nothing yet; ``start`` does."""
        self._app = app
        self.name: Final = name
        self._topic = topic
        self._transactional_id = transactional_id
        self._member = name

    async def start(self) -> None:
        """Joins the group and opens the producer.

        Raises:
            MissError: That fails.
            NotAskedError: The driver knows neither ``worker`` nor ``subscribe``.
        """
        app = self._app
        app.dead_names.discard(self.name)
        app.opened_names.add(self.name)
        try:
            await app.must(
                "worker",
                worker=self.name,
                transactional_id=app.name(self._transactional_id),
                **app.reading(GROUP, self._topic),
                **DEFAULT_BOUNDS,
            )
        except NotAskedError:
            self._member = f"{self.name}-member"
            await app.must_init(self.name, transactional_id=self._transactional_id)
            await app.subscribe(self._member, GROUP, "classic", topic=self._topic)

    async def end(self) -> None:
        """Closes its producer, if it is not dead already, and its member, as the end of a process
        does.
        """
        for name in sorted({self.name, self._member} - self._app.dead_names):
            await self._app.close(name)

    @property
    def _is_tied(self) -> bool:
        return self._member == self.name

    async def poll(self) -> TakenRecords | None:
        """Polls once; None if no records came."""
        answer = await self._app.must("poll", consumer=self._member, timeout_ms=POLL_MS)
        if not answer.records:
            return None
        partition = answer.records[0][0]
        records_of_partition = [
            (offset, value)
            for record_partition, offset, value in answer.records
            if record_partition == partition
        ]
        assert len(records_of_partition) == len(answer.records), "the input is in one partition"
        return TakenRecords(
            values=tuple(value for _, value in records_of_partition),
            partition=partition,
            first=records_of_partition[0][0],
            following=records_of_partition[-1][0] + 1,
        )

    async def take(self) -> TakenRecords:
        """Polls until records come.

        Raises:
            MissError: No record comes.
        """
        for _ in range(POLLS_MAX):
            if (taken_records := await self.poll()) is not None:
                return taken_records
        raise MissError(f"nothing more comes to the worker{self._app.after_errors}")

    async def transact(
        self, *values: str, taken_records: TakenRecords | None = None
    ) -> LedgerEntry:
        """Writes records, and commits them with the positions of the inputs."""
        app, position = self._app, -1 if taken_records is None else taken_records.following
        transaction = app.ledger.begin(
            *values, group=GROUP if taken_records else "", position=position
        )
        answer = await app.fill(values, self.name)
        if taken_records is not None and not self._is_tied and answer.error is None:
            answer = await app.send_offsets(
                GROUP, position, producer=self.name, member=self._member
            )
        if answer.error is not None:
            await app.give_up(transaction, self.name, answer.error)
        else:
            await app.end(transaction, producer=self.name)
        if (
            taken_records is not None
            and transaction.reported_end is not ReportedEnd.COMMITTED
            and not self._is_dead
        ):
            await self._go_back(taken_records)
        return transaction

    @property
    def _is_dead(self) -> bool:
        return self.name in self._app.dead_names

    async def _go_back(self, taken_records: TakenRecords) -> None:
        """Seeks back to the first input; a library that ties consumer and producer does so by
        itself.
        """
        if not self._is_tied:
            topic, offset = self._app.name(self._topic), taken_records.first
            await self._app.must(
                "seek",
                consumer=self._member,
                topic=topic,
                partition=taken_records.partition,
                offset=offset,
            )

    async def work(
        self,
        input_values: Sequence[str],
        *,
        fault_context: AbstractAsyncContextManager[None] | None = None,
    ) -> None:
        """Writes a record for each input until the library reports all as committed.

        Args:
            input_values: Values of the input records.
            fault_context: Entered after the first poll, left after the first transaction.

        Raises:
            MissError: An input is not processed, or is processed twice.
        """
        finished_values: set[str] = set()
        for number in range(CALL_ATTEMPTS_MAX):
            if self._is_dead:
                await self.end()
                await self.start()
            taken_records = await self.take()
            output_values = [f"{value}.{number}" for value in taken_records.values]
            async with fault_context if fault_context is not None and not number else nullcontext():
                transaction = await self.transact(*output_values, taken_records=taken_records)
            if transaction.reported_end is ReportedEnd.COMMITTED:
                finished_values |= set(taken_records.values)
            if finished_values >= set(input_values):
                break
        count_by_input = Counter(
            value.rpartition(".")[0] for value in await self._app.committed_values()
        )
        wrong_counts = {
            value: count_by_input[value] for value in input_values if count_by_input[value] != 1
        }
        if wrong_counts:
            raise MissError(f"each input counts once, but was worked on so often: {wrong_counts}")


_INPUTS: Final = ("in-1", "in-2", "in-3")


async def _start_ready_worker(app: Application) -> Worker:
    """A started worker with input to process."""
    await app.fill_input(*_INPUTS)
    worker = Worker(app)
    await worker.start()
    return worker


def _play_struck_worker(
    api: str, fault_action: Any, *, point: str = "client.request"
) -> PlaySituation:
    """Runs a worker; one of its requests meets a fault."""

    async def play(app: Application) -> None:
        """The records that a worker writes are committed with the positions of its inputs, or not
        at all (KIP-98, KIP-447). After an abort it goes back to these inputs, so each input counts
        once.
        """
        worker = await _start_ready_worker(app)
        await app.arm(limit=1, point=point, api=api, action=fault_action)
        await worker.work(_INPUTS)

    return play


def _error_action(error: str) -> dict[str, str]:
    return {"do": "error", "error": error}


_SITUATION_TABLE: Final[tuple[tuple[str, SituationKind, str, PlaySituation], ...]] = (
    ("worker-commit-refused", "end unknown",
     "A worker's commit is refused with UNKNOWN_SERVER_ERROR: does each input count once?",
     _play_struck_worker("EndTxn", _error_action("UNKNOWN_SERVER_ERROR"))),
    ("worker-commit-answer-lost", "end unknown",
     "The answer to a worker's commit is lost: does each input count once?",
     _play_struck_worker("EndTxn", "drop", point="client.response")),
    ("worker-positions-refused", "groups",
     "A worker's positions are refused with NOT_COORDINATOR: does each input count once?",
     _play_struck_worker("TxnOffsetCommit", _error_action("NOT_COORDINATOR"))),
    ("worker-is-unknown", "groups",
     "A worker's positions are refused with UNKNOWN_MEMBER_ID: does each input count once?",
     _play_struck_worker("TxnOffsetCommit", _error_action("UNKNOWN_MEMBER_ID"))),
)  # fmt: skip
_KNOWN_BUGS: Final = {"worker-commit-refused": ("franz-go 6ecd2f9f",)}


@situation("worker-works", "groups", "A worker reads, writes and commits: does each input count"
           " once?", groups=(GROUP,), is_core=True)  # fmt: skip
async def works(app: Application) -> None:
    """The records that a worker writes are committed with the positions of its inputs, or not at
    all (KIP-98, KIP-447), so each input counts once.
    """
    await (await _start_ready_worker(app)).work(_INPUTS)


@situation("worker-ends-when-refused", "end unknown", "A worker's commit is refused with"
           " UNKNOWN_SERVER_ERROR, and its process ends behind it: what does the next one work on?",
           groups=(GROUP,), about=("franz-go 42b3d833",), is_core=True)  # fmt: skip
async def ends_when_refused(app: Application) -> None:
    """A library may say "committed" only if the transaction is committed. The next process begins
    at the committed positions, so each input counts once.
    """
    worker = await _start_ready_worker(app)

    @asynccontextmanager
    async def to_its_end() -> AsyncIterator[None]:
        yield
        await worker.end()

    await app.arm(point="client.request", api="EndTxn", limit=1,
                   action=_error_action("UNKNOWN_SERVER_ERROR"))  # fmt: skip
    await worker.work(_INPUTS, fault_context=to_its_end())


@situation("worker-is-rebalanced", "groups", "Another member joins between the poll and the commit"
           " of a worker: does each input count once?", groups=(GROUP,))  # fmt: skip
async def worker_rebalanced(app: Application) -> None:
    """Inputs that were read in an old generation may be committed before the next one begins, or
    never (KIP-447), so each input counts once.
    """
    worker, other_worker = await _start_ready_worker(app), Worker(app, "x", transactional_id="till")

    @asynccontextmanager
    async def another_member() -> AsyncIterator[None]:
        await other_worker.start()
        await other_worker.poll()
        yield
        await other_worker.end()

    await worker.work(_INPUTS, fault_context=another_member())


@situation("worker-without-input", "liveness", "The topic of a worker's inputs is not there yet:"
           " can it commit what it writes?", about=("franz-go 821f879e",))  # fmt: skip
async def without_input(app: Application) -> None:
    """Without input the group is never created. A commit without positions needs no group
    (KIP-98).
    """
    worker = Worker(app, topic="later")
    await worker.start()
    app.expect_end(await worker.transact("a-1"), ReportedEnd.COMMITTED)


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(
        situation(name, kind, asks, groups=(GROUP,), about=_KNOWN_BUGS.get(name, ()))(play)
        for name, kind, asks, play in _SITUATION_TABLE
    ),
    works,
    ends_when_refused,
    worker_rebalanced,
    without_input,
)
