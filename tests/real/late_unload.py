"""A commit waits at a group coordinator that is unloaded late (KAFKA-20634), on real brokers.

::

    python -m tests.real.late_unload 4.0.2 4.1.2 4.2.1 4.2.2 4.3.0 4.3.1 4.4.0

Two brokers have the one partition of ``__consumer_offsets``. Threads stand still by Java's
debugger, as they do where a machine has no time for them. All else is a client's request:

1. Broker 1 leads. The thread by which broker 2 fetches stands still. A position is committed:
   broker 1 has written it and waits for broker 2.
2. The threads of broker 1's group coordinator stand still. Broker 2 is elected; it has no such
   record.
3. Another group commits twice there. Broker 1 follows: it cuts its record off, and its high
   watermark passes the place where that was.
4. Broker 1's threads go on. What is the first commit answered, and does broker 2 know the position?

Exit status: 0 each came to what is known of its release, 1 one did not. It needs a JDK 17 and
Maven.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from tests.support.apache_kafka import POM, ApacheKafka, ApacheKafkaError, tool
from tests.support.lifetime import ManagedResource
from txnsim.client.raw.connection import RawConnection
from txnsim.errors import ErrorCode
from txnsim_lab.conformance._book.frame_player import API_KEYS, FramePlayer

HOLDER: Final = POM.with_name("threads") / "ThreadHolder.java"
JVM_OPTION: Final = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0"
"""The option of a JVM whose threads can be suspended."""


class Threads(ManagedResource):
    """The threads of one JVM, as a context manager. At its end all threads resume.

    Args:
        pid: Of the JVM; a process of this user that was started with ``JVM_OPTION``.
    """

    def __init__(self, process_id: int) -> None:
        java = tool("java", "threads of a broker are held by a JDK 17")
        self._process = subprocess.Popen(
            [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", str(HOLDER), str(process_id)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _on_exit(self, exc: BaseException | None) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()  # it ends with its lines

    def hold(self, name: str) -> None:
        """Suspend all threads whose names begin with ``name``.

        Raises:
            ApacheKafkaError: There are none.
        """
        self._send_verb("hold", name)

    def release(self, name: str) -> None:
        """Resume these threads.

        Raises:
            ApacheKafkaError: There are none.
        """
        self._send_verb("release", name)

    def _send_verb(self, verb: str, name: str) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{verb} {name}\n")
        stdin.flush()
        count_text = stdout.readline().strip()
        if count_text in ("", "0"):
            raise ApacheKafkaError(f"{verb} {name}: there is no such thread")


TOPIC: Final = "positions"
POSITIONS: Final = "__consumer_offsets"
FETCHER: Final = "ReplicaFetcherThread"
COORDINATOR: Final = "group-coordinator-event-processor"
PLENTY_MS: Final = "120000"
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    # Neither may end while threads stand still.
    "offsets.commit.timeout.ms": PLENTY_MS,
    "replica.lag.time.max.ms": PLENTY_MS,
    "auto.leader.rebalance.enable": "false",
}


class UnloadOutcome(msgspec.Struct, frozen=True):
    """The client's answer, and the group's position afterwards."""

    answer: ErrorCode
    position: int
    """The group's committed offset at the new coordinator; -1 if there is none."""


LOST: Final = UnloadOutcome(ErrorCode.none, -1)
REFUSED: Final = UnloadOutcome(ErrorCode.not_coordinator, -1)
KNOWN: Final[Mapping[str, UnloadOutcome]] = MappingProxyType(
    {
        **dict.fromkeys(("4.0.2", "4.1.2", "4.2.1", "4.3.0"), LOST),
        **dict.fromkeys(("4.2.2", "4.3.1", "4.4.0"), REFUSED),
    }
)


