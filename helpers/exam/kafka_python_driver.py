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
        """Who sits the exam."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "kafka-python",
            "version": kafka.__version__,
            "language": "Python",
        }

    def error(self, raised):
        """The library's own word on an error; a call that ran out of time may be repeated."""
        retriable, fatal = isinstance(raised, KafkaTimeoutError), isinstance(raised, FATAL)
        return {
            "retriable": retriable,
            "abortable": isinstance(raised, KafkaError) and not fatal and not retriable,
            "fatal": fatal,
        }

    def init(self, producer, bootstrap, client_id, transactional_id, transaction_timeout_ms,
             request_timeout_ms, patience_ms):  # fmt: skip
        """A transactional producer, ready."""
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
        """Begin a transaction."""
        self.producers[producer].begin_transaction()

    def send(self, producer, topic, partition, value, wait):
        """One record; with ``wait`` until it is acknowledged."""
        future = self.producers[producer].send(topic, value.encode(), partition=partition)
        return {"offset": future.get(timeout=self.patience_s).offset} if wait else {}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Positions of a group into the transaction, by its member where there is one."""
        places = {TopicPartition(*at[:2]): OffsetAndMetadata(at[2], "", -1) for at in offsets}
        told = self.consumers[consumer].group_metadata() if consumer else group
        self.producers[producer].send_offsets_to_transaction(places, told)

    def commit(self, producer):
        """Commit."""
        self.producers[producer].commit_transaction()

    def abort(self, producer):
        """Abort."""
        self.producers[producer].abort_transaction()

    def consumer(self, topic, partitions, **given):
        """A reader of partitions, from their beginning."""
        reader = self.reader(**given)
        reader.assign([TopicPartition(topic, index) for index in range(partitions)])
        reader.seek_to_beginning()

    def subscribe(self, topic, protocol, session_timeout_ms, **given):
        """A member of a group of the classic protocol."""
        if protocol != "classic":
            raise NotImplementedError(protocol)
        self.reader(**given, session_timeout_ms=session_timeout_ms).subscribe([topic])

    def reader(self, consumer, bootstrap, client_id, group, isolation, **more):
        """A consumer without automatic commits."""
        self.consumers[consumer] = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","), client_id=client_id, group_id=group,
            isolation_level=isolation, enable_auto_commit=False, auto_offset_reset="earliest",
            fetch_max_wait_ms=100, **more,
        )  # fmt: skip
        return self.consumers[consumer]

    def end_offsets(self, consumer):
        """The ends of what it reads."""
        reader = self.consumers[consumer]
        ends = reader.end_offsets(list(reader.assignment()))
        return {"ends": {at.partition: end for at, end in ends.items()}}

    def poll(self, consumer, timeout_ms):
        """What comes within the time, and where the reader stands."""
        reader, found = self.consumers[consumer], []
        until = time.monotonic() + timeout_ms / 1000
        while (left := until - time.monotonic()) > 0:
            for records in reader.poll(timeout_ms=int(left * 1000)).values():
                found += [[one.partition, one.offset, one.value.decode()] for one in records]
        places = {}
        for at in reader.assignment():
            with contextlib.suppress(KafkaTimeoutError):  # one that is not known yet is left out
                places[at.partition] = reader.position(at, timeout_ms=POSITION_MS)
        known = {index: place for index, place in places.items() if place is not None}
        return {"records": found, "positions": known}

    def seek(self, consumer, topic, partition, offset):
        """Go on from there."""
        self.consumers[consumer].seek(TopicPartition(topic, partition), offset)

    def commit_positions(self, consumer):
        """Commit where the reader stands, as the library does it by itself."""
        self.consumers[consumer].commit()

    def close(self, name):
        """Close a producer or a consumer."""
        if name in self.producers:
            self.producers.pop(name).close(timeout=self.patience_s)
        elif name in self.consumers:
            self.consumers.pop(name).close()


serve(Driver())
