"""Which actions are valid at which fault point, and which kinds of crossings it has.

A rule with any other action is refused when it is created, because a fault that could never strike
makes a test that tests nothing. Actions on the cluster are allowed everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from txnsim.faults.actions import (
    Corrupt,
    CrossingAction,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Fail,
    Hold,
    Pass,
    Reorder,
    Rewrite,
    Slice,
    Stall,
    Throttle,
)
from txnsim.faults.cluster_actions import ClusterAction
from txnsim.faults.points import FaultPoint

CROSSING_ACTIONS: Final[tuple[type[CrossingAction], ...]] = get_args(CrossingAction)
CLUSTER_ACTIONS: Final[tuple[type[ClusterAction], ...]] = get_args(ClusterAction)

DeliveryFate = Pass | Drop | Duplicate
"""What happens to a held message on release."""
FATES: Final[Mapping[str, DeliveryFate]] = {
    "pass": Pass(),
    "drop": Drop(),
    "duplicate": Duplicate(),
}

_HOLDING: Final = (Pass, Hold, Delay)

TAKES: Final[Mapping[FaultPoint, tuple[type[CrossingAction], ...]]] = {
    FaultPoint.CONNECTION_OPEN: (*_HOLDING, Reorder, Drop, Disconnect),
    FaultPoint.CLIENT_REQUEST: (
        *_HOLDING, Reorder, Stall, Drop, DropAnswer, Fail, Duplicate, Throttle, Corrupt, Disconnect,
    ),
    FaultPoint.CLIENT_RESPONSE: (
        *_HOLDING, Reorder, Stall, Drop, Fail, Throttle, Corrupt, Rewrite, Slice, Disconnect,
    ),
    FaultPoint.PEER_REQUEST: (
        *_HOLDING, Reorder, Stall, Drop, DropAnswer, Fail, Duplicate, Disconnect,
    ),
    FaultPoint.PEER_RESPONSE: (*_HOLDING, Reorder, Stall, Drop, Fail, Disconnect),
    FaultPoint.COORDINATOR_LOAD: (*_HOLDING, Drop, Fail),
    FaultPoint.COORDINATOR_UNLOAD: _HOLDING,
    FaultPoint.LOG_APPEND: (*_HOLDING, Fail),
    FaultPoint.LOG_READ: (*_HOLDING, Fail),
    FaultPoint.LOG_FLUSH: (*_HOLDING, Drop, Fail),
    FaultPoint.LOG_INDEX: (Pass, Drop),
    FaultPoint.GROUP_COMPLETION: (*_HOLDING, Drop, Fail),
    FaultPoint.SHARE_PERSIST: (*_HOLDING, Fail),
    FaultPoint.METADATA_APPLY: (*_HOLDING, Drop),
    FaultPoint.CLOCK_TIMER: (*_HOLDING, Drop),
    FaultPoint.PROCESS_START: _HOLDING,
    FaultPoint.PROCESS_STOP: _HOLDING,
    FaultPoint.NOW: (),
}  # fmt: skip
"""The actions that a point allows, besides actions on the cluster."""

KINDS: Final[Mapping[FaultPoint, tuple[str, ...]]] = {
    FaultPoint.LOG_APPEND: ("data", "marker", "coordinator"),
    FaultPoint.LOG_INDEX: ("aborted-range", "producer-snapshot"),
    FaultPoint.CLOCK_TIMER: (
        "transaction-timeouts", "transactional-id-expiration", "producer-id-expiration",
        "offsets-expiration", "share-state-pruning", "share-state-snapshots",
        "retention", "cleaner",
    ),
    FaultPoint.SHARE_PERSIST: ("read", "write"),
}  # fmt: skip
"""The values that the criterion ``kind`` may have."""

ROLES: Final = ("leader", "follower")
"""The values that the criterion ``role`` may have, at ``log.append``."""

WITH_API: Final = frozenset((*FaultPoint.of_clients(), *FaultPoint.of_peers()))
"""Points that requests and answers cross."""

FROM_CLIENTS: Final = frozenset(FaultPoint.of_clients())
"""Points at which a client sends, so that a rule can match its client id."""

_EXPLANATIONS: Final[Mapping[tuple[FaultPoint, type[CrossingAction | ClusterAction]], str]] = {
    (FaultPoint.CLIENT_RESPONSE, Duplicate): "a stream has one answer per request",
    (FaultPoint.PEER_RESPONSE, Duplicate): "a stream has one answer per request",
    (FaultPoint.CLIENT_RESPONSE, DropAnswer): "drop does that",
    (FaultPoint.PEER_RESPONSE, DropAnswer): "drop does that",
    (FaultPoint.PEER_REQUEST, Corrupt): "brokers hand each other values, not bytes",
    (FaultPoint.PEER_RESPONSE, Corrupt): "brokers hand each other values, not bytes",
    (FaultPoint.CLIENT_REQUEST, Rewrite): "it changes answers: client.response has them",
    (FaultPoint.PEER_RESPONSE, Rewrite): "what reads them is a broker; an error says as much",
    (FaultPoint.CLIENT_REQUEST, Slice): "it cuts answers: client.response has them",
    (FaultPoint.PEER_REQUEST, Throttle): "only clients are throttled",
    (FaultPoint.PEER_RESPONSE, Throttle): "only clients are throttled",
    (FaultPoint.CONNECTION_OPEN, Fail): "there is no request to answer",
    (FaultPoint.CONNECTION_OPEN, Stall): "hold does that",
}


def name_of(action: type[CrossingAction | ClusterAction]) -> str:
    """An action's tag, as in rules: ``drop-answer``."""
    return str(action.__struct_config__.tag)


def can_wait(point: str) -> bool:
    """Whether a crossing of the point can be made to wait; at other points an action on the cluster
    runs in parallel.
    """
    return Hold in TAKES[FaultPoint(point)]


def refusal(point: FaultPoint, action: CrossingAction | ClusterAction) -> str | None:
    """Why an action is meaningless at a point; None for a valid action."""
    allowed_actions = TAKES[point]
    given_type = type(action)
    if isinstance(action, ClusterAction) or given_type in allowed_actions:
        return None
    explanation = _EXPLANATIONS.get((point, given_type))
    allowed_names = ", ".join(
        name_of(action_type) for action_type in (*allowed_actions, *CLUSTER_ACTIONS)
    )
    return (
        f"{name_of(given_type)} has no meaning at {point}"
        f"{f' ({explanation})' if explanation else ''}; it takes {allowed_names}"
    )
