"""What applications asked and were answered, as a trace tells it, and where that contradicts what
became of their records.

An application knows the end of a transaction only by the answer to its request. A request is that
of the application's call, or of a foreign client's message; what it asked for is what it sent, not
the state that it met. Records that it had sent before it asked belong to that end. A lost answer
tells nothing: then, and where a producer begins anew, it is not known what it believes of the
records before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.story import transactional_id_of
from txnsim.verdict import words
from txnsim.verdict.facts import WrongData
from txnsim_lab.trace._faults_and_decisions import partition_of

ORIGINS_MAX: Final = 200_000
"""Events whose request is remembered."""
ENDS_MAX: Final = 50
"""Ends of an application that are remembered, for records that come late."""
_NO_ERROR: Final = "NONE"
_BEGINNING_COMMANDS: Final = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn"})
"""Commands of a client that belong to an open transaction."""


class SentRecords(msgspec.Struct, kw_only=True, eq=False):
    """A batch of a transaction, on a partition."""

    partition: str
    first_offset: int
    producer_id: int
    producer_epoch: int
    sent_at: int
    """Position of the request."""
    transactional_id: str
    expected: bool | None = None
    """Whether its application believes it committed; None if it does not know."""
    outcome: bool | None = None
    """Whether the marker behind it is a COMMIT; None before there is one."""
    marker_offset: int = -1


class ApplicationMove(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an application in its newest transaction."""

    at: int
    """Position in the trace."""
    text: str
    how: Literal["open", "unknown", "committed", "aborted"]
    """What it knows from then on."""


class ApplicationView(msgspec.Struct, frozen=True, kw_only=True):
    """What an application knows of its newest transaction."""

    status: str
    """In a few words."""
    sentence: str
    moves: tuple[ApplicationMove, ...]
    """What it did and was answered, as far as it is recorded, oldest first."""