def play(version: str) -> UnloadOutcome:
    """Play the story on two brokers of a release.

    Raises:
        AssertionError: It did not come to its end.
    """
    options = ("-Xmx512m", "-XX:TieredStopAtLevel=1", JVM_OPTION)
    with (
        ApacheKafka(
            brokers=2, version=version, properties=PROPERTIES, jvm_options=options
        ) as kafka,
        _players(kafka.bootstrap) as (first_player, second_player),
        Threads(kafka.pids[0]) as threads,
        Threads(kafka.pids[1]) as follower_threads,
        RawConnection(kafka.bootstrap.split(",")[0], answer_timeout_s=60) as client,
    ):
        # Led by broker 1 to the end, or broker 2 would wait for the end of an idle fetcher.
        _make_topic(first_player)
        _lead(1, first_player, second_player)
        _commit_until_accepted(first_player, "before")
        size_bytes = _size(first_player)
        follower_threads.hold(FETCHER)
        client.send(API_KEYS["OffsetCommit"], 8, **_commit("waits", 7))
        first_player.ask_until(lambda _: _size(first_player) > size_bytes, "ApiVersions", 0)
        threads.hold(COORDINATOR)
        _lead(2, first_player, second_player)
        follower_threads.release(FETCHER)
        _commit_until_accepted(second_player, "after")
        # The high watermark of the first one travels with the second commit.
        _commit_until_accepted(second_player, "after")
        threads.release(COORDINATOR)
        answer = client.receive(API_KEYS["OffsetCommit"], 8)
        return UnloadOutcome(_code(answer), _position(second_player, "waits"))


@contextlib.contextmanager
def _players(bootstrap: str) -> Iterator[Sequence[FramePlayer]]:
    with contextlib.ExitStack() as open_ones:
        players = [
            FramePlayer(address, play_prefix="late", level=2) for address in bootstrap.split(",")
        ]
        for player in players:
            open_ones.callback(player.close)
        yield players


def _make_topic(player: FramePlayer) -> None:
    assignment = {"partition_index": 0, "broker_ids": [1, 2]}
    topic = {
        "name": TOPIC,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [assignment],
    }
    player.ask_unrecorded("CreateTopics", 7, timeout=30_000, topics=[topic])
    _await_leader(player, TOPIC, 1)
    player.ask_until(
        lambda answer: answer.error_code is ErrorCode.none,
        *("FindCoordinator", 1),
        key="before",
        key_type=0,
    )


def _lead(broker: int, *players: FramePlayer) -> None:
    """Let a broker lead the partition of positions, and wait until both know."""
    partition = {"partition_index": 0, "replicas": [broker, 3 - broker]}
    topics = [{"name": POSITIONS, "partitions": [partition]}]
    operator_player = players[0]
    operator_player.ask_unrecorded("AlterPartitionReassignments", 0, timeout=30_000, topics=topics)
    for player in players:
        moved_partition = {"topic": POSITIONS, "partitions": [0]}
        operator_player.ask_unrecorded(
            *("ElectLeaders", 2),
            timeout=30_000,
            election_type=0,
            topic_partitions=[moved_partition],
        )
        _await_leader(player, POSITIONS, broker)


def _await_leader(player: FramePlayer, topic: str, broker: int) -> None:
    def is_so(answer: Any) -> bool:
        partitions = answer.topics[0].partitions
        return bool(partitions) and partitions[0].leader_id == broker

    player.ask_until(is_so, "Metadata", 8, topics=[{"name": topic}])


def _size(player: FramePlayer) -> int:
    """Size in bytes of the partition's log on the player's broker."""
    topics = [{"topic": POSITIONS, "partitions": [0]}]
    (directory,) = player.ask_unrecorded("DescribeLogDirs", 1, topics=topics).results
    return int(directory.topics[0].partitions[0].partition_size)


def _commit(group: str, position: int) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": position,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


def _commit_until_accepted(player: FramePlayer, group: str) -> None:
    """Repeat an offset commit until the broker is the coordinator."""
    no_error = ErrorCode.none
    player.ask_until(
        lambda answer: _code(answer) is no_error, "OffsetCommit", 8, **_commit(group, 1)
    )


def _code(answer: Any) -> ErrorCode:
    code = answer.topics[0].partitions[0].error_code
    assert isinstance(code, ErrorCode)
    return code


def _position(player: FramePlayer, group: str) -> int:
    topics = [{"name": TOPIC, "partition_indexes": [0]}]
    answer = player.ask_unrecorded("OffsetFetch", 7, group_id=group, topics=topics)
    return int(answer.topics[0].partitions[0].committed_offset)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the story on each release that is named."""
    failed_count = 0
    for version in arguments or sys.argv[1:] or KNOWN:
        outcome = play(version)
        expected_outcome = KNOWN.get(version)
        failed_count += outcome != expected_outcome
        print(f"{version}: {outcome.answer.name}, position {outcome.position}", flush=True)
        if outcome != expected_outcome:
            print(f"  not what is known of it: {expected_outcome}", flush=True)
    return 1 if failed_count else 0


if __name__ == "__main__":
    sys.exit(main())
