"""The named points at which something is killed: which crossing is struck, who dies, what follows.

A point is exact: the crossing is held or lost by a fault rule over the control port, and whoever is
to die is killed while it waits there. Then a look at the coordinator says that the transaction is
in the state that the point's name promises.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

ALL_LEVELS: Final = frozenset({0, 1, 2})
OLD_FLOW: Final = frozenset({0, 1})
"""Levels of ``transaction.version`` at which clients add partitions by requests of their own."""


class Stage(StrEnum):
    """The stage of a transaction's life at which a kill strikes."""

    ADD = "while partitions are added"
    PRODUCE = "while records are written"
    POSITIONS = "while positions are written"
    BEFORE_END = "before EndTxn"
    PREPARED = "between PrepareCommit and the markers"
    BETWEEN = "between two markers"
    COMPLETE = "between the markers and CompleteCommit"
    RESTART = "while the next life asks for its producer id"
    LOAD = "while a coordinator reads its log"


class Victim(StrEnum):
    """The process that is killed."""

    APPLICATION = "the application"
    COORDINATOR = "the transaction coordinator"
    GROUP_COORDINATOR = "the group coordinator"
    LEADER = "a partition leader"


class IdentityKind(StrEnum):
    """The field by which a rule recognises requests of the victim's transaction."""

    CLIENT = "client_id"
    TRANSACTION = "transactional_id"
    PRODUCER = "producer_id"
    LOG = "its partition of __transaction_state"


class StruckBroker(StrEnum):
    """The broker whose messages the rule strikes."""

    ANY = "any"
    LEADER = "a leader of counted words, which does not coordinate the group"
    GROUP_COORDINATOR = "the group coordinator"


class RequestFate(StrEnum):
    """The fate of the held request after an application was killed."""

    LOST = "it is lost"
    AT_ONCE = "it goes on at once"
    BACK = "it goes on when the next life has asked for its producer id, or can't get to that"
    LATE = "it goes on when the next life runs"


class Point(NamedTuple):
    """One point at which something is killed."""

    name: str
    stage: Stage
    crossing: str
    """A fault point."""
    victim: Victim
    api: str | None = None
    identified_by: IdentityKind = IdentityKind.CLIENT
    struck_broker: StruckBroker = StruckBroker.ANY
    fate: RequestFate = RequestFate.AT_ONCE
    """Of broken brokers' requests nothing is left: only said where an application dies."""
    every: bool = False
    committed: bool | None = None
    """Markers of commits only, or of aborts only."""
    counts: bool = False
    """Only requests about the topic of counted words; without this, whatever follows one of them.
    """
    states: tuple[str, ...] = ("Ongoing",)
    """What the coordinator says of the transaction when it is struck; empty: it is not asked."""
    at_start: bool = False
    """Struck while the application starts again: it must be dead, in the middle of a transaction.
    """
    levels: frozenset[int] = ALL_LEVELS


_REQUEST: Final = "client.request"
_RESPONSE: Final = "client.response"
_PEER: Final = "peer.request"
_MARKERS: Final = "WriteTxnMarkers"
_BEGUN: Final = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
"""A first request of a transaction is struck before its coordinator knows of it."""
_ENDED: Final = ("PrepareCommit", "CompleteCommit")
_LEFT_OPEN: Final = ("Ongoing", "PrepareAbort", "CompleteAbort")
"""A transaction whose producer died may time out before the next life has come so far."""

_APP: Final = Victim.APPLICATION
_COORDINATOR: Final = Victim.COORDINATOR
_GROUP: Final = Victim.GROUP_COORDINATOR
_LEADER: Final = Victim.LEADER


def _markers(
    name: str, stage: Stage, victim: Victim, struck_broker: StruckBroker = StruckBroker.ANY
) -> Point:
    return Point(
        name, stage, _PEER, victim, _MARKERS, IdentityKind.PRODUCER, struck_broker,
        fate=RequestFate.BACK, every=True, committed=True, states=("PrepareCommit",),
    )  # fmt: skip


_ADD: Final = (
    Point("AddPartitionsToTxn is late", Stage.ADD, _REQUEST, _APP, "AddPartitionsToTxn",
          counts=True, fate=RequestFate.LATE, states=_BEGUN, levels=OLD_FLOW),
    Point("AddOffsetsToTxn is late", Stage.ADD, _REQUEST, _APP, "AddOffsetsToTxn",
          fate=RequestFate.LATE, levels=OLD_FLOW, states=_BEGUN),
    Point("a leader asks the coordinator late", Stage.ADD, _PEER, _APP, "AddPartitionsToTxn",
          IdentityKind.TRANSACTION, counts=True, fate=RequestFate.BACK, states=_BEGUN),
    Point("a leader asks, the coordinator dies", Stage.ADD, _PEER, _COORDINATOR,
          "AddPartitionsToTxn", IdentityKind.TRANSACTION, counts=True, states=_BEGUN),
)  # fmt: skip

