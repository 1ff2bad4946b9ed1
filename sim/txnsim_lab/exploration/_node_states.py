"""The state of each node of a run, as a digest, and of the whole as one number.

A node does nothing but answer what arrives. So its state follows from its arrivals in their order;
and that of a broker at rest (no request under way, no answer awaited) from what it holds. Two runs
whose nodes and messages have the same digests are in the same state, however they came there:
orders that commute count once (Mazurkiewicz traces), and so do those that lead to the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from txnsim.broker.broker import Broker
from txnsim.types import BrokerId
from txnsim_lab.exploration._contents import digest_of, digest_of_broker


class NodeStates:
    """The states of brokers and clients, by the names that crossings have (``broker/1``)."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._under_way: Counter[str] = Counter()
        """Node -> requests that it handles, and those whose answers it awaits."""

    def note_arrival(self, node: str, message_name: str, content: object) -> None:
        """A message has arrived at a node."""
        self._digests[node] = digest_of(self._digests.get(node, b""), message_name, content)

    def note_everywhere(self, event_name: str) -> None:
        """Something has happened to all nodes."""
        for node, digest in self._digests.items():
            self._digests[node] = digest_of(digest, event_name)

    def begin_work(self, node: str) -> None:
        """A node has a request to handle, or an answer to wait for."""
        self._under_way[node] += 1

    def end_work(self, node: str) -> None:
        """One of these has ended."""
        self._under_way[node] -= 1

    def fingerprint(self, brokers: Mapping[BrokerId, Broker], *further: object) -> int:
        """The whole state as a number of 64 bits, never 0.

        Args:
            brokers: The brokers that run.
            further: What belongs to the state besides: messages under way, the time.
        """
        for broker_id, broker in brokers.items():
            node = f"broker/{broker_id}"
            if self._under_way[node] <= 0 and not any(broker.groups.shards()):
                self._digests[node] = digest_of_broker(broker)
        return int.from_bytes(digest_of(self._digests, further), "big") or 1
