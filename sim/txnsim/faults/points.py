"""The fault points, by name.

The code at a point asks "may this go on?" and knows nothing of faults; rules name points. A
crossing's ``source`` and ``target`` are always those of the request, at a response point too; at a
point inside a broker both are that broker.

``faults.meanings`` says which actions a point allows, docs/fault-actions.md what each does there.
"""

from __future__ import annotations

from enum import StrEnum


class FaultPoint(StrEnum):
    """A named point that requests, responses and steps of a broker cross."""

    CONNECTION_OPEN = "connection.open"
    """A client has connected to a broker, nothing of it has been read. Its client is not known yet:
    only ``broker`` can be asked for.
    """

    CLIENT_REQUEST = "client.request"
    """A client's request has been read from its connection and decoded, and is about to be handled.
    """

    CLIENT_RESPONSE = "client.response"
    """A client's request has been handled, its answer is about to be written to the connection."""

    PEER_REQUEST = "peer.request"
    """A request between brokers is about to reach its target."""

    PEER_RESPONSE = "peer.response"
    """The answer to a request between brokers is about to reach the sender: the target has acted
    already.
    """

    COORDINATOR_LOAD = "coordinator.load"
    """A broker has become the leader of a partition of ``__transaction_state`` and is about to read
    it.
    """

    COORDINATOR_UNLOAD = "coordinator.unload"
    """A broker has learnt that it leads a partition of ``__transaction_state`` or
    ``__consumer_offsets`` no more, and is about to drop the entries that it has from there.
    """

    LOG_APPEND = "log.append"
    """A replica is about to append a batch: as leader or as follower (``role``), data, a marker or
    a record of a coordinator (``kind``), also where the coordinator writes by itself, as members
    are lost or positions expire.
    """

    LOG_READ = "log.read"
    """A Fetch has looked at the log (its end, its last stable offset) and is about to read
    batches: what happens in between is seen by one half of its answer only.
    """

    LOG_FLUSH = "log.flush"
    """A replica is about to flush its log, as a segment has ended."""

    LOG_INDEX = "log.index"
    """Something that is derived from a log is about to be noted: an aborted range in the
    transaction index, or a snapshot of its producers (``kind``).
    """

    GROUP_COMPLETION = "group.completion"
    """A group coordinator is about to materialise or drop the positions of a transaction that has
    ended (``committed`` says which).
    """

    SHARE_PERSIST = "share.persist"
    """The leader of a share partition is about to ask its share coordinator: for its state, or to
    keep what members said of records (``kind``).
    """

    METADATA_APPLY = "metadata.apply"
    """A broker has received a metadata image and is about to take up its leaderships."""

    CLOCK_TIMER = "clock.timer"
    """A periodic scan of a coordinator or of a broker's logs is about to run (``kind``)."""

    PROCESS_START = "process.start"
    """A broker is about to start: nothing of it is registered or listens yet."""

    PROCESS_STOP = "process.stop"
    """A broker has been asked to stop and is about to do so: it still leads what it leads."""

    NOW = "now"
    """No point but a moment: an action on the cluster runs once, as soon as its rule is armed."""

    @classmethod
    def of_clients(cls) -> tuple[FaultPoint, FaultPoint]:
        """The points of clients' requests and of the answers to them."""
        return cls.CLIENT_REQUEST, cls.CLIENT_RESPONSE

    @classmethod
    def of_peers(cls) -> tuple[FaultPoint, FaultPoint]:
        """The points of requests between brokers and of the answers to them."""
        return cls.PEER_REQUEST, cls.PEER_RESPONSE
