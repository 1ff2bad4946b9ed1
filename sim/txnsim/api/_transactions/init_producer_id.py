"""InitProducerId (key 22): an identity for a producer; fences the producer that held the
transactional id before.

Versions: 3 brings the expected identity (KIP-360), 4 the error PRODUCER_FENCED, 5
TRANSACTION_ABORTABLE. 6 (KIP-939) knows two-phase commit; it is not stable yet and closed unless
``unstable.api.versions.enable`` opens it. Kafka's counterpart:
KafkaApis.handleInitProducerIdRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.txn.commands import InitProducerId, PreparedKept
from txnsim.types import ProducerEpoch, ProducerId, ProducerIdAndEpoch, TransactionalId

API_KEY: Final = 22

FENCED_KNOWN_FROM: Final = 4
"""Older versions get INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED."""


async def handle(request: Request, *, comes_through_kip_text: bool = False) -> Reply:
    """Allocate a producer id, bump the epoch, or fence; under ``--kip-text`` keep a prepared
    transaction if asked to.
    """
    message = request.message
    producer_id = getattr(message, "producer_id", -1)
    producer_epoch = getattr(message, "producer_epoch", -1)
    if (producer_id == -1) != (producer_epoch == -1):
        return request.refuse(ErrorCode.invalid_request)
    expected_producer = None
    if producer_id != -1:
        expected_producer = ProducerIdAndEpoch(
            producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(producer_epoch)
        )
    transactional_id = message.transactional_id
    outcome = await request.broker.coordinator.init_producer_id(
        InitProducerId(
            transactional_id=None
            if transactional_id is None
            else TransactionalId(transactional_id),
            timeout_ms=round(message.transaction_timeout.total_seconds() * 1000),
            expected_identity=expected_producer,
            enable_two_phase_commit=getattr(message, "enable2_pc", False),
            keeps_prepared=getattr(message, "keep_prepared_txn", False),
            comes_through_kip_text=comes_through_kip_text,
        )
    )
    if isinstance(outcome, Rejection):
        return request.refuse(outcome.error)
    if isinstance(outcome, PreparedKept):
        return request.answer(
            error_code=ErrorCode.none,
            producer_id=outcome.producer_id,
            producer_epoch=outcome.producer_epoch,
            ongoing_txn_producer_id=outcome.ongoing_identity.producer_id,
            ongoing_txn_producer_epoch=outcome.ongoing_identity.producer_epoch,
        )
    return request.answer(
        error_code=ErrorCode.none,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error in the answer format of this version, with producer id and epoch -1."""
    if error is ErrorCode.producer_fenced and request.api_version < FENCED_KNOWN_FROM:
        error = ErrorCode.invalid_producer_epoch
    return request.answer(error_code=error, producer_id=-1, producer_epoch=-1)


def subject(request: Request) -> Subject:
    """For fault rules: the transactional id and the expected producer."""
    producer_id = getattr(request.message, "producer_id", -1)
    return Subject(
        transactional_id=request.message.transactional_id,
        producer_id=None if producer_id < 0 else producer_id,
    )
