"""A cluster, two instances of the application, a feeder and a reader: what kills are done to."""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import Consumer, TopicPartition

from tests.clients.streams.application import Application
from tests.clients.streams.clusters import (
    BROKERS,
    INTERNAL_PARTITIONS,
    real_cluster,
    simulated_cluster,
)
from tests.clients.streams.control import ControlPort
from tests.clients.streams.feed import Feeder, FeedThread, Reader, create_topics
from tests.clients.streams.ledger import Ledger
from tests.clients.streams.plan import INSTANCES
from tests.support.lifetime import ManagedResource
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main as txnsim
from txnsim.types import partition_for

APPLICATION_ID: Final = "counting"
INPUT: Final = "words"
OUTPUT: Final = "counted"
PARTITIONS: Final = 6
"""Two led by each broker: an instance with three of them writes to at least two brokers."""
TRANSACTIONS: Final = "__transaction_state"
POSITIONS: Final = "__consumer_offsets"
PATIENCE_S: Final = 90.0
ROUNDS: Final = 5
"""Words per partition, where a number of them is needed."""

_STREAMS: Final = {
    "processing.guarantee": "exactly_once_v2",
    "num.stream.threads": "1",
    "commit.interval.ms": "100",
    "replication.factor": "-1",
    "statestore.cache.max.bytes": "0",
    "consumer.auto.offset.reset": "earliest",
    # An instance that died fences its transaction when it comes back. But the other one may wait
    # for positions in it before that, and keeps it from coming back: until this has passed. And
    # no transaction may end before it was struck, however slow the machine is.
    "producer.transaction.timeout.ms": "15000",
    "reconnect.backoff.ms": "50",
    "retry.backoff.ms": "50",
}
_PROTOCOLS: Final = {
    # The dead are missed soon; with the streams protocol the brokers say when.
    "classic": {"consumer.session.timeout.ms": "2000", "consumer.heartbeat.interval.ms": "300"},
    "streams": {"group.protocol": "streams"},
}
_POLL_S: Final = 0.05
_OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_PROBLEMS_TOLD: Final = 5


class LabError(Exception):
    """An expected output did not come in time, or differs."""


