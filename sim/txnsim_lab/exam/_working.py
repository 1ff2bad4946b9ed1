"""Workers: applications that read, work and write exactly once, positions included.

Where a library ties a member of a group to its producer, its driver has the command ``worker``.
Elsewhere the application ties them itself, as Kafka's guides have it: a subscription, positions
sent with the member's metadata, and a way back to what was read after an abort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

import msgspec

from txnsim_lab.exam._application import (
    BOUNDS,
    ID,
    INPUT,
    POLL_MS,
    POLLS_MAX,
    REPEATS_MAX,
    Application,
)
from txnsim_lab.exam._ledger import Entry, Told
from txnsim_lab.exam.results import MissError, NotAskedError

GROUP: Final = "g"


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has read for one transaction, of one partition."""

    values: tuple[str, ...]
    partition: int
    first: int
    """Offset of the first record."""
    following: int
    """Offset behind the last record, exclusive."""


class Worker:
    """A consume-transform-produce worker; its producer and a tied member have its name."""

    def __init__(
        self, app: Application, name: str = "w", *, topic: str = INPUT, transactional_id: str = ID
    ) -> None:
        """Nothing runs: ``start`` it."""
        self._app = app
        self.name: Final = name
        self._topic = topic
        self._id = transactional_id
        self._member = name

    async def start(self) -> None:
        """Join the group, with a producer.

        Raises:
            MissError: It does not come up.
            NotAskedError: The driver knows neither ``worker`` nor ``subscribe``.
        """
        app = self._app
        app.dead.discard(self.name)
        app.opened.add(self.name)
        try:
            await app.must(
                "worker",
                worker=self.name,
                transactional_id=app.name(self._id),
                **app.reading(GROUP, self._topic),
                **BOUNDS,
            )
        except NotAskedError:
            self._member = f"{self.name}-member"
            await app.must_init(self.name, transactional_id=self._id)
            await app.subscribe(self._member, GROUP, "classic", topic=self._topic)

    async def end(self) -> None:
        """Close its producer, which may be dead already, and its member: a process ends."""
        for name in sorted({self.name, self._member} - self._app.dead):
            await self._app.close(name)

    @property
    def _is_tied(self) -> bool:
        return self._member == self.name

    async def poll(self) -> Taken | None:
        """What one poll brings."""
        answer = await self._app.must("poll", consumer=self._member, timeout_ms=POLL_MS)
        if not answer.records:
            return None
        partition = answer.records[0][0]
        ours = [(at, value) for where, at, value in answer.records if where == partition]
        assert len(ours) == len(answer.records), "the input is in one partition"
        return Taken(
            values=tuple(value for _, value in ours),
            partition=partition,
            first=ours[0][0],
            following=ours[-1][0] + 1,
        )

    async def take(self) -> Taken:
        """What comes next.

        Raises:
            MissError: Nothing comes.
        """
        for _ in range(POLLS_MAX):
            if (taken := await self.poll()) is not None:
                return taken
        raise MissError(f"nothing more comes to the worker{self._app.after_errors}")

    async def transact(self, *values: str, taken: Taken | None = None) -> Entry:
        """Write records, and commit them with the positions of what was taken."""
        app, position = self._app, -1 if taken is None else taken.following
        entry = app.ledger.begin(*values, group=GROUP if taken else "", position=position)
        answer = await app.fill(values, self.name)
        if taken is not None and not self._is_tied and answer.error is None:
            answer = await app.send_offsets(
                GROUP, position, producer=self.name, member=self._member
            )
        if answer.error is not None:
            await app.give_up(entry, self.name, answer.error)
        else:
            await app.end(entry, producer=self.name)
        if taken is not None and entry.told is not Told.COMMITTED and not self._is_gone:
            await self._go_back(taken)
        return entry

    @property
    def _is_gone(self) -> bool:
        return self.name in self._app.dead

    async def _go_back(self, taken: Taken) -> None:
        """Seek back to the first record taken; a library that ties both seeks by itself."""
        if not self._is_tied:
            topic, at = self._app.name(self._topic), taken.first
            await self._app.must(
                "seek", consumer=self._member, topic=topic, partition=taken.partition, offset=at
            )

    async def work(
        self,
        inputs: Sequence[str],
        *,
        around: AbstractAsyncContextManager[None] | None = None,
    ) -> None:
        """Write a record for each input, until all are told committed; the application obeys.

        Args:
            inputs: What was fed.
            around: What happens around the first transaction, behind its poll.

        Raises:
            MissError: Not all can be worked on, or one counts twice.
        """
        done: set[str] = set()
        for number in range(REPEATS_MAX):
            if self._is_gone:
                await self.end()
                await self.start()
            taken = await self.take()
            values = [f"{value}.{number}" for value in taken.values]
            async with around if around is not None and not number else nullcontext():
                entry = await self.transact(*values, taken=taken)
            if entry.told is Told.COMMITTED:
                done |= set(taken.values)
            if done >= set(inputs):
                break
        counts = Counter(value.rpartition(".")[0] for value in await self._app.committed())
        wrong = {value: counts[value] for value in inputs if counts[value] != 1}
        if wrong:
            raise MissError(f"each input counts once, but was worked on so often: {wrong}")
