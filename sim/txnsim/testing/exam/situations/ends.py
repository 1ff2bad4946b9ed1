"""The end is unknown: the request that ends a transaction is lost, late or refused."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from txnsim.testing.exam.book import Told
from txnsim.testing.exam.hall import home_of_id
from txnsim.testing.exam.results import MissError
from txnsim.testing.exam.room import ID, Room
from txnsim.testing.exam.situation import Play, Situation, situation


def _struck(end: str, want: Told | None, **fault: Any) -> Play:
    """A transaction whose EndTxn meets a fault.

    Args:
        end: How it ends: commit or abort.
        want: What the application must be told; any truth will do where None.
        fault: The rule.
    """

    async def play(room: Room) -> None:
        await room.must_init()
        rule = await room.arm(**{"api": "EndTxn", "limit": 1, **fault})
        told = await room.transact("a-1", "b-2", end=end)
        await rule.disarm()
        if want is not None:
            room.expect(told, want, f"the application is told, after {room.errors}")
        await room.goes_on()

    return play


_ASKED: Final[dict[str, Any]] = {"point": "client.request"}
_ANSWERED: Final[dict[str, Any]] = {"point": "client.response"}
_COMMITTED, _ABORTED = Told.COMMITTED, Told.ABORTED

_ASKED_AGAIN: Final = (
    "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
)  # fmt: skip
_REFUSED: Final = (
    "UNKNOWN_SERVER_ERROR", "INVALID_TXN_STATE", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)  # fmt: skip

_TABLE: Final = (
    ("commit-lost", "The commit is lost on its way: is it sent again?",
     _struck("commit", _COMMITTED, **_ASKED, action="drop")),
    ("commit-answer-lost", "The answer to the commit is lost: is the commit asked for again?",
     _struck("commit", _COMMITTED, **_ANSWERED, action="drop")),
    ("commit-connection-breaks-before", "The connection breaks before the commit is read.",
     _struck("commit", _COMMITTED, **_ASKED, action="disconnect")),
    ("commit-connection-breaks-after", "The connection breaks when the commit is done.",
     _struck("commit", _COMMITTED, **_ANSWERED, action="disconnect")),
    ("abort-lost", "The abort is lost on its way.",
     _struck("abort", _ABORTED, **_ASKED, action="drop")),
    ("abort-answer-lost", "The answer to the abort is lost.",
     _struck("abort", _ABORTED, **_ANSWERED, action="drop")),
    ("abort-connection-breaks-before", "The connection breaks before the abort is read.",
     _struck("abort", _ABORTED, **_ASKED, action="disconnect")),
    ("abort-connection-breaks-after", "The connection breaks when the abort is done.",
     _struck("abort", _ABORTED, **_ANSWERED, action="disconnect")),
    *((f"commit-answered-{error.lower().replace('_', '-')}",
       f"The commit is answered {error}, three times, and then done.",
       _struck("commit", _COMMITTED, **_ASKED, limit=3, action={"do": "error", "error": error}))
      for error in _ASKED_AGAIN),
    *((f"abort-answered-{error.lower().replace('_', '-')}",
       f"The abort is answered {error}, three times, and then done.",
       _struck("abort", _ABORTED, **_ASKED, limit=3, action={"do": "error", "error": error}))
      for error in _ASKED_AGAIN),
    *((f"commit-refused-{error.lower().replace('_', '-')}",
       f"The commit is refused with {error}: is the application told that it is not committed?",
       _struck("commit", None, **_ASKED, limit=100, action={"do": "error", "error": error}))
      for error in _REFUSED),
    *((f"abort-refused-{error.lower().replace('_', '-')}",
       f"The abort is refused with {error}: how does the application go on?",
       _struck("abort", None, **_ASKED, action={"do": "error", "error": error}))
      for error in _REFUSED),
)  # fmt: skip
_CORE: Final = (
    "commit-lost", "commit-answer-lost", "commit-connection-breaks-after", "abort-answer-lost",
    "commit-answered-not-coordinator", "commit-answered-concurrent-transactions",
    "commit-refused-unknown-server-error", "commit-refused-producer-fenced",
)  # fmt: skip
AWAY_MS: Final = 2_000
_ABOUT: Final = {"commit-refused-unknown-server-error": ("franz-go 42b3d833",)}


@situation("markers-slow", "end unknown", "The markers of a commit take a second, and the next"
           " transaction begins at once: does it wait?",
           about=("kafkajs #1068", "Sarama #2859"), core=True)  # fmt: skip
async def markers_slow(room: Room) -> None:
    """Yardstick: CONCURRENT_TRANSACTIONS is asked again until the markers are written."""
    await room.must_init()
    delay = {"do": "delay", "delay_ms": 1_000}
    await room.arm(point="peer.request", api="WriteTxnMarkers", action=delay)
    for value in ("a-1", "b-2", "c-3"):
        room.expect(await room.transact(value), _COMMITTED, f"{value} after {room.errors}")


@situation("markers-slow-then-offsets", "end unknown", "The markers of a commit take a second, and"
           " the next transaction begins with positions.", groups=("g",),
           about=("kafkajs #430", "librdkafka #3221"), core=True)  # fmt: skip
async def markers_slow_offsets(room: Room) -> None:
    """AddOffsetsToTxn meets CONCURRENT_TRANSACTIONS."""
    await room.must_init()
    room.expect(await room.transact("a-1", group="g", position=1), _COMMITTED, "the first one")
    delay = {"do": "delay", "delay_ms": 1_000}
    await room.arm(point="peer.request", api="WriteTxnMarkers", action=delay)
    room.expect(await room.transact("b-2", group="g", position=2), _COMMITTED, "the second one")
    entry = room.book.begin("c-3", group="g", position=3)
    await room.must("begin", producer="p")
    room.expect((await room.send_offsets("g", 3)).error, None, "the positions")
    answer = await room.send("c-3")
    room.expect(answer.error, None, "the record behind the positions")
    room.expect(await room.end(entry), _COMMITTED, f"the third one after {room.errors}")


@situation("commit-late", "end unknown", "The commit is held for longer than the library waits;"
           " the application obeys and goes on; then the commit arrives: does it end a"
           " transaction that is not its own?", about=("librdkafka #5423",),
           needs_version_2=True, core=True)  # fmt: skip
async def commit_late(room: Room) -> None:
    """An EndTxn of old carries the epoch of its time. In version 1 that is the epoch of the next
    transaction as well, and the Java client repeats a commit in the same way: the protocol's hole.
    """
    await room.must_init()
    late = await room.arm(point="client.request", api="EndTxn", limit=1, action="hold")
    await room.transact("a-1")
    if "p" in room.dead:
        await room.must_init("p")
    following = await room.open("b-2")
    await late.release()
    await asyncio.sleep(0.5)
    records = await room.records(settle_ms=0)
    early = [one for one in records if one.value == b"b-2" and one.fate == "committed"]
    if early:
        raise MissError("the late commit of the first transaction has committed the second one")
    await room.end(following)
    await room.goes_on()


@situation("commit-while-coordinator-moves", "end unknown", "The coordinator's partition gets"
           " another leader when the commit arrives.")  # fmt: skip
async def coordinator_moves(room: Room) -> None:
    """A real move: the new coordinator loads its log."""
    await room.must_init()
    entry = await room.open("a-1", "b-2")
    await room.move_coordinator()
    room.expect(await room.end(entry), _COMMITTED, f"the application is told, {room.errors}")
    await room.goes_on()


@situation("commit-while-coordinator-dies", "end unknown", "The coordinator's broker dies before"
           " the commit, and stays dead: is the new coordinator found?",
           about=("aiokafka #1134", "aiokafka #1145"), core=True)  # fmt: skip
async def coordinator_dies(room: Room) -> None:
    """Yardstick: FindCoordinator again when the connection is lost."""
    await room.must_init()
    entry = await room.open("a-1", "b-2")
    await room.kill_coordinator()
    room.expect(await room.end(entry), _COMMITTED, f"the application is told, {room.errors}")
    await room.goes_on()


@situation("abort-behind-unsent", "end unknown", "Records are handed over and the transaction is"
           " aborted at once: does the abort wait for what is on its way?",
           about=("librdkafka #4849",), core=True)  # fmt: skip
async def abort_behind_unsent(room: Room) -> None:
    """EndTxn must not overtake AddPartitionsToTxn."""
    await room.must_init()
    for index in range(8):
        told = await room.transact(f"a{index}-1", f"b{index}-2", end="abort", wait=False)
        room.expect(told, _ABORTED, f"the application is told, after {room.errors}")
    await room.goes_on()


@situation("commit-connection-breaks-twice", "end unknown", "The connection breaks before the"
           " commit is read, and again when it is done.")  # fmt: skip
async def breaks_twice(room: Room) -> None:
    """Between the two the commit has taken effect, and no answer came."""
    await room.must_init()
    await room.arm(api="EndTxn", limit=1, **_ASKED, action="disconnect")
    await room.arm(api="EndTxn", limit=1, **_ANSWERED, action="disconnect")
    told = await room.transact("a-1", "b-2")
    room.expect(told, _COMMITTED, f"the application is told, after {room.errors}")
    await room.goes_on()


@situation("commit-while-coordinator-resigns", "end unknown", "The coordinator resigns when the"
           " commit arrives, is elected again, and loads its log.")  # fmt: skip
async def coordinator_resigns(room: Room) -> None:
    """Yardstick: NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE are asked again."""
    await room.must_init()
    entry = await room.open("a-1", "b-2")
    home = await home_of_id(room.hall, room.name(ID))
    action = {"do": "resign-leader", "topic": home.topic, "partition": home.partition}
    await room.arm(**_ASKED, api="EndTxn", limit=1, action=action)
    room.expect(await room.end(entry), _COMMITTED, f"the application is told, {room.errors}")
    await room.goes_on()


@situation("commit-while-coordinator-loads", "end unknown", "The coordinator has moved, and its new"
           " broker takes two seconds to load its log.")  # fmt: skip
async def coordinator_loads(room: Room) -> None:
    """Yardstick: COORDINATOR_LOAD_IN_PROGRESS is asked again."""
    await room.must_init()
    entry = await room.open("a-1", "b-2")
    await room.arm(point="coordinator.load", limit=1, action={"do": "delay", "delay_ms": AWAY_MS})
    await room.move_coordinator()
    room.expect(await room.end(entry), _COMMITTED, f"the application is told, {room.errors}")
    await room.goes_on()


def _called_after(first: str, second: str) -> Play:
    """A call that comes after the end of its transaction."""

    async def play(room: Room) -> None:
        await room.must_init()
        told = await room.transact("a-1", "b-2", end=first)
        wanted = _COMMITTED if first == "commit" else _ABORTED
        room.expect(told, wanted, f"{first} is told")
        answer = await room.do(second, producer="p")
        if answer.error is None:
            room.choices.append(f"{second} after {first} is no error; in the Java client it is")
        elif answer.error.fatal:
            await room.close("p")
        await room.goes_on()

    return play


@situation("abort-after-unknown-commit", "end unknown", "The commit is held for longer than the"
           " library waits, and the application aborts all the same: is it refused, or does the"
           " abort hold?", core=True)  # fmt: skip
async def abort_after_unknown(room: Room) -> None:
    """Yardstick: IllegalStateException, as a commit that has timed out must be asked for again. A
    library that lets the application abort has to be right.
    """
    await room.must_init()
    late = await room.arm(point="client.request", api="EndTxn", limit=1, action="hold")
    entry = await room.open("a-1", "b-2")
    entry.told = Told.UNKNOWN
    answer = await room.do("commit", producer="p")
    if answer.error is None:
        entry.told = _COMMITTED
    if (await room.do("abort", producer="p")).error is None:
        entry.told = _ABORTED
    await late.release()
    await asyncio.sleep(0.5)
    if entry.told is Told.UNKNOWN:
        await room.end(entry)
    await room.goes_on()


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(
        situation(
            name, "end unknown", asks, about=_ABOUT.get(name, ()), core=name in _CORE
        )(play)
        for name, asks, play in _TABLE
    ),
    *(
        situation(f"{second}-after-{first}", "end unknown",
                  f"A transaction has ended by {first}, and the application calls {second}.")(
                      _called_after(first, second))
        for first in ("commit", "abort")
        for second in ("commit", "abort")
    ),
    markers_slow,
    markers_slow_offsets,
    commit_late,
    coordinator_moves,
    coordinator_dies,
    abort_behind_unsent,
    breaks_twice,
    coordinator_resigns,
    coordinator_loads,
    abort_after_unknown,
)  # fmt: skip
