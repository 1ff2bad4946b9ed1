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

FATAL_ERRORS = (
    ProducerFencedError,
    OutOfOrderSequenceNumberError,
    UnsupportedVersionError,
    AuthorizationError,
)
"""The library's guide is that of the Java client: close on these, abort on every other error."""
POSITION_TIMEOUT_MS = 200


class Driver:
    """It keeps producers and consumers by name; each command is a method."""

    def __init__(self):
        self.producers, self.consumers = {}, {}
        self.patience_s = 30.0

    def describe(self, contract):
        """Name the library with its version, and the version of the contract that both speak."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "kafka-python",
            "version": kafka.__version__,
            "language": "Python",
        }

    def error(self, error):
        """Return what the library says of an error; a call that ran out of time may be repeated."""
        is_retriable, is_fatal = (
            isinstance(error, KafkaTimeoutError),
            isinstance(error, FATAL_ERRORS),
        )
        return {
            "retriable": is_retriable,
            "abortable": isinstance(error, KafkaError) and not is_fatal and not is_retriable,
            "fatal": is_fatal,
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
        record_future = self.producers[producer].send(topic, value.encode(), partition=partition)
        return {"offset": record_future.get(timeout=self.patience_s).offset} if wait else {}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Add positions of a group to the transaction, by its member where there is one."""
        offset_by_partition = {
            TopicPartition(*position[:2]): OffsetAndMetadata(position[2], "", -1)
            for position in offsets
        }
        group_or_metadata = self.consumers[consumer].group_metadata() if consumer else group
        self.producers[producer].send_offsets_to_transaction(offset_by_partition, group_or_metadata)

    def commit(self, producer):
        self.producers[producer].commit_transaction()

    def abort(self, producer):
        self.producers[producer].abort_transaction()

    def consumer(self, topic, partitions, **settings):
        """Make a reader of the partitions, from their beginning."""
        reader = self.make_reader(**settings)
        reader.assign([TopicPartition(topic, index) for index in range(partitions)])
        reader.seek_to_beginning()

    def subscribe(self, topic, protocol, session_timeout_ms, **settings):
        """Make a member of a group of the classic protocol."""
        if protocol != "classic":
            raise NotImplementedError(protocol)
        self.make_reader(**settings, session_timeout_ms=session_timeout_ms).subscribe([topic])

    def make_reader(self, consumer, bootstrap, client_id, group, isolation, **settings):
        """Make a consumer without automatic commits."""
        self.consumers[consumer] = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), client_id=client_id, group_id=group,
            isolation_level=isolation, enable_auto_commit=False, auto_offset_reset="earliest",
            fetch_max_wait_ms=100, **settings,
        )  # fmt: skip
        return self.consumers[consumer]

    def end_offsets(self, consumer):
        """Return the end offset of each partition that the consumer reads."""
        reader = self.consumers[consumer]
        end_by_partition = reader.end_offsets(list(reader.assignment()))
        return {
            "ends": {
                partition.partition: end_offset
                for partition, end_offset in end_by_partition.items()
            }
        }

    def poll(self, consumer, timeout_ms):
        """Return the records that come within the time, and the positions after them."""
        reader, records = self.consumers[consumer], []
        deadline_s = time.monotonic() + timeout_ms / 1000
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            for partition_records in reader.poll(timeout_ms=int(remaining_s * 1000)).values():
                records += [
                    [record.partition, record.offset, record.value.decode()]
                    for record in partition_records
                ]
        position_by_partition = {}
        for partition in reader.assignment():
            with contextlib.suppress(KafkaTimeoutError):  # one that is not known yet is left out
                position_by_partition[partition.partition] = reader.position(
                    partition, timeout_ms=POSITION_TIMEOUT_MS
                )
        known_position_by_partition = {
            index: offset for index, offset in position_by_partition.items() if offset is not None
        }
        return {"records": records, "positions": known_position_by_partition}

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
