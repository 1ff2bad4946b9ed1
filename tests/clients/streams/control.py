"""The control port of ``txnsim serve --http``, as far as the kills need it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

_ANSWER_WITHIN_S: Final = 120.0


class ControlError(Exception):
    """The control port refused; the message is what it said."""


class PartitionLeader(NamedTuple):
    """A partition and who leads it."""

    topic: str
    partition: int
    leader: int
    preferred: int
    isr: tuple[int, ...]


class PartitionBounds(NamedTuple):
    """The last stable offset and the high watermark of a partition's leader."""

    topic: str
    partition: int
    last_stable: int
    high_watermark: int


class ControlPort:
    """One server's control port.

    Args:
        address: As the server's ready file tells it.
    """

    def __init__(self, address: str) -> None:
        self._base = f"{address}/api/v1"

    # Faults

    def arm(self, rule: dict[str, object]) -> None:
        """Put a rule in force."""
        self._ask("POST", "faults", rule)

    def has_struck(self, rule_id: str, *, timeout_ms: int) -> bool:
        """Whether a rule has struck, within ``timeout_ms``."""
        try:
            self._ask("GET", f"faults/{rule_id}/wait?timeout_ms={timeout_ms}")
        except ControlError as error:
            if "408" in str(error):
                return False
            raise
        return True

    def rule(self, rule_id: str) -> dict[str, Any]:
        state: dict[str, Any] = self._ask("GET", f"faults/{rule_id}")
        return state

    def find_struck(self, rule_ids: Iterable[str]) -> str | None:
        """One of these rules that has struck; None where none has."""
        ids = set(rule_ids)
        for state in self._ask("GET", "faults"):
            if state["struck"] and state["rule"]["id"] in ids:
                return str(state["rule"]["id"])
        return None

    def release(self, rule_id: str) -> int:
        """Let go what a rule holds; how many there were."""
        return int(self._ask("POST", f"faults/{rule_id}/release")["released"])

    def disarm(self, rule_id: str) -> None:
        self._ask("DELETE", f"faults/{rule_id}")

    def disarm_all(self) -> None:
        for state in self._ask("GET", "faults"):
            self.disarm(state["rule"]["id"])

    # Brokers and leaders

    def kill(self, broker: int, *, lose_unflushed: bool = False) -> None:
        """End a broker at once."""
        self._ask("POST", f"brokers/{broker}/kill", {"lose_unflushed": lose_unflushed})

    def stop(self, broker: int) -> None:
        """End a broker by a controlled shutdown, and wait until it is down."""
        state = self._ask("POST", f"brokers/{broker}/stop?wait_ms=60000")["state"]
        if state != "down":
            raise ControlError(f"broker {broker} is {state} a minute after it was told to stop")

    def isolate(self, broker: int) -> None:
        """Cut a broker off from the others."""
        self._ask("POST", f"brokers/{broker}/isolate")

    def heal(self, broker: int) -> None:
        self._ask("POST", f"brokers/{broker}/heal")

    def start(self, broker: int) -> None:
        """Start a broker and wait until it serves clients."""
        state = self._ask("POST", f"brokers/{broker}/start?wait_ms=60000")["state"]
        if state != "running":
            raise ControlError(f"broker {broker} is {state} a minute after its start")

    def is_fenced(self, broker: int) -> bool:
        """Whether the controller takes a broker for dead."""
        return bool(self._ask("GET", f"brokers/{broker}")["fenced"])

    def partitions(self) -> list[PartitionLeader]:
        """Every partition of every topic."""
        return [
            PartitionLeader(
                topic["name"],
                partition["partition"],
                partition["leader"],
                partition["replicas"][0],
                tuple(partition["isr"]),
            )
            for topic in self._ask("GET", "topics")
            for partition in topic["partitions"]
        ]

    def leader(self, topic: str, partition: int) -> int:
        return next(
            partition_entry.leader
            for partition_entry in self.partitions()
            if partition_entry[:2] == (topic, partition)
        )

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        """Hand a partition to another replica in sync."""
        self._ask("POST", "leaders", {"topic": topic, "partition": partition, "leader": leader})

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic with as many replicas as there may be."""
        request = {"name": name, "partitions": partitions, "configs": configs}
        self._ask("POST", "topics", {**request, "replication_factor": 3})

    def ends(self) -> list[PartitionBounds]:
        """The leaders' bounds of every partition that has a leader."""
        bounds = []
        for topic_name in {topic_entry.topic for topic_entry in self.partitions()}:
            for partition in self._ask("GET", f"topics/{topic_name}")["partitions"]:
                bounds += [
                    PartitionBounds(
                        topic_name,
                        partition["partition"],
                        replica["last_stable_offset"],
                        replica["high_watermark"],
                    )
                    for replica in partition["replicas"]
                    if replica["broker"] == partition["leader"]
                ]
        return bounds

    # The clock

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self._ask("POST", "clock", {"advance_ms": by_ms})

    def set_clock(self, broker: int, by_ms: int) -> None:
        """Set one broker's clock ahead, or back."""
        self._ask("POST", "clock", {"set_by_ms": by_ms, "broker": broker})

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base}/{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_WITHIN_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            message = error.read().decode(errors="replace")
            raise ControlError(f"{method} {path}: {error.code} {message}") from error
