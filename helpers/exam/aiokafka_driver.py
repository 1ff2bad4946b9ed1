"""aiokafka sits the exam of txnsim: docs/exam.md."""

import asyncio
import contextlib
import threading
from inspect import isawaitable

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from contract import CONTRACT, serve

FATAL = (errors.ProducerFenced, errors.InvalidProducerEpoch, errors.OutOfOrderSequenceNumber)
"""The library's guide: close the producer. After every other error of its: abort."""
POSITION_S = 0.2

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def run(awaitable):
    """Run a call in the event loop, which also runs between the calls; return its result."""

    async def settle():
        outcome = awaitable() if callable(awaitable) else awaitable
        return await outcome if isawaitable(outcome) else outcome

    return asyncio.run_coroutine_threadsafe(settle(), LOOP).result()


class Driver:
    """Producers and consumers by name."""

    def __init__(self):
        self.producers, self.consumers, self.sent = {}, {}, []

    def describe(self, contract):
        """The library, its version, and the version of the contract."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "aiokafka",
            "version": aiokafka.__version__,
            "language": "Python",
        }

    def error(self, error):
        """The fields of an error that the library defines."""
        is_fatal = isinstance(error, FATAL)
        return {
            "retriable": False,  # of a transaction's call: the library has tried again by itself
            "abortable": isinstance(error, errors.KafkaError) and not is_fatal,
            "fatal": is_fatal,
        }

    def init(self, producer, bootstrap, patience_ms, **settings):
        """A transactional producer, ready. The library has no bound for a whole call."""

        async def start():
            self.producers[producer] = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
            await self.producers[producer].start()

        run(start())

    def begin(self, producer):
        run(self.producers[producer].begin_transaction())

    def send(self, producer, topic, partition, value, wait):
        """Send one record; with ``wait``, return once it is acknowledged."""
        future = run(self.producers[producer].send(topic, value.encode(), partition=partition))
        if wait:
            return {"offset": run(future).offset}
        self.sent.append(future)
        return {}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Positions of a group into the transaction; a member can't be named."""
        positions = {TopicPartition(topic, index): offset for topic, index, offset in offsets}
        run(self.producers[producer].send_offsets_to_transaction(positions, group))

    def commit(self, producer):
        run(self.producers[producer].commit_transaction())

    def abort(self, producer):
        run(self.producers[producer].abort_transaction())

    def consumer(self, topic, partitions, consumer, **settings):
        """Make a reader of the partitions, from their beginning."""
        assignment = [TopicPartition(topic, index) for index in range(partitions)]
        run(self.reader(lambda reader: reader.assign(assignment), consumer, **settings))
        run(self.consumers[consumer].seek_to_beginning())

    def subscribe(self, topic, protocol, **settings):
        """Make a member of a group of the classic protocol."""
        if protocol != "classic":
            raise NotImplementedError(protocol)
        # As the others in the group.
        settings["partition_assignment_strategy"] = (RangePartitionAssignor,)
        run(self.reader(lambda reader: reader.subscribe([topic]), **settings))

    async def reader(self, attach, consumer, bootstrap, group, isolation, **settings):
        """Make a consumer without automatic commits."""
        self.consumers[consumer] = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, isolation_level=isolation,
            enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=100,
            **settings,
        )  # fmt: skip
        attach(self.consumers[consumer])
        await self.consumers[consumer].start()

    def end_offsets(self, consumer):
        """The end offset of each partition that the consumer reads."""
        reader = self.consumers[consumer]
        ends = run(reader.end_offsets(list(reader.assignment())))
        return {"ends": {partition.partition: end for partition, end in ends.items()}}

    def poll(self, consumer, timeout_ms):
        """What comes within the time, and where the reader stands."""
        reader = self.consumers[consumer]

        async def read():
            records, deadline_s = [], LOOP.time() + timeout_ms / 1000
            while (remaining_s := deadline_s - LOOP.time()) > 0:
                for batch in (await reader.getmany(timeout_ms=int(remaining_s * 1000))).values():
                    records += [
                        [record.partition, record.offset, record.value.decode()] for record in batch
                    ]
            positions = {}
            for partition in reader.assignment():
                with contextlib.suppress(TimeoutError):  # one that is not known yet is left out
                    positions[partition.partition] = await asyncio.wait_for(
                        reader.position(partition), POSITION_S
                    )
            return {"records": records, "positions": positions}

        return run(read())

    def seek(self, consumer, topic, partition, offset):
        """Set the consumer's position."""
        run(lambda: self.consumers[consumer].seek(TopicPartition(topic, partition), offset))

    def commit_positions(self, consumer):
        """Commit the consumer's position by the library's own commit."""
        run(self.consumers[consumer].commit())

    def close(self, name):
        """Close a producer or a consumer."""
        for clients in (self.producers, self.consumers):
            if name in clients:
                run(clients.pop(name).stop())


serve(Driver())
