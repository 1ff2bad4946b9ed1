"""Trace events of a connection's requests and answers, and their summaries.

An answer is traced if it has an error, or if it answers EndTxn: the application learns from it how
its transaction ended. Other answers are traced only at ``full``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from txnsim.api.request import Handler, Request
from txnsim.faults.subjects import Subject
from txnsim.runtime.trace import NO_CAUSE
from txnsim.server._request_log import outcome
from txnsim.text import host_and_port
from txnsim.types import uuid_text
from txnsim.wire.apis import END_TXN, FETCHES, api_name

if TYPE_CHECKING:
    from txnsim.runtime.trace import LaterPayload, Tracer

PAGE: Final = "page"
"""Client id of the control port's own requests. They are not part of the story, so the brief level
leaves them out; markers that it writes are traced.
"""
_WRITE_TXN_MARKERS: Final = 27
SUMMARY_PARTITIONS_MAX: Final = 8
"""Greatest number of partitions in a summary, which is one line; of more partitions it has the
number.
"""


class RequestTrace:
    """Traces the requests of one connection, one after the other."""

    __slots__ = (
        "_causes",
        "_client_id",
        "_errors",
        "_is_ours",
        "_line",
        "_node",
        "_peer",
        "_receipt_event",
        "_request",
        "_tracer",
        "_tx",
    )

    def __init__(self, tracer: Tracer, *, node: str, client_address: str) -> None:
        """Start without a request.

        Args:
            tracer: Records the events.
            node: The node name of the broker.
            client_address: The client's address; with a correlation id it identifies messages of
                clients in
                this process, whose sending is traced.
        """
        self._tracer = tracer
        self._node = node
        self._line = client_address
        self._request: Request | None = None
        self._client_id: str | None = None
        self._peer = "client/"
        self._receipt_event = -1
        self._is_ours = False
        self._tx = ""
        self._causes: tuple[int, ...] | None = None
        """Causes of the answer that is about to be sent; None if it is not traced."""
        self._errors = ""

    def trace_receipt(self, request: Request, handler: Handler, request_bytes: int) -> int:
        """Trace a received request; returns the event that causes its handling."""
        tracer = self._tracer
        self._request = request
        is_new = self._peer == "client/" or request.client_id != self._client_id
        if is_new:
            self._client_id = request.client_id
            self._peer = f"client/{request.client_id or ''}"
        self._causes = None
        self._tx = ""
        api_key, api_version, correlation_id = (
            request.api_key,
            request.api_version,
            request.correlation_id,
        )
        later_payload: LaterPayload | dict[str, object] = (
            _request_fields,
            api_key,
            api_version,
            correlation_id,
            self._peer,
            request.link.client_instance_id,
        )
        if tracer.full:  # not at brief, which has a budget: later events name the transaction
            subject = handler.subject(request)
            self._tx = tx_of(subject, request.message)
            later_payload = _request_fields(
                api_key,
                api_version,
                correlation_id,
                self._peer,
                request.link.client_instance_id,
            )
            later_payload["bytes"] = request_bytes
            later_payload["summary"] = summary_of(subject)
        # The cause of a request is its sending by the client, not what let it be handled now.
        sent_event = tracer.take((self._line, correlation_id, False)) if tracer.mail else NO_CAUSE
        self._is_ours = sent_event >= 0
        if is_new and not self._is_ours:
            tracer.node_index(self._peer)  # a client of another process: its request is a root
        is_page_query = self._client_id == PAGE and api_key != _WRITE_TXN_MARKERS
        self._receipt_event = tracer.emit(
            "msg.recv",
            self._node,
            parents=(sent_event,),
            tx=self._tx,
            data=later_payload,
            importance=0 if is_page_query else None,
        )
        return self._receipt_event

    def trace_handled(self, request: Request, reply: Any) -> None:
        """Note the reply of the handler, and the events that caused it."""
        tracer, receipt_event = self._tracer, self._receipt_event
        outcome_fields = outcome(request, reply)
        if (
            not outcome_fields
            and not self._is_ours
            and request.api_key != END_TXN
            and not tracer.full
        ):
            return  # at brief, other answers to clients of other processes need an error
        if "answer" in outcome_fields:
            return
        self._errors = ",".join(outcome_fields.get("errors", ()))
        # A Fetch that waited for new records has their append as its main cause.
        waking_event = (
            tracer.waker if request.api_key in FETCHES and tracer.waker > receipt_event else -1
        )
        self._causes = (waking_event, tracer.cause, receipt_event)

    def trace_answer(self, answer_bytes: int) -> None:
        causes, self._causes = self._causes, None
        request = self._request
        if causes is None or request is None:
            return
        tracer = self._tracer
        # A client of this process traces its answer itself; size is 0 on a closed connection.
        ends_transaction = request.api_key == END_TXN and not self._is_ours and answer_bytes > 0
        if tracer.full or self._errors or ends_transaction:
            api_key, api_version, correlation_id = (
                request.api_key,
                request.api_version,
                request.correlation_id,
            )
            payload = {
                **_request_fields(
                    api_key,
                    api_version,
                    correlation_id,
                    self._peer,
                    request.link.client_instance_id,
                ),
                "response": True,
            }
            if self._errors:
                payload["error"] = self._errors
            if tracer.full:
                payload["bytes"] = answer_bytes
            importance = None if self._errors or ends_transaction else 0
            answer_event = tracer.emit(
                "msg.send",
                self._node,
                parents=causes,
                tx=self._tx,
                data=payload,
                importance=importance,
            )
        else:
            answer_event = tracer.cause_of(causes)
        if self._is_ours:
            tracer.post((self._line, request.correlation_id, True), answer_event)


def _request_fields(
    api_key: int,
    api_version: int,
    correlation_id: int,
    peer: str,
    client_instance_id: UUID | None,
) -> dict[str, object]:
    event_data: dict[str, object] = {
        "api": api_name(api_key),
        "version": api_version,
        "correlation": correlation_id,
        "peer": peer,
    }
    if client_instance_id is not None:
        event_data["instance"] = uuid_text(client_instance_id)
    return event_data


def summary_of(subject: Subject) -> str:
    """Summary in one line: transactional id, producer, commit or abort, partitions."""
    summary_parts = []
    if subject.transactional_id is not None:
        summary_parts.append(subject.transactional_id)
    if subject.producer_id is not None and subject.producer_id >= 0:
        summary_parts.append(f"producer {subject.producer_id}")
    if subject.committed is not None:
        summary_parts.append("commit" if subject.committed else "abort")
    partitions = subject.partitions
    summary_parts += map(str, partitions[:SUMMARY_PARTITIONS_MAX])
    if len(partitions) > SUMMARY_PARTITIONS_MAX:
        summary_parts.append(f"and {len(partitions) - SUMMARY_PARTITIONS_MAX} more")
    if subject.other_subjects:
        summary_parts.append(f"and {len(subject.other_subjects)} more like it")
    return " ".join(summary_parts)


def tx_of(subject: Subject, message: Any) -> str:
    """The name of the transaction in the trace, as far as the request has its parts."""
    transactional_id = subject.transactional_id
    if not transactional_id:
        return ""
    producer_id = subject.producer_id
    if producer_id is None:
        producer_id = getattr(message, "producer_id", -1)
    epoch = getattr(message, "producer_epoch", -1)
    return (
        f"{transactional_id}/{producer_id}:{epoch}"
        if producer_id >= 0 and epoch >= 0
        else transactional_id
    )


def trace_opened(tracer: Tracer, node: str, host: str, port: str) -> int:
    """Trace that a client has connected; returns the index of the event."""
    event_data = {"peer": _client_address(host, port)}
    return tracer.emit("conn.open", node, parents=(NO_CAUSE,), data=event_data)


def trace_closed(tracer: Tracer, node: str, host: str, port: str, opening_event: int) -> None:
    """Trace that a connection is closed, by the broker or the client. The event's only parent is
    the opening: no event of a request counts as its cause.
    """
    tracer.emit(
        "conn.close", node, parents=(opening_event,), data={"peer": _client_address(host, port)}
    )


def trace_refused(
    tracer: Tracer, node: str, host: str, port: str, opening_event: int, reason: str
) -> None:
    """Trace that a connection is closed for a request that can't be read; the client gets no
    answer.
    """
    event_data = {"peer": _client_address(host, port), "reason": reason}
    tracer.emit("conn.refuse", node, parents=(opening_event,), data=event_data)


def _client_address(host: str, port: str) -> str:
    """Host and port of a client; ``host`` is written as in Kafka, ``/127.0.0.1``."""
    return host_and_port(host.removeprefix("/"), port)
