"""Workers: what reads, works and writes exactly once, positions included (``exam._working``)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from txnsim_lab.exam._application import Application
from txnsim_lab.exam._ledger import Told
from txnsim_lab.exam._working import GROUP, Worker
from txnsim_lab.exam.situation import Kind, Play, Situation, situation

_INPUTS: Final = ("in-1", "in-2", "in-3")


async def _ready(app: Application) -> Worker:
    """A started worker with input to process."""
    await app.fill_input(*_INPUTS)
    worker = Worker(app)
    await worker.start()
    return worker


def _struck(api: str, action: Any, *, point: str = "client.request") -> Play:
    """A worker, one request of which meets a fault."""

    async def play(app: Application) -> None:
        """What a worker writes is committed with the positions of its inputs, or not at all
        (KIP-98, KIP-447). After an abort it goes back to them, so each input counts once.
        """
        worker = await _ready(app)
        await app.arm(limit=1, point=point, api=api, action=action)
        await worker.work(_INPUTS)

    return play


def _error(error: str) -> dict[str, str]:
    return {"do": "error", "error": error}


_TABLE: Final[tuple[tuple[str, Kind, str, Play], ...]] = (
    ("worker-commit-refused", "end unknown",
     "A worker's commit is refused with UNKNOWN_SERVER_ERROR: does each input count once?",
     _struck("EndTxn", _error("UNKNOWN_SERVER_ERROR"))),
    ("worker-commit-answer-lost", "end unknown",
     "The answer to a worker's commit is lost: does each input count once?",
     _struck("EndTxn", "drop", point="client.response")),
    ("worker-positions-refused", "groups",
     "A worker's positions are refused with NOT_COORDINATOR: does each input count once?",
     _struck("TxnOffsetCommit", _error("NOT_COORDINATOR"))),
    ("worker-is-unknown", "groups",
     "A worker's positions are refused with UNKNOWN_MEMBER_ID: does each input count once?",
     _struck("TxnOffsetCommit", _error("UNKNOWN_MEMBER_ID"))),
)  # fmt: skip
_ABOUT: Final = {"worker-commit-refused": ("franz-go 6ecd2f9f",)}


@situation("worker-works", "groups", "A worker reads, writes and commits: does each input count"
           " once?", groups=(GROUP,), core=True)  # fmt: skip
async def works(app: Application) -> None:
    """What a worker writes is committed with the positions of its inputs, or not at all (KIP-98,
    KIP-447), so each input counts once.
    """
    await (await _ready(app)).work(_INPUTS)


@situation("worker-ends-when-refused", "end unknown", "A worker's commit is refused with"
           " UNKNOWN_SERVER_ERROR, and its process ends behind it: what does the next one work on?",
           groups=(GROUP,), about=("franz-go 42b3d833",), core=True)  # fmt: skip
async def ends_when_refused(app: Application) -> None:
    """A library may say "committed" only of what is. The next process begins at the committed
    positions, so each input counts once.
    """
    worker = await _ready(app)

    @asynccontextmanager
    async def to_its_end() -> AsyncIterator[None]:
        yield
        await worker.end()

    await app.arm(point="client.request", api="EndTxn", limit=1,
                   action=_error("UNKNOWN_SERVER_ERROR"))  # fmt: skip
    await worker.work(_INPUTS, around=to_its_end())


@situation("worker-is-rebalanced", "groups", "Another member joins between the poll and the commit"
           " of a worker: does each input count once?", groups=(GROUP,))  # fmt: skip
async def is_rebalanced(app: Application) -> None:
    """What was read in an old generation may be committed before the next one begins, or never
    (KIP-447), so each input counts once.
    """
    worker, other = await _ready(app), Worker(app, "x", transactional_id="till")

    @asynccontextmanager
    async def another() -> AsyncIterator[None]:
        await other.start()
        await other.poll()
        yield
        await other.end()

    await worker.work(_INPUTS, around=another())


@situation("worker-without-input", "liveness", "The topic of a worker's inputs is not there yet:"
           " can it commit what it writes?", about=("franz-go 821f879e",))  # fmt: skip
async def without_input(app: Application) -> None:
    """Its group never comes to be. A commit without positions needs no group (KIP-98)."""
    worker = Worker(app, topic="later")
    await worker.start()
    app.expect_told(await worker.transact("a-1"), Told.COMMITTED)


SITUATIONS: Final[tuple[Situation, ...]] = (
    *(
        situation(name, kind, asks, groups=(GROUP,), about=_ABOUT.get(name, ()))(play)
        for name, kind, asks, play in _TABLE
    ),
    works,
    ends_when_refused,
    is_rebalanced,
    without_input,
)
