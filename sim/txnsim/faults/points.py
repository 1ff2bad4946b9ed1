"""Every place where a fault can strike, by name.

The struck code asks "may this go on?" at its point and knows nothing of faults; plans
(``faults.plan``) name points. A crossing's ``source`` and ``target`` are always those of the
request, at a response point too; at a point inside a broker both are that broker.

Everywhere, ``pass`` only counts, ``hold`` waits for the release, ``delay`` for its time, and an
action on the cluster happens while the crossing waits for it. What else an action means at a point
is said there; what is not said has no meaning and is refused (``faults.meanings``).
"""

from __future__ import annotations

from enum import StrEnum


class FaultPoint(StrEnum):
    """A named point that requests, responses and steps of a broker cross; its docstring says what
    each action means there.
    """

    CONNECTION_OPEN = "connection.open"
    """A client has connected to a broker, nothing of it has been read. Its client is not known yet:
    only ``broker`` can be asked for.

    Held, nothing is read from it. Reordered, it waits for later connections. Dropped, it stays open
    and nothing of it is read. Disconnected, it is closed at once.
    """

    CLIENT_REQUEST = "client.request"
    """A client's request has been read from its connection and decoded, and is about to be handled.

    Held, it belongs to the broker: closing the connection does not take it back. Dropped, it is
    never handled or answered. With an error, it is answered with that error without being handled.
    With drop-answer, it is handled and never answered. Duplicated, it is handled again, and the
    second answer is thrown away. Reordered, it waits for requests of other connections: those of
    one connection are handled one at a time. Throttled, it is handled and its answer says so.
    Corrupted, what the broker reads is damaged. Disconnected, its connection breaks before it takes
    effect. Stalled, its connection stands still.
    """

    CLIENT_RESPONSE = "client.response"
    """A client's request has been handled, its answer is about to be written to the connection.

    Held, later answers of that connection wait too, as answers are in request order. Dropped, the
    client gets no answer. With an error, the request took effect but the client gets the error.
    Reordered, it waits for answers of other connections. Throttled, the answer says so and the
    connection is muted. Corrupted, what the client reads is damaged. Rewritten, a field of the
    answer has another value wherever it stands. Disconnected, the connection
    breaks and the client can't know that its request took effect. Stalled, its connection stands
    still. An answer can't be duplicated: a stream has one answer per request.
    """

    PEER_REQUEST = "peer.request"
    """A request between brokers is about to reach its target.

    Held, delayed or reordered, it alone waits, others on the link pass it. Dropped, the sender
    times out. With an error, the sender gets that error and the target never saw the request. With
    drop-answer, the target handles it and the sender times out. Duplicated, the target handles it
    again. Disconnected, all that is under way on the link fails, and what had not arrived never
    does. Stalled, the whole link stands still, answers included.
    """

    PEER_RESPONSE = "peer.response"
    """The answer to a request between brokers is about to reach the sender: the target has acted
    already.

    Held, delayed or reordered, it alone waits. Dropped, the sender times out; with an error, it
    gets the error instead of the true answer. Disconnected, all that is under way on the link
    fails. Stalled, the whole link stands still.
    """

    COORDINATOR_LOAD = "coordinator.load"
    """A broker has become the leader of a partition of ``__transaction_state`` and is about to read
    it.

    Held or delayed, its transactional ids are answered COORDINATOR_LOAD_IN_PROGRESS meanwhile.
    Dropped, the load never ends: only another leader helps. With an error, the log can't be read
    and, as in Kafka, the coordinator goes on with what it has read so far: nothing.
    """

    COORDINATOR_UNLOAD = "coordinator.unload"
    """A broker has learnt that it leads a partition of ``__transaction_state`` or
    ``__consumer_offsets`` no more, and is about to drop the entries that it has from there.

    Held or delayed, it goes on answering from what it remembers, as an old coordinator beside the
    new one, but can append nothing. Where it leads the partition again before the release, what
    it has loaded since stays.
    """

    LOG_APPEND = "log.append"
    """A replica is about to append a batch: as leader or as follower (``role``), data, a marker or
    a record of a coordinator (``kind``).

    Held or delayed, who appends stands still, as a thread of Kafka's would: the rest of its request
    waits, a follower fetches nothing from that leader, and other requests pass, also to the same
    partition. With an error, nothing is appended and the leader answers that error; a follower
    tries again. What a group coordinator writes by itself, as members are lost or positions expire,
    does not cross it.
    """

    LOG_READ = "log.read"
    """A Fetch has looked at the log (its end, its last stable offset) and is about to read
    batches: what happens in between is seen by one half of its answer only.

    Held or delayed, the Fetch waits with what it knows. With an error, the partition is answered
    with it.
    """

    LOG_FLUSH = "log.flush"
    """A replica is about to flush its log, as a segment has ended.

    Dropped, nothing is flushed: a crash that loses unflushed data loses more. With an error, the
    log directory goes offline.
    """

    LOG_INDEX = "log.index"
    """Something that is derived from a log is about to be noted: an aborted range in the
    transaction index, or a snapshot of its producers (``kind``).

    Dropped, it is not noted. Nothing can wait here.
    """

    GROUP_COMPLETION = "group.completion"
    """A group coordinator is about to materialise or drop the positions of a transaction that has
    ended (``committed`` says which).

    Held or delayed, the positions are pending meanwhile. Dropped, they stay so until the
    coordinator loads its log anew. With an error, the marker is answered with it and is sent again.
    """

    SHARE_PERSIST = "share.persist"
    """The leader of a share partition is about to ask its share coordinator: for its state, or to
    keep what members said of records (``kind``).

    Held or delayed, a share partition that is read gives no records meanwhile, and records whose
    move waits are neither acquired nor acknowledged. With an error, the share coordinator is not
    asked, and the error is its answer: the move is taken back, and the member gets an error.
    """

    METADATA_APPLY = "metadata.apply"
    """A broker has received a metadata image and is about to take up its leaderships.

    Held or delayed, it goes on with what it knew, and later images wait behind. Dropped, it learns
    of the change with the next image.
    """

    CLOCK_TIMER = "clock.timer"
    """A periodic scan of a coordinator or of a broker's logs is about to run (``kind``).

    Held or delayed, it runs later. Dropped, it is left out once.
    """

    PROCESS_START = "process.start"
    """A broker is about to start: nothing of it is registered or listens yet.

    Held or delayed, the start takes so much longer.
    """

    PROCESS_STOP = "process.stop"
    """A broker has been asked to stop and is about to do so: it still leads what it leads.

    Held or delayed, it goes on serving meanwhile.
    """

    NOW = "now"
    """No place but a moment: an action on the cluster happens as soon as its rule is armed, once.
    """

    @classmethod
    def of_clients(cls) -> tuple[FaultPoint, FaultPoint]:
        """Where requests of clients and their answers cross."""
        return cls.CLIENT_REQUEST, cls.CLIENT_RESPONSE

    @classmethod
    def of_peers(cls) -> tuple[FaultPoint, FaultPoint]:
        """The same between brokers."""
        return cls.PEER_REQUEST, cls.PEER_RESPONSE
