"""ListPartitionReassignments (key 46): replicas on the move (KIP-455). Nothing moves replicas here,
so there are none.

Versions: 0 is all there is. Kafka's counterpart:
ReplicationControlManager.listPartitionReassignments.
"""

from __future__ import annotations

from typing import Final

from sim.api.request import Reply, Request
from sim.errors import ErrorCode

KEY: Final = 46
VERSIONS: Final = (0, 0)

DEVIATIONS: Final = (
    "Replicas can't be moved to other brokers: AlterPartitionReassignments (key 45) is not "
    "advertised.",
)


async def handle(request: Request) -> Reply:
    """No reassignment is going on."""
    return request.answer(error_code=ErrorCode.none, error_message=None, topics=())


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top."""
    return request.answer(error_code=error, error_message=error.name, topics=())
