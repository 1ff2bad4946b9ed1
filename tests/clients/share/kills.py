"""Share consumers of three libraries while brokers are killed and leaders and coordinators move.

``python -m tests.clients.share.kills [--strikes N] [--seed N]``. A producer writes numbered records
to three partitions; a Java, a librdkafka and a franz-go member of one share group accept what they
get. Each strike kills a broker, or moves a leader: of a partition, of the group's coordinator, of
the share coordinator. At the end every record was accepted, and none was delivered to anybody after
a broker had told a member that its acceptance was taken.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from tests.clients.share.programs import share_program
from tests.clients.streams.control import ControlError, ControlPort
from tests.support.foreign_clients import go_program
from tests.support.txnsim_server import TxnsimServer

BROKERS: Final = (1, 2, 3)
TOPIC: Final = "work"
GROUP: Final = "workers"
PARTITIONS: Final = 3
PER_SECOND: Final = 100
PAUSE_S: Final = 4.0
"""Between strikes, and while a killed broker is down."""
DRAINED_WITHIN_S: Final = 120.0
LIBRARIES: Final = ("java", "librdkafka", "franz-go")
_SETTINGS: Final = """\
settings:
  broker_heartbeat_interval_ms: 200
  broker_session_timeout_ms: 1500
  default_replication_factor: 3
  min_insync_replicas: 2
  offsets_topic_num_partitions: 4
  share_coordinator_state_topic_num_partitions: 4
  group_share_min_record_lock_duration_ms: 1000
  group_share_record_lock_duration_ms: 5000
  group_share_min_session_timeout_ms: 1000
  group_share_session_timeout_ms: 6000
  group_share_min_heartbeat_interval_ms: 500
  group_share_heartbeat_interval_ms: 1000
"""
STRIKE_TARGETS: Final = (
    ("kill", TOPIC),
    ("move", TOPIC),
    ("kill", "__consumer_offsets"),
    ("move", "__share_group_state"),
    ("kill", "__share_group_state"),
    ("move", "__consumer_offsets"),
)
"""Whose leader is struck, in turn."""


class Event(NamedTuple):
    """What a member printed of a record: that it got it, accepted it, or failed to."""

    at_ns: int
    library: str
    kind: str
    partition: int
    offset: int


class Verdict(NamedTuple):
    """Counts over all records and members: produced, delivered, delivered again, failed."""

    produced: int
    delivered: dict[str, int]
    """By library."""
    again: int
    """Deliveries of a record beyond its first, each with leave."""
    failed: dict[str, int]
    """Acceptances that a broker refused, by library: they are delivered again."""
    lost: list[tuple[int, int]]
    """Records that nobody accepted."""
    without_leave: list[tuple[int, int]]
    """Records that were delivered after their acceptance was taken."""

    @property
    def is_good(self) -> bool:
        """Whether no record was lost or wrongly repeated, and each library got records."""
        have_all_delivered = all(self.delivered.get(library_name) for library_name in LIBRARIES)
        return have_all_delivered and not self.lost and not self.without_leave


def judge(produced_records: set[tuple[int, int]], events: Sequence[Event]) -> Verdict:
    """Judge the lines that all members printed."""
    accepted_ns: dict[tuple[int, int], int] = {}
    for event in events:
        if event.kind == "acked":
            position = (event.partition, event.offset)
            accepted_ns[position] = min(event.at_ns, accepted_ns.get(position, event.at_ns))
    deliveries = [event for event in events if event.kind == "got"]
    positions = [(event.partition, event.offset) for event in deliveries]
    return Verdict(
        produced=len(produced_records),
        delivered=dict(Counter(event.library for event in deliveries)),
        again=len(positions) - len(set(positions)),
        failed=dict(Counter(event.library for event in events if event.kind == "failed")),
        lost=sorted(produced_records - set(accepted_ns)),
        without_leave=sorted(
            position
            for event, position in zip(deliveries, positions, strict=True)
            if position in accepted_ns and event.at_ns > accepted_ns[position]
        ),
    )


class Members:
    """One process for each library."""

    def __init__(self, bootstrap: str) -> None:
        self.events: list[Event] = []
        self.errors: Counter[str] = Counter()
        commands = {
            "java": share_program("ShareWorker"),
            "librdkafka": [sys.executable, "-m", "tests.clients.share.worker"],
            "franz-go": [str(go_program("share"))],
        }
        self._processes = {
            command_name: subprocess.Popen(
                [*command, bootstrap, GROUP, TOPIC],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for command_name, command in commands.items()
        }
        self._readers = [
            threading.Thread(target=self._read, args=(process_name, process))
            for process_name, process in self._processes.items()
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for printed_line in process.stdout:
            at_ns, kind, *fields = printed_line.split()
            if kind in ("got", "acked"):
                self.events.append(Event(int(at_ns), name, kind, int(fields[0]), int(fields[1])))
            elif kind == "failed":
                self.events.append(Event(int(at_ns), name, kind, int(fields[0]), -1))
            else:
                self.errors[name] += 1

    def accepted_records(self) -> set[tuple[int, int]]:
        """Records whose acceptance a broker has confirmed."""
        events = tuple(self.events)
        return {(event.partition, event.offset) for event in events if event.kind == "acked"}

    def stop(self) -> None:
        """Stop each member's process."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
        for reader in self._readers:
            reader.join()


