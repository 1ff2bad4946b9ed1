"""aiokafka sits the exam of txnsim: docs/exam.md."""

import asyncio
import contextlib
import threading
from inspect import isawaitable

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from contract import CONTRACT, serve

FATAL_ERRORS = (errors.ProducerFenced, errors.InvalidProducerEpoch, errors.OutOfOrderSequenceNumber)
"""The library's guide: close the producer. After every other error of its: abort."""
POSITION_TIMEOUT_S = 0.2

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def run_in_loop(work):
    """Run a call in the event loop, which also runs between the calls; return its result."""

    async def await_work():
        work_result = work() if callable(work) else work
        return await work_result if isawaitable(work_result) else work_result

    return asyncio.run_coroutine_threadsafe(await_work(), LOOP).result()


class Driver:
    """It keeps producers and consumers by name; each command is a method."""

    def __init__(self):
        self.producers, self.consumers, self.unacknowledged_futures = {}, {}, []

    def describe(self, contract):
        """Name the library with its version, and the version of the contract that both speak."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "aiokafka",
            "version": aiokafka.__version__,
            "language": "Python",
        }

    def error(self, error):
        """Return the fields of an error that the library defines."""
        is_fatal = isinstance(error, FATAL_ERRORS)
        return {
            "retriable": False,  # of a transaction's call: the library has tried again by itself
            "abortable": isinstance(error, errors.KafkaError) and not is_fatal,
            "fatal": is_fatal,
        }

    def init(self, producer, bootstrap, patience_ms, **settings):
        """Start a transactional producer. The library has no bound for a whole call."""

        async def start_producer():
            self.producers[producer] = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
            await self.producers[producer].start()

        run_in_loop(start_producer())

    def begin(self, producer):
        run_in_loop(self.producers[producer].begin_transaction())

    def send(self, producer, topic, partition, value, wait):
        """Send one record; with ``wait``, return once it is acknowledged."""
        record_future = run_in_loop(
            self.producers[producer].send(topic, value.encode(), partition=partition)
        )
        if wait:
            return {"offset": run_in_loop(record_future).offset}
        self.unacknowledged_futures.append(record_future)
        return {}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Add positions of a group to the transaction; the library can name no member."""
        offset_by_partition = {
            TopicPartition(topic, index): offset for topic, index, offset in offsets
        }
        run_in_loop(
            self.producers[producer].send_offsets_to_transaction(offset_by_partition, group)
        )

    def commit(self, producer):
        run_in_loop(self.producers[producer].commit_transaction())

    def abort(self, producer):
        run_in_loop(self.producers[producer].abort_transaction())

    def consumer(self, topic, partitions, consumer, **settings):
        """Make a reader of the partitions, from their beginning."""
        assignment = [TopicPartition(topic, index) for index in range(partitions)]
        run_in_loop(
            self.make_reader(lambda reader: reader.assign(assignment), consumer, **settings)
        )
        run_in_loop(self.consumers[consumer].seek_to_beginning())

    def subscribe(self, topic, protocol, **settings):
        """Make a member of a group of the classic protocol."""
        if protocol != "classic":
            raise NotImplementedError(protocol)
        # As the others in the group.
        settings["partition_assignment_strategy"] = (RangePartitionAssignor,)
        run_in_loop(self.make_reader(lambda reader: reader.subscribe([topic]), **settings))

    async def make_reader(
        self, assign_or_subscribe, consumer, bootstrap, group, isolation, **settings
    ):
        """Make a consumer without automatic commits."""
        self.consumers[consumer] = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, isolation_level=isolation,
            enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=100,
            **settings,
        )  # fmt: skip
        assign_or_subscribe(self.consumers[consumer])
        await self.consumers[consumer].start()

    def end_offsets(self, consumer):
        """Return the end offset of each partition that the consumer reads."""
        reader = self.consumers[consumer]
        end_by_partition = run_in_loop(reader.end_offsets(list(reader.assignment())))
        return {
            "ends": {
                partition.partition: end_offset
                for partition, end_offset in end_by_partition.items()
            }
        }

    def poll(self, consumer, timeout_ms):
        """Return the records that come within the time, and the positions after them."""
        reader = self.consumers[consumer]

        async def read_until_deadline():
            records, deadline_s = [], LOOP.time() + timeout_ms / 1000
            while (remaining_s := deadline_s - LOOP.time()) > 0:
                for partition_records in (
                    await reader.getmany(timeout_ms=int(remaining_s * 1000))
                ).values():
                    records += [
                        [record.partition, record.offset, record.value.decode()]
                        for record in partition_records
                    ]
            position_by_partition = {}
            for partition in reader.assignment():
                with contextlib.suppress(TimeoutError):  # one that is not known yet is left out
                    position_by_partition[partition.partition] = await asyncio.wait_for(
                        reader.position(partition), POSITION_TIMEOUT_S
                    )
            return {"records": records, "positions": position_by_partition}

        return run_in_loop(read_until_deadline())

    def seek(self, consumer, topic, partition, offset):
        """Set the consumer's position."""
        run_in_loop(lambda: self.consumers[consumer].seek(TopicPartition(topic, partition), offset))

    def commit_positions(self, consumer):
        """Commit the consumer's position by the library's own commit."""
        run_in_loop(self.consumers[consumer].commit())

    def close(self, name):
        """Close a producer or a consumer."""
        for clients in (self.producers, self.consumers):
            if name in clients:
                run_in_loop(clients.pop(name).stop())


serve(Driver())
