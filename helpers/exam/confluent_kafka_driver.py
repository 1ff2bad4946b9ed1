"""confluent-kafka (librdkafka) sits the exam of txnsim: docs/exam.md."""

import time
from functools import partialmethod

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from contract import CONTRACT, serve


class Driver:
    """Producers and consumers by name."""

    def __init__(self):
        self.producers, self.consumers, self.memberless_consumers = {}, {}, {}
        self.sharers, self.polled = {}, {}
        self.patience_s = 30.0

    def describe(self, contract):
        """The library, its version, and the version of the contract."""
        native = confluent_kafka.libversion()[0]
        return {
            "contract": min(contract, CONTRACT),
            "library": "confluent-kafka",
            "version": f"{confluent_kafka.__version__}, librdkafka {native}",
            "language": "Python",
        }

    def error(self, exception):
        """The fields of an error that the library defines."""
        if not isinstance(exception, KafkaException):
            return {}
        error = exception.args[0]
        return {
            "name": error.name(),
            "retriable": error.retriable(),
            "abortable": error.txn_requires_abort(),
            "fatal": error.fatal(),
        }

    def init(self, producer, bootstrap, client_id, transactional_id, transaction_timeout_ms,
             request_timeout_ms, patience_ms):  # fmt: skip
        """Make a transactional producer, and call ``init_transactions``."""
        self.patience_s = patience_ms / 1000
        if producer not in self.producers:  # else an init that has timed out goes on
            self.producers[producer] = Producer({
                "bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0,
                "transactional.id": transactional_id, "linger.ms": 0,
                "transaction.timeout.ms": transaction_timeout_ms,
                "message.timeout.ms": patience_ms, "socket.timeout.ms": request_timeout_ms,
            })  # fmt: skip
        self.producers[producer].init_transactions(self.patience_s)

    def begin(self, producer):
        self.producers[producer].begin_transaction()

    def send(self, producer, topic, partition, value, wait):
        """Send one record; with ``wait``, return once it is acknowledged."""
        reports = []
        self.producers[producer].produce(
            topic,
            value.encode(),
            partition=partition,
            on_delivery=lambda *report: reports.append(report),
        )
        deadline_s = time.monotonic() + self.patience_s
        while wait and not reports and time.monotonic() < deadline_s:
            self.producers[producer].poll(0.05)
        if not wait:
            return {}
        if not reports:
            raise TimeoutError(f"not acknowledged in {self.patience_s} s")
        error, message = reports[0]
        if error is not None:
            raise KafkaException(error)
        return {"offset": message.offset()}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Positions of a group into the transaction; one without a member here has no metadata."""
        if not consumer and group not in self.memberless_consumers:
            self.memberless_consumers[group] = Consumer({"group.id": group, "log_level": 0})
        member = self.consumers[consumer] if consumer else self.memberless_consumers[group]
        self.producers[producer].send_offsets_to_transaction(
            [TopicPartition(*position) for position in offsets],
            member.consumer_group_metadata(),
            self.patience_s,
        )

    def commit(self, producer):
        self.producers[producer].commit_transaction(self.patience_s)

    def abort(self, producer):
        self.producers[producer].abort_transaction(self.patience_s)

    def consumer(self, topic, partitions, **settings):
        """Make a reader of the partitions, from their beginning."""
        assignment = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)]
        self.reader(**settings).assign(assignment)

    def subscribe(self, topic, protocol, session_timeout_ms, **settings):
        """Make a member of a group, of the classic or of the consumer protocol."""
        by_protocol = {"classic": {"session.timeout.ms": session_timeout_ms}}
        group_settings = by_protocol.get(protocol, {"group.protocol": protocol})
        self.reader(**settings, **group_settings).subscribe([topic])

    def reader(self, consumer, bootstrap, client_id, group, isolation, **settings):
        """Make a consumer without automatic commits."""
        self.consumers[consumer] = Consumer({
            "bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0,
            "group.id": group, "isolation.level": isolation, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, **settings,
        })  # fmt: skip
        return self.consumers[consumer]

    def end_offsets(self, consumer):
        """The end offset of each partition that the consumer reads."""
        reader = self.consumers[consumer]
        ends = {
            partition.partition: reader.get_watermark_offsets(partition)[1]
            for partition in reader.assignment()
        }
        return {"ends": ends}

    def poll(self, consumer, timeout_ms, max_records=1_000):
        """What comes within the time, and where the reader stands."""
        reader, found_records = self.consumers[consumer], []
        deadline_s = time.monotonic() + timeout_ms / 1000
        while (remaining_s := deadline_s - time.monotonic()) > 0 and len(
            found_records
        ) < max_records:
            message = reader.poll(remaining_s)
            if message is not None and message.error() is None:
                found_records.append(
                    [message.partition(), message.offset(), message.value().decode()]
                )
        positions = reader.position(reader.assignment())
        offsets = {
            position.partition: position.offset for position in positions if position.offset >= 0
        }
        return {"records": found_records, "positions": offsets}

    poll_first = partialmethod(poll, max_records=1)

    def seek(self, consumer, topic, partition, offset):
        """Set the consumer's position."""
        self.consumers[consumer].seek(TopicPartition(topic, partition, offset))

    def commit_positions(self, consumer):
        """Commit the consumer's position by the library's own commit."""
        self.consumers[consumer].commit(asynchronous=False)

    def share_subscribe(self, consumer, bootstrap, client_id, group, topic, request_timeout_ms):
        """A member of a share group that says of each record what becomes of it."""
        if not hasattr(confluent_kafka, "ShareConsumer"):
            raise NotImplementedError("share-subscribe")
        self.sharers[consumer] = confluent_kafka.ShareConsumer({
            "bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0,
            "group.id": group, "share.acknowledgement.mode": "explicit",
            "socket.timeout.ms": request_timeout_ms,
        })  # fmt: skip
        self.sharers[consumer].subscribe([topic])

    def share_poll(self, consumer, timeout_ms):
        """Poll once; return the records."""
        messages = self.sharers[consumer].poll(timeout_ms / 1000)
        self.polled[consumer] = [message for message in messages if message.error() is None]
        errors = [message.error() for message in messages if message.error() is not None]
        if errors and not self.polled[consumer]:
            raise KafkaException(errors[0])
        return {
            "records": [
                [message.partition(), message.offset(), message.value().decode()]
                for message in self.polled[consumer]
            ]
        }

    def acknowledge(self, consumer, how):
        """Acknowledge all records of the last poll in one way."""
        acknowledgement = getattr(confluent_kafka.AcknowledgeType, how.upper(), None)
        if acknowledgement is None:
            raise NotImplementedError(how)
        for message in self.polled[consumer]:
            self.sharers[consumer].acknowledge(message, acknowledgement)

    def share_commit(self, consumer, patience_ms):
        """Commit the acknowledgements; return the errors by partition."""
        outcomes = self.sharers[consumer].commit_sync(patience_ms / 1000)
        return {
            "failed": {
                partition.partition: str(error)
                for partition, error in outcomes.items()
                if error is not None
            }
        }

    def close(self, name):
        """Close a producer or a consumer."""
        if name in self.producers:
            self.producers.pop(name).purge()
        elif name in self.consumers:
            self.consumers.pop(name).close()
        elif name in self.sharers:
            self.sharers.pop(name).close()


serve(Driver())
