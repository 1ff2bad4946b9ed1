"""Fault rules that a proxy can't apply, and why. All others have the same effect as in the
simulator (``faults.points``).
"""

from __future__ import annotations

from typing import Final

from txnsim.faults.points import FaultPoint
from txnsim.faults.rule import FaultRule
from txnsim.server.relayed_request import RelayedRequest
from txnsim.wire.apis import api_name

CLIENT_POINTS: Final = (FaultPoint.CONNECTION_OPEN, *FaultPoint.of_clients())
POINTS: Final = (*CLIENT_POINTS, *FaultPoint.of_peers())
"""Fault points that a proxy has."""

NO_PEERS_REASON: Final = (
    "brokers do not reach each other through this proxy: start it with --peer, and advertise its "
    "address at the brokers' inter-broker listener (docs/proxy.md)"
)
_INSIDE_BROKER_REASON: Final = (
    "that happens inside a broker, where a proxy can't reach: only the simulator can"
)
_NO_INSTANCES_REASON: Final = (
    "a proxy does not keep which client instance a connection belongs to; match client_id, or play "
    "it in the simulator"
)
_CLUSTER_REASON: Final = (
    "a proxy has no hands on brokers, disks, clocks and leaders: only the simulator can do that, "
    "or you, with the tools of the cluster"
)


def refusal(rule: FaultRule, *, has_peers: bool) -> str | None:
    """Reason why a proxy can't apply a rule; None if it can."""
    if rule.is_on_cluster:
        return f"{rule.action}: {_CLUSTER_REASON}"
    if rule.point not in POINTS:
        return f"{rule.point}: {_INSIDE_BROKER_REASON}; a proxy knows {', '.join(POINTS)}"
    if rule.point in FaultPoint.of_peers() and not has_peers:
        return f"{rule.point}: {NO_PEERS_REASON}"
    if rule.client_instance_id is not None:
        return f"client_instance_id: {_NO_INSTANCES_REASON}"
    if rule.answers_with_error:
        return _error_refusal(rule)
    return None


def _error_refusal(rule: FaultRule) -> str | None:
    """Why a proxy can't answer with an error: it must be able to build the answer of that API."""
    api_key = rule.api_key
    if api_key is None or RelayedRequest.can_refuse(api_key):
        return None
    return (
        f"error: the proxy can't make an answer of {api_name(api_key)};"
        " drop or disconnect it instead"
    )
