"""A small asynchronous wire client, against a txnsim cluster or a real Apache Kafka alike.

Tools, scenarios and tests use it. It speaks for itself, through public requests only, and so sees
no more than any client does.

- ``connection``: one connection; requests, correlation ids, negotiated versions, timeouts.
- ``cluster``: bootstrap, metadata, leaders, coordinators, one connection per broker.
- ``producer``: plain, idempotent and transactional; its decisions are pure: ``session`` (identity,
  sequences, which transaction protocol) and ``reactions`` (what an error code means to a producer).
- ``members``: a consumer in a group, of both protocols.
- ``consumer``: assigned partitions; ``isolation`` filters aborted transactions, purely.
- ``admin`` and ``txn_admin``: what Kafka's ``Admin`` offers around transactions.
- ``inspection``: ``hanging`` decides as Kafka's tool does, ``judgement`` by the whole text of
  KIP-664, both purely; ``survey`` judges a whole cluster, ``repair`` ends what hangs with a look
  before and after, ``waiting_readers`` explains why readers wait.

Kafka's counterpart is the module ``clients``.

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
