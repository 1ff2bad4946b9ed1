"""Repair of hanging transactions over the wire, as an operator does it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from starlette.requests import Request

from txnsim.client.admin import Admin
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.inspection.repair import Repair, repair
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.http.operation import PREFIX, ClusterNoun, Operation
from txnsim.http.replies import Body, RefusedError
from txnsim.server.request_trace import PAGE
from txnsim.txn.past_decision import GUESSES

TIMEOUT_MS: Final = 5_000


class RepairPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End hanging transactions on a partition."""

    topic: str
    partition: int
    guess: Literal["abort", "commit"] | None = None
    """Marker to write if the decision is unknown; null writes nothing."""


REPAIRS_MAX: Final = 100
"""Transactions that one request ends. Before each it asks for all of the partition again."""


class RepairRoutes(ClusterNoun):
    """Routes that end hanging transactions of one cluster."""

    @Operation("post", f"{PREFIX}/repairs", refusals=("404", "422", "503"))
    async def repair(self, _request: Request, body: Body[RepairPartition]) -> list[Repair]:
        """End hanging transactions on a partition with the decided marker, as `txnsim txns repair
        --yes` does. If the decision is unknown, `guess` says which marker to write. It ends at most
        100, those that were written longest ago.
        """
        repair_body = await body.read()
        partition = self.partition(repair_body.topic, repair_body.partition)
        settings = ClientSettings(client_id=PAGE, api_timeout_ms=TIMEOUT_MS)
        now_ms = self._cluster.environment.clock.now_ms()
        guessed_decision = None if repair_body.guess is None else GUESSES[repair_body.guess]
        try:
            async with self.outside(settings) as client:
                admin = Admin(client)
                survey_result = await survey(
                    admin, now_ms=now_ms, partitions=[partition], older_than_ms=ANY_AGE
                )
                repairs = [
                    await repair(admin, finding, now_ms=now_ms, guess=guessed_decision)
                    for finding in survey_result.hanging[:REPAIRS_MAX]
                ]
        except ClientError as error:
            raise RefusedError(503, f"the cure was not answered: {error}") from error
        return repairs
