"""The state of each node of a run, as a digest, and of the whole as one number.

A node does nothing but answer what arrives. So a client's state follows from its arrivals in their
order; and a broker's from what it holds, the requests that it handles, in the order in which they
came, and those whose answers it awaits. Two runs whose nodes and messages have the same digests are
in the same state, however they came there: orders that commute count once (Mazurkiewicz traces),
and so do those that lead to the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from txnsim.broker.broker import Broker
from txnsim.types import BrokerId
from txnsim_lab.exploration._contents import digest_of, digest_of_broker, fingerprint_of

Conversation = tuple[str, int]
"""A request and its answer: the connection or link, and the correlation id."""


class _Work(msgspec.Struct, eq=False):
    """What a broker has to do."""

    digest_by_handled: dict[Conversation, bytes] = {}
    """The requests that it handles, in the order of their arrival: each with a digest."""
    digest_by_awaited: dict[Conversation, bytes] = {}
    """Its own requests whose answers have not arrived."""
    newest_state: object = None
    """When something arrived last."""


class NodeStates:
    """The states of brokers and clients, by the names that crossings have (``broker/1``)."""

    def __init__(self) -> None:
        self._digest_by_node: dict[str, bytes] = {}
        """Node -> what has arrived, in its order."""
        self._work: dict[str, _Work] = {}

    def note_arrival(self, node: str, message_name: str, content: object) -> None:
        """A message has arrived at a node."""
        self._digest_by_node[node] = digest_of(
            self._digest_by_node.get(node, b""), message_name, content
        )

    def note_at_clients(self, event_name: str) -> None:
        """Something has happened that clients notice without a message."""
        self._note(event_name, [node for node in self._digest_by_node if not _is_broker(node)])

    def note_at_brokers(self, event_name: str) -> None:
        """Something has happened to brokers."""
        self._note(event_name, [node for node in self._digest_by_node if _is_broker(node)])

    def _note(self, event_name: str, nodes: list[str]) -> None:
        for node in nodes:
            self._digest_by_node[node] = digest_of(self._digest_by_node[node], event_name)

    # The work of brokers

    def begin_handling(
        self,
        node: str,
        conversation: Conversation,
        message_name: str,
        content: object,
        state_now: object,
    ) -> None:
        """A request has arrived at a broker, which handles it from now on."""
        node_work = self._work_of(node)
        node_work.digest_by_handled[conversation] = digest_of(
            conversation[0], message_name, content, state_now
        )
        node_work.newest_state = state_now

    def end_handling(self, node: str, conversation: Conversation) -> None:
        """A broker has answered a request."""
        self._work_of(node).digest_by_handled.pop(conversation, None)

    def begin_awaiting(
        self, node: str, conversation: Conversation, message_name: str, content: object
    ) -> None:
        """A broker has sent a request, and awaits the answer."""
        self._work_of(node).digest_by_awaited[conversation] = digest_of(message_name, content)

    def end_awaiting(self, node: str, conversation: Conversation, state_now: object) -> None:
        """The answer has arrived."""
        node_work = self._work_of(node)
        node_work.digest_by_awaited.pop(conversation, None)
        node_work.newest_state = state_now

    def _work_of(self, node: str) -> _Work:
        return self._work.setdefault(node, _Work())

    def fingerprint(self, brokers: Mapping[BrokerId, Broker], *further_contents: object) -> int:
        """The whole state as a number of 64 bits, never 0.

        Args:
            brokers: The brokers that run. Of one that coordinates groups its arrivals count.
            further_contents: What belongs to the state besides: messages under way, the time.
        """
        digest_by_node: dict[str, object] = dict(self._digest_by_node)
        for broker_id, broker in brokers.items():
            if any(broker.groups.shards()):
                continue
            node = f"broker/{broker_id}"
            broker_digest, node_work = digest_of_broker(broker), self._work_of(node)
            if not node_work.digest_by_handled and not node_work.digest_by_awaited:
                digest_by_node[node] = self._digest_by_node[node] = broker_digest
            else:
                digest_by_node[node] = (
                    broker_digest,
                    [*node_work.digest_by_handled.values()],
                    sorted(node_work.digest_by_awaited.values()),
                    node_work.newest_state,
                )
        return fingerprint_of(digest_by_node, further_contents)


def _is_broker(node: str) -> bool:
    return node.startswith("broker/")
