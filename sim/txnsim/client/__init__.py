"""A small asynchronous wire client, for a txnsim cluster or a real Apache Kafka.

Tools, scenarios and tests use it. It uses public requests only, and so sees no more than any client
does.

- ``connection``: one connection; requests, correlation ids, timeouts. ``versions`` are negotiated,
  ``authentication`` logs in, ``operator_login`` does so for an operator.
- ``cluster``: bootstrap, leaders, coordinators, one connection per broker; ``metadata`` has its
  values, ``backoff`` its pauses and deadlines, ``tracing`` its part of the trace.
- ``producer``: plain, idempotent and transactional; its decisions are pure: ``session`` (identity,
  sequences, which transaction protocol) and ``reactions`` (what an error code means to a producer).
  ``_coordinator_requests`` sends requests to its coordinator.
- ``members``: a consumer in a group, of both protocols; ``_positions`` reads a group's positions.
- ``consumer``: assigned partitions; ``fetching`` is one Fetch, ``isolation`` filters aborted
  transactions, purely, ``offsets`` finds an offset by time.
- ``admin`` and ``_txn_admin``: what Kafka's ``Admin`` offers around transactions.
  ``_requests_by_key`` finds the broker of each key.
- ``inspection``: what hangs, why readers wait, and what repairs it.
- ``requests``, ``txn_requests``, ``group_requests``: requests from plain values.
- ``raw``: one broker, frame by frame, for comparisons of brokers.
- ``errors``: errors by their possible next step.

Kafka's counterpart is its module *clients*.

The names below are public; they are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from txnsim.client.admin import Admin
    from txnsim.client.cluster import Cluster
    from txnsim.client.connection import ClientSettings
    from txnsim.client.consumer import Consumer
    from txnsim.client.inspection.repair import Repair, repair
    from txnsim.client.inspection.survey import Survey, survey
    from txnsim.client.inspection.waiting_readers import Explanation, explain
    from txnsim.client.producer import Producer

__all__ = [
    "Admin",
    "ClientSettings",
    "Cluster",
    "Consumer",
    "Explanation",
    "Producer",
    "Repair",
    "Survey",
    "explain",
    "repair",
    "survey",
]

_MODULES: Final = {
    "Admin": "txnsim.client.admin",
    "ClientSettings": "txnsim.client.connection",
    "Cluster": "txnsim.client.cluster",
    "Consumer": "txnsim.client.consumer",
    "Explanation": "txnsim.client.inspection.waiting_readers",
    "Producer": "txnsim.client.producer",
    "Repair": "txnsim.client.inspection.repair",
    "Survey": "txnsim.client.inspection.survey",
    "explain": "txnsim.client.inspection.waiting_readers",
    "repair": "txnsim.client.inspection.repair",
    "survey": "txnsim.client.inspection.survey",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
