"""EndTxn (key 26): commit or abort a transaction.

Versions: 2 brings the error PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE. v5 is transactions v2
(KIP-890): it speaks another protocol, at each finalized level, and its answer carries the
identity for the next transaction. Kafka's counterpart: KafkaApis.handleEndTxnRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import ByteGap, Reply, Request, answer, only_error, prepared
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.txn.commands import EndTxn
from txnsim.types import ProducerEpoch, ProducerId, TransactionalId, TransactionVersion

API_KEY: Final = 26

NO_ERROR: Final = 0
FENCED_KNOWN_FROM: Final = 2
TRANSACTIONS_V2_FROM: Final = 5


async def handle(request: Request, *, bumps_epoch_from: int = TRANSACTIONS_V2_FROM) -> Reply:
    """Commit or abort; answered once the decision is logged, before any marker is sent."""
    message = request.message
    outcome = await request.broker.coordinator.end_txn(
        EndTxn(
            transactional_id=TransactionalId(message.transactional_id),
            producer_id=ProducerId(message.producer_id),
            producer_epoch=ProducerEpoch(message.producer_epoch),
            committed=message.committed,
            transaction_version=TransactionVersion.TV_2
            if request.api_version >= bumps_epoch_from
            else TransactionVersion.TV_0,
        )
    )
    if isinstance(outcome, Rejection):
        return request.refuse(outcome.error)
    if request.api_version < bumps_epoch_from:
        return only_error(API_KEY, request.api_version, NO_ERROR)
    return _identity_gap(TRANSACTIONS_V2_FROM).fill(outcome.producer_id, outcome.producer_epoch)


def refuse(
    request: Request, error: ErrorCode, *, bumps_epoch_from: int = TRANSACTIONS_V2_FROM
) -> Reply:
    """The error in the answer format of this version."""
    if error is ErrorCode.producer_fenced and request.api_version < FENCED_KNOWN_FROM:
        error = ErrorCode.invalid_producer_epoch
    layout_version = (
        TRANSACTIONS_V2_FROM if request.api_version >= bumps_epoch_from else request.api_version
    )
    return only_error(API_KEY, layout_version, int(error))


@prepared
def _identity_gap(api_version: int) -> ByteGap:
    return ByteGap(
        "qh",
        lambda id_and_epoch: answer(
            API_KEY,
            api_version,
            error_code=ErrorCode.none,
            producer_id=id_and_epoch[0],
            producer_epoch=id_and_epoch[1],
        ),
    )


def subject(request: Request) -> Subject:
    """For fault rules: the transaction, and whether it is committed or aborted."""
    message = request.message
    return Subject(
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        committed=message.committed,
    )
