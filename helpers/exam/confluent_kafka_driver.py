"""confluent-kafka (librdkafka) sits the exam of txnsim: docs/exam.md."""

import time
from functools import partialmethod

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from contract import CONTRACT, serve


class Driver:
    """It keeps producers and consumers by name; each command is a method."""

    def __init__(self):
        self.producers, self.consumers, self.memberless_consumers = {}, {}, {}
        self.share_consumers, self.messages_by_consumer = {}, {}
        self.patience_s = 30.0

    def describe(self, contract):
        """Name the library with its version, and the version of the contract that both speak."""
        librdkafka_version = confluent_kafka.libversion()[0]
        return {
            "contract": min(contract, CONTRACT),
            "library": "confluent-kafka",
            "version": f"{confluent_kafka.__version__}, librdkafka {librdkafka_version}",
            "language": "Python",
        }

    def error(self, exception):
        """Return the fields of an error that the library defines."""
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
        delivery_reports = []
        self.producers[producer].produce(
            topic,
            value.encode(),
            partition=partition,
            on_delivery=lambda *delivery_report: delivery_reports.append(delivery_report),
        )
        deadline_s = time.monotonic() + self.patience_s
        while wait and not delivery_reports and time.monotonic() < deadline_s:
            self.producers[producer].poll(0.05)
        if not wait:
            return {}
        if not delivery_reports:
            raise TimeoutError(f"not acknowledged in {self.patience_s} s")
        error, message = delivery_reports[0]
        if error is not None:
            raise KafkaException(error)
        return {"offset": message.offset()}

    def send_offsets(self, producer, group, offsets, consumer=""):
        """Add positions of a group to the transaction; without a member here it has no metadata."""
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
        self.make_reader(**settings).assign(assignment)

    def subscribe(self, topic, protocol, session_timeout_ms, **settings):
        """Make a member of a group, of the classic or of the consumer protocol."""
        settings_by_protocol = {"classic": {"session.timeout.ms": session_timeout_ms}}
        group_settings = settings_by_protocol.get(protocol, {"group.protocol": protocol})
        self.make_reader(**settings, **group_settings).subscribe([topic])

    def make_reader(self, consumer, bootstrap, client_id, group, isolation, **settings):
        """Make a consumer without automatic commits."""
        self.consumers[consumer] = Consumer({
            "bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0,
            "group.id": group, "isolation.level": isolation, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, **settings,
        })  # fmt: skip
        return self.consumers[consumer]

    def end_offsets(self, consumer):
        """Return the end offset of each partition that the consumer reads."""
        reader = self.consumers[consumer]
        end_by_partition = {
            partition.partition: reader.get_watermark_offsets(partition)[1]
            for partition in reader.assignment()
        }
        return {"ends": end_by_partition}

    def poll(self, consumer, timeout_ms, max_records=1_000):
        """Return the records that come within the time, and the positions after them."""
        reader, records = self.consumers[consumer], []
        deadline_s = time.monotonic() + timeout_ms / 1000
        while (remaining_s := deadline_s - time.monotonic()) > 0 and len(records) < max_records:
            message = reader.poll(remaining_s)
            if message is not None and message.error() is None:
                records.append([message.partition(), message.offset(), message.value().decode()])
        positions = reader.position(reader.assignment())
        offset_by_partition = {
            position.partition: position.offset for position in positions if position.offset >= 0
        }
        return {"records": records, "positions": offset_by_partition}

    poll_first = partialmethod(poll, max_records=1)

    def seek(self, consumer, topic, partition, offset):
        """Set the consumer's position."""
        self.consumers[consumer].seek(TopicPartition(topic, partition, offset))

    def commit_positions(self, consumer):
        """Commit the consumer's position by the library's own commit."""
        self.consumers[consumer].commit(asynchronous=False)

    def share_subscribe(self, consumer, bootstrap, client_id, group, topic, request_timeout_ms):
        """Make a member of a share group that says of each record what becomes of it."""
        if not hasattr(confluent_kafka, "ShareConsumer"):
            raise NotImplementedError("share-subscribe")
        self.share_consumers[consumer] = confluent_kafka.ShareConsumer({
            "bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0,
            "group.id": group, "share.acknowledgement.mode": "explicit",
            "socket.timeout.ms": request_timeout_ms,
        })  # fmt: skip
        self.share_consumers[consumer].subscribe([topic])

    def share_poll(self, consumer, timeout_ms):
        """Poll once; return the records."""
        messages = self.share_consumers[consumer].poll(timeout_ms / 1000)
        self.messages_by_consumer[consumer] = [
            message for message in messages if message.error() is None
        ]
        message_errors = [message.error() for message in messages if message.error() is not None]
        if message_errors and not self.messages_by_consumer[consumer]:
            raise KafkaException(message_errors[0])
        return {
            "records": [
                [message.partition(), message.offset(), message.value().decode()]
                for message in self.messages_by_consumer[consumer]
            ]
        }

    def acknowledge(self, consumer, how):
        """Acknowledge all records of the last poll in one way."""
        acknowledge_type = getattr(confluent_kafka.AcknowledgeType, how.upper(), None)
        if acknowledge_type is None:
            raise NotImplementedError(how)
        for message in self.messages_by_consumer[consumer]:
            self.share_consumers[consumer].acknowledge(message, acknowledge_type)

    def share_commit(self, consumer, patience_ms):
        """Commit the acknowledgements; return the errors by partition."""
        error_by_partition = self.share_consumers[consumer].commit_sync(patience_ms / 1000)
        return {
            "failed": {
                partition.partition: str(error)
                for partition, error in error_by_partition.items()
                if error is not None
            }
        }

    def close(self, name):
        """Close a producer or a consumer."""
        if name in self.producers:
            self.producers.pop(name).purge()
        elif name in self.consumers:
            self.consumers.pop(name).close()
        elif name in self.share_consumers:
            self.share_consumers.pop(name).close()


serve(Driver())
