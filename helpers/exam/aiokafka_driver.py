"""aiokafka sits the exam of txnsim: docs/exam.md."""

import asyncio
import threading
from inspect import isawaitable

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    InvalidProducerEpoch,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)
from contract import CONTRACT, serve

FATAL = (ProducerFenced, InvalidProducerEpoch, OutOfOrderSequenceNumber)
"""The library's guide: close the producer. After every other error of its: abort."""

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def run(awaited):
    """In the loop, whose background tasks always run."""

    async def done():
        return await awaited if isawaitable(awaited) else awaited

    return asyncio.run_coroutine_threadsafe(done(), LOOP).result()


class Driver:
    """Producers and consumers by name."""

    def __init__(self):
        self.producers, self.consumers, self.sent = {}, {}, []

    def describe(self, contract):
        """Who sits the exam."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "aiokafka",
            "version": aiokafka.__version__,
            "language": "Python",
        }

    def error(self, raised):
        """The library's own word on an error."""
        fatal = isinstance(raised, FATAL)
        return {
            "retriable": False,  # of a transaction's call: the library has tried again by itself
            "abortable": isinstance(raised, KafkaError) and not fatal,
            "fatal": fatal,
        }

    def init(self, producer, bootstrap, client_id, transactional_id, transaction_timeout_ms,
             request_timeout_ms, patience_ms):  # fmt: skip
        """A transactional producer, ready. The library has no bound for a whole call."""

        async def made():
            self.producers[producer] = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                client_id=client_id,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                request_timeout_ms=request_timeout_ms,
            )
            await self.producers[producer].start()

        run(made())

    def begin(self, producer):
        """Begin a transaction."""
        run(self.producers[producer].begin_transaction())

    def send(self, producer, topic, partition, value, wait):
        """One record; with ``wait`` until it is acknowledged."""
        future = run(self.producers[producer].send(topic, value.encode(), partition=partition))
        if wait:
            return {"offset": run(future).offset}
        self.sent.append(future)
        return {}

    def send_offsets(self, producer, group, offsets):
        """Positions of a group into the transaction."""
        places = {TopicPartition(topic, index): at for topic, index, at in offsets}
        run(self.producers[producer].send_offsets_to_transaction(places, group))

    def commit(self, producer):
        """Commit."""
        run(self.producers[producer].commit_transaction())

    def abort(self, producer):
        """Abort."""
        run(self.producers[producer].abort_transaction())

    def consumer(self, consumer, bootstrap, client_id, group, topic, partitions, isolation):
        """A reader of partitions, from their beginning."""

        async def made():
            reader = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                client_id=client_id,
                group_id=group,
                isolation_level=isolation,
                enable_auto_commit=False,
                fetch_max_wait_ms=100,
            )
            reader.assign([TopicPartition(topic, index) for index in range(partitions)])
            self.consumers[consumer] = reader
            await reader.start()
            await reader.seek_to_beginning()

        run(made())

    def poll(self, consumer, timeout_ms):
        """What comes within the time, and where the reader stands."""
        reader = self.consumers[consumer]

        async def polled():
            found, until = [], LOOP.time() + timeout_ms / 1000
            while (left := until - LOOP.time()) > 0:
                for records in (await reader.getmany(timeout_ms=int(left * 1000))).values():
                    found += [[one.partition, one.offset, one.value.decode()] for one in records]
            places = {str(at.partition): await reader.position(at) for at in reader.assignment()}
            return {"records": found, "positions": places}

        return run(polled())

    def seek(self, consumer, topic, partition, offset):
        """Go on from there."""

        async def sought():
            self.consumers[consumer].seek(TopicPartition(topic, partition), offset)

        run(sought())

    def commit_positions(self, consumer):
        """Commit where the reader stands, as the library does it by itself."""
        run(self.consumers[consumer].commit())

    def close(self, name):
        """Close a producer or a consumer."""
        for kept in (self.producers, self.consumers):
            if name in kept:
                run(kept.pop(name).stop())


serve(Driver())
