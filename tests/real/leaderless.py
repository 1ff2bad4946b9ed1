"""A stock Java client commits while a partition has no leader (KAFKA-20734), on Kafka and here.

Nothing stands between clients and brokers. Broker 2 gets ``kill -9`` and is started again::

    python -m tests.real.leaderless kafka-4.2.2 kafka-4.3.1 kafka-4.4.0
    python -m tests.real.leaderless txnsim-4.2 txnsim-4.3 txnsim-4.4

What is printed stands in docs/commit-without-a-leader.md. Exit status: 0 each came to what is known
of its release, 1 one did not. It needs a JDK 17 and Maven.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.support.apache_kafka import ApacheKafka
from tests.support.foreign_clients import java_program
from tests.support.txnsim_server import TxnsimServer

CLUSTER_NAMES: Final = (
    *("kafka-4.2.2", "kafka-4.3.1", "kafka-4.4.0"),
    *("txnsim-4.2", "txnsim-4.3", "txnsim-4.4"),
)
HANGING_LINES: Final = ("4.3", "4.4")
"""Release lines in which a partition without a leader is taken for a deleted one."""
_ALONE: Final = {
    **{f"{name}.replication.factor": "1" for name in ("offsets.topic", "transaction.state.log")},
    "transaction.state.log.min.isr": "1",
}
"""Internal topics need no second broker."""

Event = dict[str, Any]


class Hands(NamedTuple):
    """Functions that kill and start brokers of a cluster."""

    bootstrap: str
    kill: Callable[[int], object]
    start: Callable[[int], object]


class StoryError(Exception):
    """The client could not play; the message carries what it printed."""


def play(target: str, *, say: Callable[[str], object]) -> list[Event]:
    """Let the client play on brokers of their own.

    Args:
        target: ``kafka-`` and a release, or ``txnsim-`` and a release line.
        say: Gets each line that the client prints.

    Raises:
        StoryError: It did not come to its end.
    """
    with _cluster(target) as hands:
        command = [*java_program("CommitWithoutALeader"), hands.bootstrap]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as client:  # type: ignore[call-overload]
            assert client.stdin is not None
            assert client.stdout is not None
            assert client.stderr is not None
            events: list[Event] = []
            for printed_line in client.stdout:
                say(printed_line.rstrip())
                events.append(json.loads(printed_line))
                match events[-1].get("do"):
                    case "kill-2":
                        hands.kill(2)
                    case "start-2":
                        hands.start(2)
                    case _:
                        continue
                with contextlib.suppress(BrokenPipeError):  # it has given up, and says why
                    os.write(client.stdin.fileno(), b"done\n")
            complaints = client.stderr.read()
        if client.returncode != 0:
            raise StoryError(f"{target}: exit status {client.returncode}:\n{events}\n{complaints}")
        return events


def expected_events(target: str) -> list[Event]:
    """The events that the client sees on a cluster, without its requests and without times."""
    hanging_line = ".".join(target.partition("-")[2].split(".")[:2])
    is_hanging = hanging_line in HANGING_LINES
    return [
        {"event": "produced", "t-0": 0, "u-0": 0},
        {"event": "committed"},
        {"event": "coordinator", "state": "CompleteCommit" if is_hanging else "PrepareCommit"},
        {"event": "coordinator", "state": "CompleteCommit"},
        _partition(
            "t-0", read_committed=0 if is_hanging else 1, open_since_ms=0 if is_hanging else None
        ),
        _partition("u-0", read_committed=1, open_since_ms=None),
    ]


def _partition(name: str, *, read_committed: int, open_since_ms: int | None) -> Event:
    return {
        "event": name,
        "read_committed": read_committed,
        "read_uncommitted": 1,
        "open_since": open_since_ms,
    }


def comparable_events(events: Sequence[Event]) -> list[Event]:
    """Events in the form of ``expected_events``."""
    observed_events = (event for event in events if event["event"] != "please")
    return [
        {key: value for key, value in event.items() if key != "after_ms"}
        for event in observed_events
    ]


@contextlib.contextmanager
def _cluster(target: str) -> Iterator[Hands]:
    kind, _, release = target.partition("-")
    if kind == "kafka":
        options = ("-Xmx512m", "-XX:TieredStopAtLevel=1")  # they live for a minute
        with ApacheKafka(
            brokers=2, version=release, properties=_ALONE, jvm_options=options
        ) as kafka:
            yield Hands(kafka.bootstrap, kafka.kill, kafka.start_again)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.writelines(f"{name}={value}\n" for name, value in _ALONE.items())
        file.flush()
        arguments = ("--as-version", release, "--http", "0", "--config", file.name)
        with TxnsimServer(brokers=2, arguments=arguments) as server:
            brokers = f"{server.http}/api/v1/brokers"
            yield Hands(
                server.bootstrap,
                lambda broker: _post(f"{brokers}/{broker}/kill"),
                lambda broker: _post(f"{brokers}/{broker}/start"),
            )


def _post(address: str) -> Mapping[str, Any]:
    request = urllib.request.Request(address, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.load(answer))


def main(arguments: Sequence[str] | None = None) -> int:
    failed_count = 0
    for target in arguments or sys.argv[1:] or CLUSTER_NAMES:
        print(f"{target}:", flush=True)
        events = comparable_events(play(target, say=lambda line: print(f"  {line}", flush=True)))
        if events != expected_events(target):
            failed_count += 1
            print(f"  not what is known of it: {expected_events(target)}", flush=True)
    return 1 if failed_count else 0


if __name__ == "__main__":
    sys.exit(main())
