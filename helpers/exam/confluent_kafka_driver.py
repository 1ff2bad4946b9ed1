"""confluent-kafka (librdkafka) sits the exam of txnsim: docs/exam.md."""

import time

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
    libversion,
)
from contract import CONTRACT, serve


class Driver:
    """Producers and consumers by name."""

    def __init__(self):
        self.producers, self.consumers, self.groups = {}, {}, {}
        self.patience_s = 30.0

    def describe(self, contract):
        """Who sits the exam."""
        return {
            "contract": min(contract, CONTRACT),
            "library": "confluent-kafka",
            "version": f"{confluent_kafka.__version__}, librdkafka {libversion()[0]}",
            "language": "Python",
        }

    def error(self, raised):
        """The library's own word on an error."""
        if not isinstance(raised, KafkaException):
            return {}
        error = raised.args[0]
        return {
            "name": error.name(),
            "retriable": error.retriable(),
            "abortable": error.txn_requires_abort(),
            "fatal": error.fatal(),
        }

    def init(self, producer, bootstrap, client_id, transactional_id, transaction_timeout_ms,
             request_timeout_ms, patience_ms):  # fmt: skip
        """A transactional producer, ready."""
        self.patience_s = patience_ms / 1000
        self.groups["bootstrap"] = {"bootstrap.servers": bootstrap, "client.id": client_id}
        if producer not in self.producers:  # else an init that has timed out goes on
            self.producers[producer] = Producer(
                {
                    **self.groups["bootstrap"],
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": transaction_timeout_ms,
                    "message.timeout.ms": patience_ms,
                    "socket.timeout.ms": request_timeout_ms,
                    "linger.ms": 0,
                    "log_level": 0,
                }
            )
        self.producers[producer].init_transactions(self.patience_s)

    def begin(self, producer):
        """Begin a transaction."""
        self.producers[producer].begin_transaction()

    def send(self, producer, topic, partition, value, wait):
        """One record; with ``wait`` until it is acknowledged."""
        told = []
        self.producers[producer].produce(
            topic, value.encode(), partition=partition, on_delivery=lambda *both: told.append(both)
        )
        until = time.monotonic() + self.patience_s
        while wait and not told and time.monotonic() < until:
            self.producers[producer].poll(0.05)
        if not wait:
            return {}
        if not told:
            raise TimeoutError(f"not acknowledged in {self.patience_s} s")
        error, message = told[0]
        if error is not None:
            raise KafkaException(error)
        return {"offset": message.offset()}

    def send_offsets(self, producer, group, offsets):
        """Positions of a group into the transaction."""
        if group not in self.groups:
            settings = {**self.groups["bootstrap"], "group.id": group, "log_level": 0}
            self.groups[group] = Consumer(settings)
        self.producers[producer].send_offsets_to_transaction(
            [TopicPartition(*each) for each in offsets],
            self.groups[group].consumer_group_metadata(),
            self.patience_s,
        )

    def commit(self, producer):
        """Commit."""
        self.producers[producer].commit_transaction(self.patience_s)

    def abort(self, producer):
        """Abort."""
        self.producers[producer].abort_transaction(self.patience_s)

    def consumer(self, consumer, bootstrap, client_id, group, topic, partitions, isolation):
        """A reader of partitions, from their beginning."""
        made = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "group.id": group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.auto.offset.store": True,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        made.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
        self.consumers[consumer] = made

    def poll(self, consumer, timeout_ms):
        """What comes within the time, and where the reader stands."""
        reader, found = self.consumers[consumer], []
        until = time.monotonic() + timeout_ms / 1000
        while (left := until - time.monotonic()) > 0:
            message = reader.poll(left)
            if message is not None and message.error() is None:
                found.append([message.partition(), message.offset(), message.value().decode()])
        places = reader.position(reader.assignment())
        return {"records": found, "positions": {str(at.partition): at.offset for at in places}}

    def seek(self, consumer, topic, partition, offset):
        """Go on from there."""
        self.consumers[consumer].seek(TopicPartition(topic, partition, offset))

    def commit_positions(self, consumer):
        """Commit where the reader stands, as the library does it by itself."""
        self.consumers[consumer].commit(asynchronous=False)

    def close(self, name):
        """Close a producer or a consumer."""
        if name in self.producers:
            self.producers.pop(name).purge()
        elif name in self.consumers:
            self.consumers.pop(name).close()


serve(Driver())
