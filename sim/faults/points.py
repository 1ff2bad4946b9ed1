"""Every place where a fault can strike, by name.

The struck code asks "may this go on?" at its point and knows nothing of faults; plans
(``faults.plan``) name points. A crossing's ``source`` and ``target`` are always those of the
request, at a response point too.
"""

from __future__ import annotations

from enum import StrEnum


class FaultPoint(StrEnum):
    """A named point that requests and responses cross; its docstring says what each action means
    there.
    """

    CLIENT_REQUEST = "client.request"
    """A client's request has been read from its connection and decoded, and is about to be handled.

    Held, it belongs to the broker: closing the connection does not take it back. Dropped, it is
    never handled or answered. With an error, it is answered with that error without being handled.
    """

    CLIENT_RESPONSE = "client.response"
    """A client's request has been handled, its answer is about to be written to the connection.

    Held, later answers of that connection wait too, as answers are in request order. Dropped, the
    client never hears. With an error, the request took effect but the client is told the error.
    """

    PEER_REQUEST = "peer.request"
    """A request between brokers is about to reach its target.

    Held or delayed, it alone waits, others on the link pass it. Dropped, the sender times out. With
    an error, the sender gets that error and the target never saw the request.
    """

    PEER_RESPONSE = "peer.response"
    """The answer to a request between brokers is about to reach the sender: the target has acted
    already.

    Dropped, the sender times out; with an error, it is told the error instead of the true answer.
    """

    COORDINATOR_LOAD = "coordinator.load"
    """A broker has become the leader of a partition of ``__transaction_state`` and is about to read
    it.

    Held or delayed, its transactional ids are answered COORDINATOR_LOAD_IN_PROGRESS meanwhile.
    Dropped, the load never ends: only another leader helps. With an error, the log can't be read
    and, as in Kafka, the coordinator goes on with what it has read so far: nothing.
    """
