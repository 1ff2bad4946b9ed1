"""Produce by the text of KIP-890: one new version that both adds partitions to the transaction and
knows TRANSACTION_ABORTABLE.

Kafka split it in two, v11 for the error and v12 for the implicit add. Here v11 does both; v12 and
v13 do as well, as they follow it. ``kip_text.errors`` translates the errors. As in Kafka, the
broker retries by itself for a short time while the previous transaction is ending.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.api._records import produce
from txnsim.api.kip_text._errors import produce_error
from txnsim.api.request import Reply, Request
from txnsim.broker.produce import ProduceOutcome
from txnsim.broker.verification import TransactionOperation

NEW_FROM: Final = 11


async def handle(request: Request) -> Reply:
    """Append. Newer versions add partitions implicitly, and answer with the errors of the text."""
    if request.api_version < NEW_FROM:
        return await produce.handle(request)
    return await produce.handle(
        request,
        operation=TransactionOperation.ADD_PARTITION,
        outcome_for_client=None if request.message.transactional_id is None else _outcome_by_text,
    )


def _outcome_by_text(outcome: ProduceOutcome) -> ProduceOutcome:
    error = produce_error(outcome.error)
    if error is outcome.error:
        return outcome
    return msgspec.structs.replace(outcome, error=error)