class Lab(ManagedResource):
    """All of it, as a context manager.

    Args:
        level: Of ``transaction.version``.
        seed: Of the words.
        is_real: On a real Kafka, where nothing can be struck.
        protocol: Of the application's group, ``classic`` or ``streams``.
        standbys: Copies of each store; the other instance keeps it.
        settings: Further ones of Kafka Streams.
        replaces_threads: An instance goes on with another thread where one has failed.
    """

    def __init__(
        self,
        *,
        transaction_version: int,
        seed: int,
        is_real: bool = False,
        protocol: str = "classic",
        standby_count: int = 0,
        settings: Mapping[str, str] | None = None,
        replaces_threads: bool = False,
    ) -> None:
        self._settings = {**_STREAMS, **_PROTOCOLS[protocol], **(settings or {})}
        if protocol == "classic":  # with the streams protocol the brokers say how many
            self._settings["num.standby.replicas"] = str(standby_count)
        self.join_api = "JoinGroup" if protocol == "classic" else "StreamsGroupHeartbeat"
        """What an instance joins its group with."""
        self._directory = tempfile.TemporaryDirectory(prefix="txnsim-streams-")
        root = Path(self._directory.name)
        self.cluster = (
            real_cluster(transaction_version=transaction_version)
            if is_real
            else simulated_cluster(
                root, transaction_version=transaction_version, standby_count=standby_count
            )
        )
        self._root = root
        self._replaces_threads = replaces_threads
        self._chance = random.Random(f"{seed}/words")
        self.ledger = Ledger()
        self.applications: dict[str, Application] = {}
        self._reader: Reader | None = None

    def __enter__(self) -> Self:
        self.cluster.start()
        return super().__enter__()

    def _on_exit(self, error: BaseException | None) -> None:
        self._close(expects_clean_end=error is None)

    def _on_enter(self) -> None:
        bootstrap = self.cluster.bootstrap
        create_topics(bootstrap, (INPUT, OUTPUT), PARTITIONS)
        self._feeder = Feeder(
            bootstrap,
            topic=INPUT,
            partitions=PARTITIONS,
            ledger=self.ledger,
            random_source=self._chance,
        )
        self._reader = Reader(bootstrap, topic=OUTPUT, partitions=PARTITIONS, ledger=self.ledger)
        for instance_name in INSTANCES:
            self.applications[instance_name] = Application(
                instance_name,
                application_id=APPLICATION_ID,
                topics=(INPUT, OUTPUT),
                settings={**self._settings, "bootstrap.servers": bootstrap},
                directory=self._root,
                replaces_threads=self._replaces_threads,
            )
        for application in self.applications.values():
            application.start()
        self.feed(ROUNDS)
        self.settle()

    def _close(self, *, expects_clean_end: bool) -> None:
        try:
            for application in self.applications.values():
                application.stop()
        finally:
            if self._reader is not None:
                self._reader.close()
            if isinstance(self.cluster, TxnsimServer):
                self.cluster.stop(expects_clean_end=expects_clean_end)
            else:
                self.cluster.stop()
            self._directory.cleanup()

    @cached_property
    def control(self) -> ControlPort:
        """The control port of the simulated cluster; a real cluster has none."""
        assert isinstance(self.cluster, TxnsimServer)
        return ControlPort(str(self.cluster.http))

    # Doing

    def feed(self, round_count: int) -> None:
        self._feeder.feed(round_count)

    def feeding(self) -> FeedThread:
        return self._feeder.feeding()

    def settle(self) -> None:
        """Wait until all instances run and every input so far has its output.

        Raises:
            LabError: Not in time, or not exactly.
        """
        for application in self.applications.values():
            application.await_running(PATIENCE_S)
        assert self._reader is not None
        is_complete = self._reader.await_all(PATIENCE_S)
        for application in self.applications.values():
            application.expect_alive()
        problems = self.ledger.problems
        if problems:
            summary = "; ".join(problems[:_PROBLEMS_TOLD])
            raise LabError(f"not exact, {len(problems)} problems: {summary}")
        if not is_complete:
            missing = self.ledger.missing()
            raise LabError(
                f"{missing.total()} inputs have no output after {PATIENCE_S:.0f} s: {missing}"
                f"; transactions: {self.transactions()}"
            )

    def heal(self, broker: int) -> None:
        """Start a killed broker and go back to the leaders of the beginning."""
        self.control.start(broker)
        self._await(
            "all replicas are in sync",
            lambda: all(
                len(partition.isr) == len(BROKERS) for partition in self.control.partitions()
            ),
        )
        self.lead_as_preferred()

    def lead_as_preferred(self) -> None:
        """Hand every partition back to its preferred leader."""
        for partition in self.control.partitions():
            if partition.leader != partition.preferred:
                self.control.move_leader(partition.topic, partition.partition, partition.preferred)

    def _await(self, condition_text: str, is_met: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_met():
            if time.monotonic() > deadline_s:
                raise LabError(f"not so after {PATIENCE_S:.0f} s: {condition_text}")
            time.sleep(_POLL_S)

    # Looking

    def coordinator_partition(self, application: Application) -> int:
        """The partition of ``__transaction_state`` that an instance's transactional id is in."""
        return partition_for(application.transactional_id, INTERNAL_PARTITIONS)

    def coordinator(self, application: Application) -> int:
        """The broker that coordinates an instance's transactions."""
        return self.control.leader(TRANSACTIONS, self.coordinator_partition(application))

    def group_coordinator(self) -> int:
        """The broker that coordinates the group."""
        partition = partition_for(APPLICATION_ID, INTERNAL_PARTITIONS)
        return self.control.leader(POSITIONS, partition)

    def describe(self, transactional_id: str) -> dict[str, Any]:
        """The coordinator's description of a transaction."""
        description: dict[str, Any] = self._txns("describe", "--transactional-id", transactional_id)
        return description

    def transactions(self) -> dict[str, str]:
        """The state of every transactional id."""
        rows = self._txns("list")
        return {row["transactional_id"]: row["state"] for row in rows}

    def _txns(self, *arguments: str) -> Any:
        """``txnsim txns``, in this process: one of its own would take half a second each time."""
        name, *options = arguments
        command = ("txns", "--bootstrap-server", self.cluster.bootstrap, name, "--json", *options)
        output, complaint_output = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaint_output):
            status = txnsim(command)
        if status != 0:
            message = f"{output.getvalue()}{complaint_output.getvalue()}"
            raise LabError(f"txnsim txns {' '.join(arguments)}: {message}")
        return json.loads(output.getvalue())

    # The end

    def judge(self) -> list[str]:
        """Stop the application and look at everything again.

        Returns:
            What is wrong.
        """
        self.feed(ROUNDS)
        self.settle()
        for application in self.applications.values():
            application.stop()
        problems = [*self.ledger.problems, *self._read_again()][:_PROBLEMS_TOLD]
        problems += self._unconsumed()
        problems += [
            f"{transactional_id} is {state}"
            for transactional_id, state in self.transactions().items()
            if state in _OPEN_STATES
        ]
        for broker in BROKERS if isinstance(self.cluster, TxnsimServer) else (1,):
            hanging = self._txns(
                "find-hanging", "--broker-id", str(broker), "--max-transaction-timeout", "0"
            )
            problems += [f"hanging on broker {broker}: {transaction}" for transaction in hanging]
        log_text = self.cluster.log_tail()
        if "Traceback" in log_text or "failed by a bug" in log_text:
            problems.append(f"the server printed:\n{log_text}")
        return problems

    def _read_again(self) -> tuple[str, ...]:
        """Read all output again with a reader that starts from the beginning."""
        fresh_ledger = self.ledger.without_outputs()
        reader = Reader(
            self.cluster.bootstrap, topic=OUTPUT, partitions=PARTITIONS, ledger=fresh_ledger
        )
        try:
            if not reader.await_all(PATIENCE_S):
                return (f"read again, {fresh_ledger.missing()} have no output",)
        finally:
            reader.close()
        return fresh_ledger.problems

    def _unconsumed(self) -> list[str]:
        """Committed positions that are not the end of the input."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": APPLICATION_ID,
                "log_level": 0,
            }
        )
        try:
            partitions = [
                TopicPartition(INPUT, partition_index) for partition_index in range(PARTITIONS)
            ]
            topic_partitions = consumer.committed(partitions, timeout=PATIENCE_S)
            ends = [
                consumer.get_watermark_offsets(topic_partition, timeout=PATIENCE_S)[1]
                for topic_partition in topic_partitions
            ]
        finally:
            consumer.close()
        return [
            f"{topic_partition.topic}-{topic_partition.partition} is consumed to"
            f" {topic_partition.offset},"
            f" its end is {end}"
            for topic_partition, end in zip(topic_partitions, ends, strict=True)
            if topic_partition.offset != end
        ]