_PRODUCE: Final = (
    Point("Produce arrives late", Stage.PRODUCE, _REQUEST, _APP, "Produce", counts=True,
          fate=RequestFate.LATE, states=_BEGUN),
    Point("Produce is not answered", Stage.PRODUCE, _RESPONSE, _APP, "Produce", counts=True,
          fate=RequestFate.LOST),
    Point("the leader dies before Produce", Stage.PRODUCE, _REQUEST, _LEADER, "Produce",
          counts=True, struck_broker=StruckBroker.LEADER, states=_BEGUN),
    Point("the leader dies after Produce", Stage.PRODUCE, _RESPONSE, _LEADER, "Produce",
          counts=True, struck_broker=StruckBroker.LEADER),
)  # fmt: skip

_POSITIONS: Final = (
    Point("before TxnOffsetCommit", Stage.POSITIONS, _REQUEST, _APP, "TxnOffsetCommit",
          fate=RequestFate.LOST),
    Point("TxnOffsetCommit arrives late", Stage.POSITIONS, _REQUEST, _APP, "TxnOffsetCommit",
          fate=RequestFate.LATE),
    Point("after TxnOffsetCommit", Stage.POSITIONS, _RESPONSE, _APP, "TxnOffsetCommit",
          fate=RequestFate.LOST),
    Point("the group coordinator dies before TxnOffsetCommit", Stage.POSITIONS, _REQUEST, _GROUP,
          "TxnOffsetCommit"),
    Point("the group coordinator dies after TxnOffsetCommit", Stage.POSITIONS, _RESPONSE, _GROUP,
          "TxnOffsetCommit"),
)  # fmt: skip

_END: Final = (
    Point("before EndTxn, which never arrives", Stage.BEFORE_END, _REQUEST, _APP, "EndTxn",
          fate=RequestFate.LOST),
    Point("before EndTxn, which arrives all the same", Stage.BEFORE_END, _REQUEST, _APP, "EndTxn"),
    Point("before EndTxn, which arrives late", Stage.BEFORE_END, _REQUEST, _APP, "EndTxn",
          fate=RequestFate.LATE),
    Point("before EndTxn, the coordinator", Stage.BEFORE_END, _REQUEST, _COORDINATOR, "EndTxn"),
    Point("EndTxn took effect, its answer is lost", Stage.PREPARED, _RESPONSE, _APP, "EndTxn",
          fate=RequestFate.LOST, states=_ENDED),
    Point("EndTxn took effect, the coordinator dies before it answers", Stage.PREPARED, _RESPONSE,
          _COORDINATOR, "EndTxn", states=_ENDED),
)  # fmt: skip

_MARKED: Final = (
    _markers("between PrepareCommit and the markers", Stage.PREPARED, _APP),
    _markers("between PrepareCommit and the markers, the coordinator", Stage.PREPARED,
             _COORDINATOR),
    _markers("between PrepareCommit and the markers, the group coordinator", Stage.PREPARED,
             _GROUP),
    _markers("positions are marked, records are not", Stage.BETWEEN, _APP, StruckBroker.LEADER),
    _markers("positions are marked, records are not, the coordinator", Stage.BETWEEN, _COORDINATOR,
             StruckBroker.LEADER),
    _markers("positions are marked, records are not, their leader", Stage.BETWEEN, _LEADER,
             StruckBroker.LEADER),
    _markers("records are marked, positions are not", Stage.BETWEEN, _APP,
             StruckBroker.GROUP_COORDINATOR),
    _markers("records are marked, positions are not, the coordinator", Stage.BETWEEN, _COORDINATOR,
             StruckBroker.GROUP_COORDINATOR),
    _markers("records are marked, positions are not, the group coordinator", Stage.BETWEEN, _GROUP,
             StruckBroker.GROUP_COORDINATOR),
    _markers("all is marked, unknown to the coordinator", Stage.COMPLETE, _COORDINATOR)._replace(
        crossing="peer.response"),
)  # fmt: skip

_RESTART: Final = (
    Point("before InitProducerId", Stage.RESTART, _REQUEST, _APP, "InitProducerId",
          states=_LEFT_OPEN, at_start=True),
    Point("after InitProducerId", Stage.RESTART, _RESPONSE, _APP, "InitProducerId",
          fate=RequestFate.LOST, states=(), at_start=True),
    Point("before InitProducerId, the coordinator", Stage.RESTART, _REQUEST, _COORDINATOR,
          "InitProducerId", states=_LEFT_OPEN, at_start=True),
    Point("between PrepareAbort and the markers, the coordinator", Stage.RESTART, _PEER,
          _COORDINATOR, _MARKERS, IdentityKind.PRODUCER, every=True, committed=False,
          states=("PrepareAbort",), at_start=True),
)  # fmt: skip

_LOAD: Final = (
    Point("the next coordinator reads its log", Stage.LOAD, "coordinator.load", _APP,
          identified_by=IdentityKind.LOG, fate=RequestFate.BACK, states=()),
    Point("the next coordinator dies while it reads its log", Stage.LOAD, "coordinator.load",
          _COORDINATOR, identified_by=IdentityKind.LOG, states=()),
)  # fmt: skip

POINTS: Final = (
    *_ADD,
    *_PRODUCE,
    *_POSITIONS,
    *_END,
    *_MARKED,
    *_RESTART,
    *_LOAD,
)


def points_at(transaction_version: int) -> tuple[Point, ...]:
    """The points that a level of ``transaction.version`` has."""
    return tuple(point for point in POINTS if transaction_version in point.levels)
