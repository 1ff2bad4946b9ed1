"""What a situation works with: a cluster, a driver, and an application that obeys its library.

The application does what a library's error asks for: it repeats a call that is said to be
retriable, aborts where it is told to abort, and takes a new producer where the old one is dead. So
a library is judged by what happens to those who follow its word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from txnsim.client.inspection.reading import Fate
from txnsim.client.positions import committed_positions
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.exam.book import Book, Entry, Told
from txnsim.testing.exam.driver import UNSUPPORTED, Answer, Driver, LibraryError
from txnsim.testing.faults import AsyncFault
from txnsim.types import TopicPartition

TOPIC: Final = "t"
PARTITIONS: Final = 2
INPUT: Final = "input"
"""Whose positions groups commit."""
CLIENT: Final = "exam"
"""The client id that drivers take: faults strike and count its requests alone."""
ID: Final = "shop"
REQUEST_TIMEOUT_MS: Final = 2_000
PATIENCE_MS: Final = 15_000
REPEATS_MAX: Final = 10
"""Of a call that is said to be retriable."""
PAUSE_S: Final = 0.1
POLLS_MAX: Final = 20
POLL_MS: Final = 400


class MissError(Exception):
    """The library does something that it must not."""


class NotAskedError(Exception):
    """The situation does not come about with this library."""


class Room:
    """One situation, being played."""

    def __init__(self, kafka: AsyncSimulatedKafka, driver: Driver) -> None:
        self.kafka = kafka
        self.book = Book()
        self.errors: list[str] = []
        """What the library has told, call by call."""
        self.must_strike: list[AsyncFault] = []
        self.positions: dict[int, int] = {}
        """Where the reader stood after its last poll, by partition."""
        self._driver = driver
        self.dead: set[str] = set()
        """What was closed because the library has called it dead."""
        self.opened: set[str] = set()
        """Producers and consumers, by name."""
        self._ids: dict[str, str] = {}
        """Producers to their transactional ids."""

    # What the library is asked

    async def do(self, verb: str, **arguments: Any) -> Answer:
        """One command; an error is an answer.

        Raises:
            NotAskedError: The driver has no such command.
        """
        answer = await self._driver.ask(verb, **arguments)
        if answer.error is not None and not answer.ok:
            if answer.error.name == UNSUPPORTED:
                raise NotAskedError(f"the driver has no command {verb}")
            self.errors.append(f"{verb}: {_words(answer.error)}")
        elif not answer.ok:
            raise MissError(f"{verb} failed without an error")
        return answer

    async def must(self, verb: str, **arguments: Any) -> Answer:
        """One command that has to work.

        Raises:
            MissError: It does not.
        """
        answer = await self.do(verb, **arguments)
        if answer.error is not None:
            raise MissError(f"{verb} failed: {_words(answer.error)}")
        return answer

    async def init(self, producer: str = "p", *, transactional_id: str = ID) -> Answer:
        """A transactional producer; the call is repeated while the library says it may be."""
        self.dead.discard(producer)
        self.opened.add(producer)
        self._ids[producer] = transactional_id
        for _ in range(REPEATS_MAX):
            answer = await self.do(
                "init",
                producer=producer,
                bootstrap=self.kafka.bootstrap,
                client_id=CLIENT,
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                patience_ms=PATIENCE_MS,
            )
            if answer.error is None or not answer.error.retriable:
                return answer
            await asyncio.sleep(PAUSE_S)
        return answer

    async def must_init(self, producer: str = "p", *, transactional_id: str = ID) -> None:
        """A producer that has to come up.

        Raises:
            MissError: It does not.
        """
        answer = await self.init(producer, transactional_id=transactional_id)
        if answer.error is not None:
            raise MissError(f"init failed: {_words(answer.error)}")

    async def open(self, *values: str, producer: str = "p") -> Entry:
        """A transaction that stays open, with its records acknowledged."""
        entry = self.book.begin(*values)
        await self.must("begin", producer=producer)
        for value in values:
            self.expect((await self.send(value, producer)).error, None, f"sending {value}")
        return entry

    async def must_send(self, entry: Entry, value: str, producer: str) -> None:
        """One more record of an open transaction."""
        self.expect((await self.send(value, producer)).error, None, f"sending {value}")
        entry.values = (*entry.values, value)

    async def must_end(self, entry: Entry, producer: str, how: str) -> None:
        """End a transaction that nothing disturbs."""
        told = await self.end(entry, producer=producer, how=how)
        wanted = Told.COMMITTED if how == "commit" else Told.ABORTED
        self.expect(told, wanted, f"{how} is told")

    async def send(self, value: str, producer: str = "p", *, wait: bool = True) -> Answer:
        """One record; values go to the partitions in turn, by their last letter."""
        return await self.do(
            "send",
            producer=producer,
            topic=TOPIC,
            partition=ord(value[-1]) % PARTITIONS,
            value=value,
            wait=wait,
        )

    async def transact(
        self,
        *values: str,
        producer: str = "p",
        end: str = "commit",
        group: str = "",
        position: int = -1,
        wait: bool = True,
    ) -> Told:
        """A whole transaction of an application that obeys."""
        entry = self.book.begin(*values, group=group, position=position)
        answer = await self.do("begin", producer=producer)
        for value in values:
            if answer.error is None:
                answer = await self.send(value, producer, wait=wait)
        if group and answer.error is None:
            answer = await self.do(
                "send-offsets", producer=producer, group=group, offsets=[[INPUT, 0, position]]
            )
        if answer.error is None:
            return await self.end(entry, producer=producer, how=end)
        return await self._give_up(entry, producer, answer.error)

    async def end(self, entry: Entry, *, producer: str = "p", how: str = "commit") -> Told:
        """End a transaction, as the library wants it."""
        for _ in range(REPEATS_MAX):
            if how == "commit":
                entry.told = Told.UNKNOWN
            answer = await self.do(how, producer=producer)
            if answer.error is None:
                entry.told = Told.COMMITTED if how == "commit" else Told.ABORTED
                return entry.told
            if answer.error.fatal or not (answer.error.retriable or answer.error.abortable):
                break
            if answer.error.abortable:
                if how == "abort":
                    break
                how = "abort"
            await asyncio.sleep(PAUSE_S)
        await self.close(producer)
        return entry.told

    async def _give_up(self, entry: Entry, producer: str, error: LibraryError) -> Told:
        """After an error in the middle: abort, unless the producer is dead."""
        if error.fatal:
            await self.close(producer)
            return entry.told
        return await self.end(entry, producer=producer, how="abort")

    async def close(self, name: str) -> None:
        """Close a producer or a consumer; what it says is of no interest."""
        self.dead.add(name)
        await self.do("close", name=name)

    async def goes_on(self, producer: str = "p", *, value: str = "after") -> None:
        """The application commits again: with the same producer, or with a new one where the
        library has called that one dead.

        Raises:
            MissError: It can't.
        """
        for attempt in ("-1", "-2"):
            if producer in self.dead:
                answer = await self.init(producer, transactional_id=self._ids[producer])
                if answer.error is not None:
                    raise MissError(f"a new producer can't begin: {_words(answer.error)}")
            if await self.transact(value + attempt, producer=producer) is Told.COMMITTED:
                return
        raise MissError(f"nothing can be committed after that: {self.errors[-1]}")

    # Readers

    async def consumer(self, name: str = "c", *, group: str = "readers") -> None:
        """A ``read_committed`` reader from the beginning."""
        self.opened.add(name)
        await self.must(
            "consumer",
            consumer=name,
            bootstrap=self.kafka.bootstrap,
            client_id=CLIENT,
            group=group,
            topic=TOPIC,
            partitions=PARTITIONS,
            isolation="read_committed",
        )

    async def poll(self, count: int, *, to: int = -1, name: str = "c") -> list[str]:
        """Values, in the order in which they came.

        Args:
            count: Look until so many have come, and once more.
            to: Look until the reader stands there in partition 1.
            name: The reader.
        """
        found: list[str] = []
        for is_last in (*[False] * POLLS_MAX, True):
            if len(found) >= count and self.positions.get(1, -1) >= to and not is_last:
                continue
            answer = await self.must("poll", consumer=name, timeout_ms=POLL_MS)
            found += [value for _, _, value in answer.records]
            self.positions = {int(index): at for index, at in answer.positions.items()}
        return found

    def expect(self, found: object, wanted: object, what: str) -> None:
        """Hold one against the other.

        Raises:
            MissError: They differ.
        """
        if found != wanted:
            raise MissError(f"{what}: {found}, expected {wanted}")

    # The cluster

    async def arm(self, *, must_strike: bool = True, **rule: Any) -> AsyncFault:
        """A fault on the driver's own requests, unless the rule is of another kind."""
        if str(rule.get("point", "")).startswith("client."):
            rule.setdefault("client_id", CLIENT)
        fault = await self.kafka.faults.arm(may_miss=True, **rule)
        if must_strike:
            self.must_strike.append(fault)
        return fault

    async def requests(self, api: str | None = None) -> AsyncFault:
        """A count of the driver's requests, from now on."""
        return await self.arm(must_strike=False, point="client.request", api=api, action="pass")

    async def time_out(self) -> None:
        """Let the coordinator abort what takes too long.

        Raises:
            MissError: There is no open transaction.
        """
        await self.kafka.clock.advance("2m")
        try:
            await self.kafka.transactions.wait_for_state(ID, "CompleteAbort", timeout_ms=10_000)
        except TimeoutError as error:
            raise MissError(f"no transaction could time out: {error}") from None

    async def judge(self, groups: Sequence[str] = ()) -> list[str]:
        """What the log says to all that was told."""
        records = await self.kafka.topics.read(TOPIC)
        committed = [(r.value or b"").decode() for r in records if r.fate is Fate.COMMITTED]
        positions = {group: await self.position_of(group) for group in groups}
        return list(self.book.misses(committed, positions))

    async def position_of(self, group: str, topic: str = INPUT, partition: int = 0) -> int:
        """Where a group would go on."""
        where = TopicPartition(topic, partition)
        admin = await self.kafka.rebuilt.admin()
        return (await committed_positions(admin.cluster, group, [where]))[where]


def _words(error: LibraryError) -> str:
    kinds = [kind for kind in ("retriable", "abortable", "fatal") if getattr(error, kind)]
    return f"{error.name} ({', '.join(kinds) or 'no word on what to do'}) {error.message}".rstrip()
