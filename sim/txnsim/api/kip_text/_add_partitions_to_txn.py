"""AddPartitionsToTxn by the text of KIP-890: versions 0 to 4, and a partition that is not part of
the transaction is INVALID_TXN_STATE where Kafka says TRANSACTION_ABORTABLE.

Verification between brokers goes over the ordinary links and is Kafka's.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._transactions import add_partitions_to_txn
from txnsim.api.kip_text._errors import server_failure, verification_error
from txnsim.api.request import NoResponse, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import AddPartitionsToTxnReply

NEW_FROM: Final = 4


async def handle(request: Request) -> Reply:
    """Add the partitions to the transaction, or only verify that they are part of it."""
    if request.api_version < NEW_FROM:
        return await add_partitions_to_txn.handle(request)
    if not request.message.transactions:
        return NoResponse.NEVER
    reply = await request.broker.peer_requests.add_partitions_to_txn(
        add_partitions_to_txn.batch_command(request.message)
    )
    translated_results = AddPartitionsToTxnReply(
        error=reply.error,
        results=tuple(
            (
                transactional_id,
                tuple(
                    (partition, server_failure(verification_error(ErrorCode(error))))
                    for partition, error in partition_errors
                ),
            )
            for transactional_id, partition_errors in reply.results
        ),
    )
    return await add_partitions_to_txn.answer_batch(request, translated_results)
