"""Producers of aiokafka: ``python -m tests.soak.aiokafka_producers`` and ``Work``'s arguments."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from contextlib import suppress

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.soak.producing import (
    ABORT_EVERY,
    TIMEOUT_MS,
    ProducerWork,
    TransactionOutcome,
    stop_at_end_of_input,
    tell,
)

PATIENCE_S = 60.0
TROUBLE = (KafkaError, TimeoutError, OSError, AssertionError)
"""AssertionError: the library's own states, where a timeout has ended a call of it."""


async def main(arguments: list[str]) -> None:
    """Run transactions of many producers until standard input ends."""
    work, stop_event = ProducerWork.from_arguments(arguments), stop_at_end_of_input()
    async with asyncio.TaskGroup() as group:
        for producer_index in range(work.producers):
            group.create_task(_produce(work, f"aiokafka-{producer_index}", stop_event))


async def _produce(work: ProducerWork, name: str, stop_event: threading.Event) -> None:
    number = 0
    while not stop_event.is_set():
        producer = AIOKafkaProducer(
            bootstrap_servers=work.bootstrap,
            transactional_id=f"soak-{name}",
            transaction_timeout_ms=TIMEOUT_MS,
            retry_backoff_ms=20,
        )
        goes_on = await _start_producer(producer)
        while goes_on and not stop_event.is_set():
            began_s = time.monotonic()
            outcome, goes_on = await _transaction(producer, work, name, number)
            tell(name, number, outcome)
            number += 1
            await asyncio.sleep(max(0.0, work.pause_s - (time.monotonic() - began_s)))
        with suppress(*TROUBLE):  # it is not used any more
            async with asyncio.timeout(PATIENCE_S):
                await producer.stop()


async def _start_producer(producer: AIOKafkaProducer) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await producer.start()
    except TROUBLE:
        await asyncio.sleep(0.1)
        return False
    return True


async def _transaction(
    producer: AIOKafkaProducer, work: ProducerWork, name: str, number: int
) -> tuple[TransactionOutcome, bool]:
    """Play one transaction. Returns its outcome, and whether the producer can go on."""
    is_asked = False
    try:
        async with asyncio.timeout(PATIENCE_S):
            await producer.begin_transaction()
            for partition, value in work.records(name, number):
                await producer.send_and_wait(work.topic, value, partition=partition)
            if number % ABORT_EVERY == ABORT_EVERY - 1:
                await producer.abort_transaction()
                return TransactionOutcome.ABORTED, True
            is_asked = True
            await producer.commit_transaction()
    except TROUBLE:
        if is_asked:
            return TransactionOutcome.UNKNOWN, False
        return TransactionOutcome.ABORTED, await _abort(producer)
    return TransactionOutcome.COMMITTED, True


async def _abort(producer: AIOKafkaProducer) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await producer.abort_transaction()
    except TROUBLE:
        return False
    return True


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # it tells each broken connection; the lines are what counts
    asyncio.run(main(sys.argv[1:]))
