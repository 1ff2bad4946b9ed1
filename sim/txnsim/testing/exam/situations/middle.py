"""The middle of a transaction: requests before its end that are lost, refused or answered twice."""

from __future__ import annotations

from typing import Any, Final

from txnsim.testing.exam.book import Told
from txnsim.testing.exam.room import Room
from txnsim.testing.exam.situation import ALL, Play, Situation, situation

_CLIENTS_ADD: Final = (0, 1)
"""Levels at which clients add partitions and groups by themselves (KIP-890 ends that)."""


def _struck(api: str, *, commits: bool = True, limit: int = 2, **fault: Any) -> Play:
    """A transaction with records and positions, one request of which meets a fault.

    Args:
        api: Which request.
        commits: The library has to get over it by itself.
        limit: How often it is struck.
        fault: The rest of the rule.
    """

    async def play(room: Room) -> None:
        await room.must_init()
        rule = await room.arm(api=api, limit=limit, **fault)
        told = await room.transact("a-1", "b-2", group="g", position=3)
        if commits:
            room.expect(told, Told.COMMITTED, f"the application is told, after {room.errors}")
        await room.kafka.faults.disarm(rule.id)
        await room.goes_on()

    return play


def _answered(
    api: str, error: str, levels: tuple[int, ...] = ALL, *, commits: bool = True
) -> Situation:
    end = "is it asked again?" if commits else "may the application abort and go on?"
    return situation(
        f"{api}-{error}".lower().replace("_", "-"),
        "middle",
        f"{api} is answered {error}{', twice' if commits else ''}: {end}",
        levels=levels,
        groups=("g",),
    )(
        _struck(
            api,
            commits=commits,
            limit=2 if commits else 1,
            point="client.request",
            action={"do": "error", "error": error},
        )
    )


def _broken(
    name: str, asks: str, api: str, levels: tuple[int, ...] = ALL, **fault: Any
) -> Situation:
    play = _struck(api, limit=1, **fault)
    return situation(name, "middle", asks, levels=levels, groups=("g",))(play)


_RETRIABLE: Final = (
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", _CLIENTS_ADD),
    ("AddPartitionsToTxn", "NOT_COORDINATOR", _CLIENTS_ADD),
    ("AddPartitionsToTxn", "COORDINATOR_LOAD_IN_PROGRESS", _CLIENTS_ADD),
    ("AddOffsetsToTxn", "CONCURRENT_TRANSACTIONS", _CLIENTS_ADD),
    ("AddOffsetsToTxn", "NOT_COORDINATOR", _CLIENTS_ADD),
    ("TxnOffsetCommit", "NOT_COORDINATOR", ALL),
    ("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", ALL),
    ("Produce", "NOT_LEADER_OR_FOLLOWER", ALL),
    ("Produce", "NOT_ENOUGH_REPLICAS", ALL),
)
_ABORTABLE: Final = (
    ("Produce", "INVALID_PRODUCER_EPOCH", ALL),
    ("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER", ALL),
    ("Produce", "MESSAGE_TOO_LARGE", ALL),
    ("Produce", "TRANSACTION_ABORTABLE", (2,)),
    ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID", ALL),
)


@situation("leader-moves", "middle", "A partition gets another leader between two records.")
async def leader_moves(room: Room) -> None:
    """A real move."""
    await room.must_init()
    entry = await room.open("a-1")
    await room.kafka.leaders.move("t", 1)
    answer = await room.send("b-1")
    room.expect(answer.error, None, f"the record behind the move: {room.errors}")
    entry.values = ("a-1", "b-1")
    room.expect(await room.end(entry), Told.COMMITTED, f"the application is told, {room.errors}")
    await room.goes_on()


@situation("init-while-aborting", "middle", "The transaction of the last run is still being aborted"
           " when the new run begins: does it wait?")  # fmt: skip
async def init_while_aborting(room: Room) -> None:
    """Yardstick: CONCURRENT_TRANSACTIONS of InitProducerId is asked again (KIP-360)."""
    await room.must_init("old")
    await room.open("lost-1", producer="old")
    delay = {"do": "delay", "delay_ms": 1_000}
    await room.arm(point="peer.request", api="WriteTxnMarkers", limit=1, action=delay)
    await room.must_init("new")
    await room.goes_on("new")


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(_answered(*row) for row in _RETRIABLE),
    *(_answered(*row, commits=False) for row in _ABORTABLE),
    _broken("produce-answer-lost", "The answer to a record is lost: is it in the log once?",
            "Produce", point="client.response", action="drop"),
    _broken("produce-connection-breaks-after", "The connection breaks when a record is in.",
            "Produce", point="client.response", action="disconnect"),
    _broken("produce-answered-twice", "A record arrives twice.",
            "Produce", point="client.request", action="duplicate"),
    _broken("addpartitionstotxn-answer-lost", "The answer to AddPartitionsToTxn is lost.",
            "AddPartitionsToTxn", _CLIENTS_ADD, point="client.response", action="drop"),
    _broken("addoffsetstotxn-answer-lost", "The answer to AddOffsetsToTxn is lost.",
            "AddOffsetsToTxn", _CLIENTS_ADD, point="client.response", action="drop"),
    _broken("txnoffsetcommit-answer-lost", "The answer to TxnOffsetCommit is lost.",
            "TxnOffsetCommit", point="client.response", action="drop"),
    leader_moves,
    init_while_aborting,
)  # fmt: skip
