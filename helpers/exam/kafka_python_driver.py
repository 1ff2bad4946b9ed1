"""kafka-python sits the exam of txnsim: docs/exam.md."""

import contextlib
import time

import kafka
from contract import CONTRACT, serve
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from kafka.structs import OffsetAndMetadata

FATAL = (
    ProducerFencedError,
    OutOfOrderSequenceNumberError,
    UnsupportedVersionError,
    AuthorizationError,
)
"""The library's guide is that of the Java client: close on these, abort on every other error."""
POSITION_MS = 200


class Driver:
    """Producers and consumers by name."""

    def __init__(self):
        self.producers, self.consumers = {}, {}
        self.patience_s = 30.0

    def describe(self, contract):
        """The library, its version, and the version of the contract."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "kafka-python",
            "version": kafka.__version__,
            "language": "Python",
        }

    def error(self, error):
        """What the library says about an error; a call that ran out of time may be repeated."""
        retriable, fatal = isinstance(error, KafkaTimeoutError), isinstance(error, FATAL)
        return {
            "retriable": retriable,
            "abortable": isinstance(error, KafkaError) and not fatal and not retriable,
            "fatal": fatal,
        }

    def init(self, producer, bootstrap, client_id, transactional_id, transaction_timeout_ms,
             request_timeout_ms, patience_ms):  # fmt: skip
        """Make a transactional producer, and call ``init_transactions``."""
        self.patience_s = patience_ms / 1000
        if producer not in self.producers:  # else an init that has timed out goes on
            self.producers[producer] = KafkaProducer(
                bootstrap_servers=bootstrap.split(","),
                client_id=client_id,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                request_timeout_ms=request_timeout_ms,
                delivery_timeout_ms=max(patience_ms, request_timeout_ms + 1_000),
                max_block_ms=patience_ms,
            )
        self.producers[producer].init_transactions()

    def begin(self, producer):
        self.producers[producer].begin_transaction()

    def send(self, producer, topic, partition, value, wait):
        """Send one record; with ``wait``, return once it is acknowledged."""
        future = self.producers[producer].send(topic, value.encode(), partition=partition)
        return {"offset": future.get(timeout=self.patience_s).offset} if wait else {}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Positions of a group into the transaction, by its member where there is one."""
        positions = {
            TopicPartition(*position[:2]): OffsetAndMetadata(position[2], "", -1)
            for position in offsets
        }
        group_identity = self.consumers[consumer].group_metadata() if consumer else group
        self.producers[producer].send_offsets_to_transaction(positions, group_identity)

    def commit(self, producer):
        self.producers[producer].commit_transaction()

    def abort(self, producer):
        self.producers[producer].abort_transaction()

    def consumer(self, topic, partitions, **settings):
        """Make a reader of the partitions, from their beginning."""
        reader = self.reader(**settings)
        reader.assign([TopicPartition(topic, index) for index in range(partitions)])
        reader.seek_to_beginning()

    def subscribe(self, topic, protocol, session_timeout_ms, **settings):
        """Make a member of a group of the classic protocol."""
        if protocol != "classic":
            raise NotImplementedError(protocol)
        self.reader(**settings, session_timeout_ms=session_timeout_ms).subscribe([topic])

    def reader(self, consumer, bootstrap, client_id, group, isolation, **settings):
        """Make a consumer without automatic commits."""
        self.consumers[consumer] = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), client_id=client_id, group_id=group,
            isolation_level=isolation, enable_auto_commit=False, auto_offset_reset="earliest",
            fetch_max_wait_ms=100, **settings,
        )  # fmt: skip
        return self.consumers[consumer]

    def end_offsets(self, consumer):
        """The end offset of each partition that the consumer reads."""
        reader = self.consumers[consumer]
        ends = reader.end_offsets(list(reader.assignment()))
        return {"ends": {partition.partition: end for partition, end in ends.items()}}

    def poll(self, consumer, timeout_ms):
        """What comes within the time, and where the reader stands."""
        reader, records = self.consumers[consumer], []
        deadline_s = time.monotonic() + timeout_ms / 1000
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            for batch in reader.poll(timeout_ms=int(remaining_s * 1000)).values():
                records += [
                    [record.partition, record.offset, record.value.decode()] for record in batch
                ]
        positions = {}
        for partition in reader.assignment():
            with contextlib.suppress(KafkaTimeoutError):  # one that is not known yet is left out
                positions[partition.partition] = reader.position(partition, timeout_ms=POSITION_MS)
        offsets = {index: offset for index, offset in positions.items() if offset is not None}
        return {"records": records, "positions": offsets}

    def seek(self, consumer, topic, partition, offset):
        """Set the consumer's position."""
        self.consumers[consumer].seek(TopicPartition(topic, partition), offset)

    def commit_positions(self, consumer):
        """Commit the consumer's position by the library's own commit."""
        self.consumers[consumer].commit()

    def close(self, name):
        """Close a producer or a consumer."""
        if name in self.producers:
            self.producers.pop(name).close(timeout=self.patience_s)
        elif name in self.consumers:
            self.consumers.pop(name).close()


serve(Driver())
