"""Which fault rules a proxy can't obey, and why. Everything else means what it means in the
simulator (``faults.points``).
"""

from __future__ import annotations

from typing import Final

from txnsim.api.registry import HANDLERS
from txnsim.faults.actions import Fail
from txnsim.faults.cluster_actions import ClusterAction
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import CLIENT, PEER, FaultPoint
from txnsim.faults.rule import API_KEYS
from txnsim.wire.apis import api_name

CLIENT_POINTS: Final = (FaultPoint.CONNECTION_OPEN, *CLIENT)
POINTS: Final = (*CLIENT_POINTS, *PEER)
"""What passes a proxy."""

NO_PEERS: Final = (
    "brokers do not reach each other through this proxy: start it with --peer, and advertise its "
    "address at the brokers' inter-broker listener (docs/proxy.md)"
)
_INSIDE: Final = "that happens inside a broker, where a proxy can't reach: only the simulator can"
_CLUSTER: Final = (
    "a proxy has no hands on brokers, disks, clocks and leaders: only the simulator can do that, "
    "or you, with the tools of the cluster"
)


def refusal(rule: FaultRule, *, has_peers: bool) -> str | None:
    """Reason why a proxy can't apply a rule; None if it can."""
    if isinstance(rule.action, ClusterAction):
        return f"{rule.action}: {_CLUSTER}"
    if rule.point not in POINTS:
        return f"{rule.point}: {_INSIDE}; a proxy knows {', '.join(POINTS)}"
    if rule.point in PEER and not has_peers:
        return f"{rule.point}: {NO_PEERS}"
    if isinstance(rule.action, Fail):
        return _about_errors(rule)
    return None


def _about_errors(rule: FaultRule) -> str | None:
    """An answer with an error has to be made here, API by API."""
    if rule.api is None:
        return None
    key = rule.api if isinstance(rule.api, int) else API_KEYS[rule.api]
    if key in HANDLERS:
        return None
    return (
        f"error: the proxy can't make an answer of {api_name(key)}; drop or disconnect it instead"
    )