class Feed:
    """Produces numbered records, and keeps their partitions and offsets."""

    def __init__(self, bootstrap: str) -> None:
        self.produced: set[tuple[int, int]] = set()
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        number = 0

        def note_delivery(error: object, message: object) -> None:
            assert error is None, error
            self.produced.add((message.partition(), message.offset()))  # type: ignore[attr-defined]

        while not self._over.is_set():
            value = str(number).encode()
            self._producer.produce(
                TOPIC, value, partition=number % PARTITIONS, on_delivery=note_delivery
            )
            self._producer.poll(0)
            number += 1
            time.sleep(1 / PER_SECOND)
        assert self._producer.flush(120) == 0

    def stop(self) -> None:
        """Stop producing; all records are at the acknowledged offsets."""
        self._over.set()
        self._thread.join()


def strike(control: ControlPort, target: tuple[str, str], random_source: random.Random) -> str:
    """Kill a leader's broker and start it again, or hand a partition to another broker."""
    action_name, topic = target
    partition = random_source.choice(
        [candidate for candidate in control.partitions() if candidate.topic == topic]
    )
    name = f"{partition.topic}-{partition.partition}"
    if action_name == "kill":
        control.kill(partition.leader)
        time.sleep(PAUSE_S)
        control.start(partition.leader)
        return f"killed broker {partition.leader}, which led {name}"
    candidates = [broker for broker in partition.isr if broker != partition.leader]
    if not candidates:
        return f"{name} has no other replica in sync"
    successor = random_source.choice(candidates)
    control.move_leader(partition.topic, partition.partition, successor)
    return f"moved {name} from {partition.leader} to {successor}"


@contextmanager
def cluster() -> Iterator[tuple[TxnsimServer, ControlPort]]:
    """Three brokers, the topic, and the group's configs."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        config = Path(directory) / "cluster.yaml"
        config.write_text(_SETTINGS)
        server = stack.enter_context(
            TxnsimServer(
                brokers=len(BROKERS),
                launcher=(sys.executable, "-m", "txnsim"),
                arguments=("--http", "0", "--config", str(config)),
            )
        )
        control = ControlPort(server.http or "")
        control.create_topic(TOPIC, PARTITIONS, {})
        configure(server.bootstrap)
        yield server, control


def configure(bootstrap: str) -> None:
    """The group reads from the beginning."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    entry = ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for outcome_future in admin.incremental_alter_configs([resource]).values():
        outcome_future.result()


def play(strike_count: int, seed: int) -> Verdict:
    """Play the whole story, and print each strike."""
    random_source = random.Random(seed)
    with cluster() as (server, control), ExitStack() as stack:
        members = Members(server.bootstrap)
        stack.callback(members.stop)
        feed = Feed(server.bootstrap)
        stack.callback(feed.stop)
        time.sleep(2 * PAUSE_S)
        for nth in range(strike_count):
            try:
                description = strike(
                    control, STRIKE_TARGETS[nth % len(STRIKE_TARGETS)], random_source
                )
            except ControlError as error:
                description = f"refused: {error}"
            print(
                f"strike {nth + 1}: {description}; accepted {len(members.accepted_records())}",
                flush=True,
            )
            time.sleep(PAUSE_S)
        feed.stop()
        deadline_s = time.monotonic() + DRAINED_WITHIN_S
        while feed.produced - members.accepted_records() and time.monotonic() < deadline_s:
            time.sleep(0.5)
        time.sleep(6)  # a lock runs out: what was not acknowledged would come again
    return judge(feed.produced, members.events)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strikes", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    verdict = play(options.strikes, options.seed)
    print(json.dumps(verdict._asdict()))
    checks = {
        "each library had its part": all(
            verdict.delivered.get(library_name) for library_name in LIBRARIES
        ),
        "no record is lost": not verdict.lost,
        "none came again after it was accepted": not verdict.without_leave,
    }
    for check_name, is_good in checks.items():
        print("PASS" if is_good else "FAIL", check_name)
    failed_count = list(checks.values()).count(False)
    print(f"{len(checks) - failed_count} passed, {failed_count} failed")
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
