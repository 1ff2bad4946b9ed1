"""What all actors share: what a step asks of them, and the world around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.runtime.env import Environment
from txnsim.scenario.answers import Answer
from txnsim.scenario.fields import Situation
from txnsim.scenario.recorder import Recorder
from txnsim.scenario.steps_model import Call

RETRY_BACKOFF_MS: Final = 5
RETRY_BACKOFF_MAX_MS: Final = 100
"""Stories are short, and these brokers answer at once."""


class Actor(Protocol):
    """Somebody in a story."""

    async def call(self, call: Call, *, wanted: str, sent: Callable[[], object]) -> Answer:
        """Do what a step says.

        Args:
            call: What.
            wanted: The error that the step expects; other passing ones are retried.
            sent: Called once the first request is on its way.
        """

    async def give_up(self, call: Call) -> None:
        """Nobody waits for the answer to this call of the background any longer."""

    async def close(self) -> None:
        """Leave."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The world that an actor finds."""

    environment: Environment
    bootstrap: str
    situation: Situation
    recorder: Recorder
    tell: Callable[[str, str], None]
    """(who, text): a sentence of somebody, for the trace."""
    transactions_v2: bool

    def client(self, client_id: str, *, request_timeout_ms: int = 30_000) -> Cluster:
        """Connections of one actor."""
        return Cluster(
            self.bootstrap,
            settings=ClientSettings(
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                retry_backoff_ms=RETRY_BACKOFF_MS,
                retry_backoff_max_ms=RETRY_BACKOFF_MAX_MS,
            ),
            clock=self.environment.clock,
            tasks=self.environment.tasks,
            tracer=self.environment.tracer,
        )