class _NewestEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The newest end that was asked for, of a transactional id."""

    asked_at: int
    asked: str
    answer: str | None = None
    answered_at: int | None = None


class _Application(msgspec.Struct, kw_only=True, eq=False):
    """A client with a transactional id."""

    records: list[SentRecords] = []
    """Sent since the last end that was answered."""
    answered_request: int = -1
    """Position of the newest request whose answer was success."""
    open_request: int = -1
    """Position of a newer request without a successful answer; -1 for none."""
    abort_positions: list[int] = []
    """Positions of the newest requests that were answered with an abort, oldest first."""
    commit_positions: list[int] = []
    """Positions of the newest requests that were answered with a commit, oldest first."""

    def was_aborted(self, sent_at: int) -> bool:
        """Whether records that were sent at a position belong to a transaction that the
        application knows to be aborted.
        """
        next_abort_position = next(
            (abort_position for abort_position in self.abort_positions if abort_position > sent_at),
            None,
        )
        next_commit_position = next(
            (
                commit_position
                for commit_position in self.commit_positions
                if commit_position > sent_at
            ),
            None,
        )
        return next_abort_position is not None and (
            next_commit_position is None or next_abort_position < next_commit_position
        )


class Applications(msgspec.Struct, kw_only=True):
    """The applications of a trace; follows every event in order."""

    origin_by_event: dict[int, tuple[int, str]] = {}
    """Position of an event -> position and client of the request that caused it."""
    applications: dict[tuple[str, str], _Application] = {}
    """(client, transactional id) -> the application."""
    asked_end_by_request: dict[int, tuple[str, str, str]] = {}
    """Position of a request to end -> client, transactional id, ``commit`` or ``abort``."""
    newest_ends: dict[str, _NewestEnd] = {}
    """Transactional id -> the newest end that was asked for."""
    begin_positions: dict[str, int] = {}
    """Transactional id -> position of the first request of its application's newest transaction."""
    restarted_clients: set[str] = msgspec.field(default_factory=set)
    """Transactional ids of which a producer has begun anew since their newest transaction."""
    unended_records_by_producer: dict[tuple[str, int], list[SentRecords]] = {}
    """(partition, producer id) -> batches without a marker behind them."""
    contradiction_by_place: dict[tuple[str, int], WrongData] = {}
    """(partition, offset of a marker) -> the contradiction."""

    def follow(self, event: Event, node: str) -> None:
        """Apply the next event."""
        payload = event.d if isinstance(event.d, Mapping) else {}
        self._note_origin(event, node, payload)
        match event.k:
            case "txn.decide":
                self._follow_decision(event, payload)
            case "client.result":
                for position in event.p:
                    self._follow_answer(event.i, position, str(payload.get("error") or _NO_ERROR))
            case "msg.send" if payload.get("response"):
                for position in event.p:
                    if (
                        position in self.origin_by_event
                        and self.origin_by_event[position][0] == position
                    ):
                        self._follow_answer(
                            event.i, position, str(payload.get("error") or _NO_ERROR)
                        )
            case "log.append" if payload.get("txn") and not payload.get("control"):
                self._follow_append(event, payload)
            case "marker.written":
                self._follow_marker(payload)

    def view_of(self, transactional_id: str) -> ApplicationView | None:
        """What the application of a transactional id knows of its newest transaction; None if
        nothing is recorded of it.
        """
        begun_at, newest_end = (
            self.begin_positions.get(transactional_id),
            self.newest_ends.get(transactional_id),
        )
        if newest_end is not None and begun_at is not None and newest_end.asked_at < begun_at:
            newest_end = None
        if newest_end is None and begun_at is None:
            return None
        asked_end, answer = (
            (None, None) if newest_end is None else (newest_end.asked, newest_end.answer)
        )
        status = words.application_status(asked_end, answer)
        moves = []
        if begun_at is not None:
            status_of_open = words.application_status(None, None)
            moves.append(ApplicationMove(at=begun_at, text=status_of_open, how="open"))
        if newest_end is not None:
            is_answered = newest_end.answered_at is not None
            request = words.application_request(newest_end.asked) if is_answered else status
            moves.append(ApplicationMove(at=newest_end.asked_at, text=request, how="unknown"))
            if newest_end.answered_at is not None:
                end_outcome = _outcome_of(newest_end)
                moves.append(
                    ApplicationMove(at=newest_end.answered_at, text=status, how=end_outcome)
                )
        return ApplicationView(
            status=status,
            sentence=words.application_sentence(asked_end, answer),
            moves=tuple(moves),
        )

    def views(self) -> dict[str, ApplicationView]:
        """Transactional id -> what its application knows, of all of which something is recorded."""
        return {
            transactional_id: view
            for transactional_id in {**self.begin_positions, **self.newest_ends}
            if (view := self.view_of(transactional_id)) is not None
        }

    def wrong_data(self) -> Iterator[WrongData]:
        """The partitions whose data differs from what an application believes."""
        yield from self.contradiction_by_place.values()

    def forget(self, position: int) -> None:
        """Forget requests before a position, and all that is not settled."""
        for request in [request for request in self.asked_end_by_request if request < position]:
            del self.asked_end_by_request[request]
        for request_position in [
            request_position
            for request_position in self.origin_by_event
            if request_position < position
        ]:
            del self.origin_by_event[request_position]
        for application in self.applications.values():
            application.records = [
                records for records in application.records if records.sent_at >= position
            ]

    def forget_all(self) -> None:
        """Forget everything: the cluster is another one."""
        for table in (
            self.applications, self.asked_end_by_request, self.newest_ends,
            self.begin_positions, self.unended_records_by_producer, self.contradiction_by_place,
        ):  # fmt: skip
            table.clear()
        self.restarted_clients.clear()

    def forget_partition(self, partition: str) -> None:
        """Forget a partition that was deleted."""
        for key in [key for key in self.unended_records_by_producer if key[0] == partition]:
            del self.unended_records_by_producer[key]
        for partition_and_offset in [
            partition_and_offset
            for partition_and_offset in self.contradiction_by_place
            if partition_and_offset[0] == partition
        ]:
            del self.contradiction_by_place[partition_and_offset]
        for application in self.applications.values():
            application.records = [
                records for records in application.records if records.partition != partition
            ]

    # Requests and answers

    def _note_origin(self, event: Event, node: str, payload: Mapping[str, Any]) -> None:
        if event.k == "client.call":
            self.origin_by_event[event.i] = event.i, node
        elif event.p and event.p[0] in self.origin_by_event:
            self.origin_by_event[event.i] = self.origin_by_event[event.p[0]]
        elif event.k == "msg.recv" and not payload.get("response"):
            peer = str(payload.get("peer", ""))
            if peer.startswith("client/"):
                self.origin_by_event[event.i] = event.i, peer
        if len(self.origin_by_event) > ORIGINS_MAX:
            del self.origin_by_event[next(iter(self.origin_by_event))]

    def _application_of(self, client: str, transactional_id: str) -> _Application:
        return self.applications.setdefault((client, transactional_id), _Application())

    def _follow_decision(self, event: Event, payload: Mapping[str, Any]) -> None:
        origin = self.origin_by_event.get(event.i)
        if origin is None:
            return  # no client asked: a timeout did it
        request, client = origin
        transactional_id = transactional_id_of(event.tx)
        application = self._application_of(client, transactional_id)
        if payload.get("command") == "InitProducerId" and "error" not in payload:
            application.records.clear()
            self.restarted_clients.add(transactional_id)
            return
        if payload.get("command") in _BEGINNING_COMMANDS and "error" not in payload:
            self._note_begin(transactional_id, request)
        asked_end = payload.get("asked")
        if asked_end is None or request <= application.answered_request:
            return
        self.asked_end_by_request[request] = client, transactional_id, asked_end
        application.open_request = max(application.open_request, request)
        newest = self.newest_ends.get(transactional_id)
        if newest is None or request >= newest.asked_at:
            self.newest_ends[transactional_id] = _NewestEnd(asked_at=request, asked=asked_end)

    def _note_begin(self, transactional_id: str, request: int) -> None:
        """Note a request in a transaction. It is the first one if the transaction before has ended,
        or its producer has begun anew.
        """
        end, begun_at = (
            self.newest_ends.get(transactional_id),
            self.begin_positions.get(transactional_id),
        )
        is_first = begun_at is None or transactional_id in self.restarted_clients
        if end is not None and end.answer == _NO_ERROR and begun_at is not None:
            is_first = is_first or begun_at < end.asked_at < request
        if is_first:
            self.begin_positions[transactional_id] = request
            self.restarted_clients.discard(transactional_id)

    def _follow_answer(self, answer_position: int, request: int, error: str) -> None:
        client_and_end = self.asked_end_by_request.pop(request, None)
        if client_and_end is None:
            return
        client, transactional_id, asked = client_and_end
        newest = self.newest_ends.get(transactional_id)
        if newest is not None and newest.asked_at == request:
            self.newest_ends[transactional_id] = _NewestEnd(
                asked_at=request, asked=asked, answer=error, answered_at=answer_position
            )
        if error != _NO_ERROR:
            return
        application = self._application_of(client, transactional_id)
        application.answered_request = max(application.answered_request, request)
        end_positions = (
            application.commit_positions if asked == "commit" else application.abort_positions
        )
        end_positions.append(request)
        del end_positions[:-ENDS_MAX]
        if application.open_request <= request:
            application.open_request = -1
        later_records = []
        for records in application.records:
            if records.sent_at < request:
                records.expected = asked == "commit"
                self._compare(records)
            else:
                later_records.append(records)
        application.records = later_records

    # Records

    def _follow_append(self, event: Event, payload: Mapping[str, Any]) -> None:
        origin = self.origin_by_event.get(event.i)
        if origin is None or not event.tx:
            return
        sent_at, client = origin
        transactional_id = transactional_id_of(event.tx)
        application = self._application_of(client, transactional_id)
        if 0 <= application.open_request < sent_at:
            # It goes on without an answer: what it believes of the records before is not known.
            application.records = [
                records
                for records in application.records
                if records.sent_at > application.open_request
            ]
        records = SentRecords(
            partition=payload["tp"],
            first_offset=payload["base"],
            producer_id=payload["pid"],
            producer_epoch=payload["epoch"],
            sent_at=sent_at,
            transactional_id=transactional_id,
        )
        if sent_at > application.answered_request:
            self._note_begin(transactional_id, sent_at)
            application.records.append(records)
        elif application.was_aborted(sent_at):
            records.expected = False  # it comes late, and its transaction is over
        self.unended_records_by_producer.setdefault((payload["tp"], payload["pid"]), []).append(
            records
        )

    def _follow_marker(self, payload: Mapping[str, Any]) -> None:
        for records in self.unended_records_by_producer.pop((payload["tp"], payload["pid"]), ()):
            records.outcome = bool(payload["committed"])
            records.marker_offset = payload["offset"]
            self._compare(records)

    def _compare(self, records: SentRecords) -> None:
        if records.expected is None or records.outcome is None:
            return
        if records.expected != records.outcome:
            self.contradiction_by_place[records.partition, records.marker_offset] = WrongData(
                partition=partition_of(records.partition),
                offset=records.marker_offset,
                producer_id=records.producer_id,
                producer_epoch=records.producer_epoch,
                transactional_id=records.transactional_id,
                is_commit=records.expected,
                is_by_application=True,
            )


def _outcome_of(end: _NewestEnd) -> Literal["unknown", "committed", "aborted"]:
    if end.answer != _NO_ERROR:
        return "unknown"
    return "committed" if end.asked == "commit" else "aborted"
