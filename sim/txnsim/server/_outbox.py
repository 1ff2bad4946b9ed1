"""Answers of a connection that are not sent yet.

The answers of a turn of the loop go out in one write at its end. A large answer goes part by part,
as fast as the client reads. Record batches wait as references to the log: a slow reader costs no
copies. All other waiting bytes are counted for all connections of a broker together; above a bound,
the connection that holds most is closed. A real broker has the answers of slow readers in its heap,
one for each connection, without a bound for all of them (``KafkaChannel.setSend``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from txnsim.api.request import NoResponse, Request
from txnsim.wire import codec

if TYPE_CHECKING:
    from txnsim.runtime.environment import Tasks

DEVIATIONS: Final = (
    "Where the clients of a broker together do not read more than queued_max_response_bytes of"
    " answers, records not counted, the connection with most of them is closed; Apache Kafka keeps"
    " them all.",
)

UNJOINED_FROM_BYTES: Final = 65_536
"""Size from which on answers are given to the socket in pieces: another copy would cost more."""
UNJOINED_PIECE_BYTES: Final = 4_096
"""Least average size of pieces that are not joined. Records that are in the log are never joined
before they are sent.
"""
PART_BYTES: Final = 262_144
"""Size of a part of an answer; larger answers are sent in several parts."""
PARTS_PER_TURN: Final = 4
"""Greatest number of parts that one client gets in one turn of the loop."""

Piece = bytes | memoryview


class AnswerSender(Protocol):
    """The listener of a connection, as the outbox uses it."""

    is_open: bool

    @property
    def tasks(self) -> Tasks:
        """Runs callbacks at the end of a turn."""

    @property
    def unread(self) -> HeldBytes:
        """Unread answers of all connections of the listener."""


class Outbox:
    """The unsent answers of one connection."""

    __slots__ = (
        "_give_up",
        "_go_on",
        "_own_bytes",
        "_sender",
        "bytes",
        "is_flush_due",
        "is_paused",
        "is_room_wanted",
        "output",
        "parked",
        "transport",
    )

    def __init__(
        self,
        listener: AnswerSender,
        *,
        on_room: Callable[[], object],
        on_excess: Callable[[], object],
    ) -> None:
        """Start without answers.

        Args:
            listener: The listener of the connection.
            on_room: Called when there is room again, or when the next parts are due in another
                turn.
            on_excess: Called when the answers of all clients take too much memory, and these take
                most of it.
        """
        self._sender = listener
        self._go_on = on_room
        self._give_up = on_excess
        self.is_flush_due = False
        """Whether ``flush`` will be called at the end of this turn."""
        self.is_room_wanted = False
        """Whether a request waits until some answers are sent."""
        self.output: list[bytes] = []
        """Answers of this turn."""
        self.parked: ParkedAnswers | None = None
        """Answers that are too large to be sent at once."""
        self._own_bytes = 0
        """Size of all unsent answers, without records that are in the log's memory anyway."""
        self.bytes = 0
        """Size of all unsent answers."""
        self.is_paused = False
        """Whether the client does not read."""
        self.transport: asyncio.Transport | None = None

    # Adding answers

    def put_answer(self, frame: bytes) -> None:
        """Send an answer at the end of this turn."""
        self.output.append(frame)
        self.bytes += len(frame)

    def put_pieces(
        self, response_head: bytes, pieces: list[bytes], pieces_bytes: int, *, is_stored: bool
    ) -> None:
        """Send ``response_head`` and ``pieces`` with ``pieces_bytes`` bytes at the end of this
        turn; ``is_stored``: most of them are in the log's memory anyway.
        """
        self.bytes += len(response_head) + pieces_bytes
        if pieces_bytes >= UNJOINED_FROM_BYTES and (
            is_stored or pieces_bytes >= len(pieces) * UNJOINED_PIECE_BYTES
        ):
            self.output.append(response_head)
            self.output += pieces
        else:
            self.output.append(b"".join((response_head, *pieces)))
        if not (is_stored and pieces_bytes >= UNJOINED_FROM_BYTES):
            self._own_bytes += pieces_bytes

    def piece_count(self) -> int:
        """Number of pieces of this turn's answers: an index for ``bytes_since``."""
        return len(self.output)

    def bytes_since(self, first_piece_index: int) -> bytes:
        """The bytes that were added from piece ``first_piece_index`` on."""
        return b"".join(self.output[first_piece_index:])

    def replace_since(self, first_piece_index: int, changed_bytes: bytes) -> None:
        """Send other bytes instead of the pieces from ``first_piece_index`` on."""
        self.bytes += len(changed_bytes) - sum(map(len, self.output[first_piece_index:]))
        self.output[first_piece_index:] = [changed_bytes]

    # Sending answers

    def is_connection_open(self) -> bool:
        return self.transport is not None

    def flush(self) -> None:
        """Give the answers of this turn to the socket."""
        self.is_flush_due = False
        output = self.output
        if self.transport is None or not self._sender.is_open:
            return
        if self.parked is not None or self.bytes > PART_BYTES:
            self._park_answers(output)
            if self.is_paused:
                self._sender.unread.set_held_bytes(self, self._own_bytes)
            else:
                self._go_on()  # in a turn of its own: sending megabytes takes milliseconds
            return
        if not output:
            return
        self.output = []
        self.bytes = self._own_bytes = 0
        if len(output) == 1:
            self.transport.write(output[0])
        else:
            self.transport.writelines(output)
        if self.is_room_wanted:
            self.is_room_wanted = False
            self._go_on()

    def _park_answers(self, answers: list[bytes]) -> None:
        if self.parked is None:
            self.parked = ParkedAnswers()
        self.parked.add(answers)
        self.output = []

    def send_parts(self) -> None:
        """Give up to ``PARTS_PER_TURN`` parts of large answers to the socket."""
        parked_answers, transport = self.parked, self.transport
        if parked_answers is None or transport is None or not self._sender.is_open:
            return
        for _ in range(PARTS_PER_TURN):
            if self.is_paused:
                self._sender.unread.set_held_bytes(self, self._own_bytes)
                return
            part = parked_answers.next_part()
            self.bytes -= sum(map(len, part))
            transport.writelines(part)
            if not parked_answers:
                self._forget_parked()
                break
        self._go_on()

    def send_all(self) -> None:
        """Give all answers to the socket, because the connection is about to close."""
        self.flush()
        if self.parked is not None and self.transport is not None and self._sender.is_open:
            self.transport.writelines(self.parked.remaining_pieces())
            self._forget_parked()

    def drop_answers(self) -> None:
        """Drop all answers and references: the connection is closed, and can be freed without the
        garbage collector.
        """
        self.transport = None
        self._go_on = self._give_up = _do_nothing
        self.output.clear()
        if self.parked is not None:
            self._forget_parked()

    def give_up(self) -> None:
        """Give up the connection: its unread answers take too much memory."""
        self._give_up()

    def _forget_parked(self) -> None:
        self.parked = None
        self.bytes = self._own_bytes = 0
        self._sender.unread.forget(self)


class ParkedAnswers:
    """Large answers in order, in pieces."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, pieces: Iterable[bytes]) -> None:
        self._pieces.extend(pieces)

    def next_part(self) -> list[Piece]:
        """Remove and return up to ``PART_BYTES`` from the front, with small pieces joined; there
        must be a piece.
        """
        pieces = self._pieces
        part: list[Piece] = []
        room_bytes = PART_BYTES
        while pieces and room_bytes > 0:
            piece = pieces.popleft()
            if len(piece) > room_bytes:
                view = memoryview(piece)
                pieces.appendleft(view[room_bytes:])
                piece = view[:room_bytes]
            room_bytes -= len(piece)
            part.append(piece)
        is_small = len(part) > (PART_BYTES - room_bytes) // UNJOINED_PIECE_BYTES + 1
        return [b"".join(part)] if is_small else part

    def remaining_pieces(self) -> Sequence[Piece]:
        return tuple(self._pieces)


class OutboxOwner(Protocol):
    """An object whose waiting bytes are counted in ``HeldBytes``."""

    def give_up(self) -> None:
        """Drop the waiting bytes: they take too much memory."""


class HeldBytes:
    """Counts bytes that a broker holds for many clients, with one bound: above it, the client with
    most is given up.
    """

    __slots__ = ("_bytes_limit", "_held_bytes_by_owner", "total")

    def __init__(self, limit_bytes: int) -> None:
        """Start at zero; ``limit_bytes`` is the bound for all clients together, in bytes."""
        self._bytes_limit = limit_bytes
        self._held_bytes_by_owner: dict[OutboxOwner, int] = {}
        self.total = 0
        """Bytes held for all clients."""

    def set_held_bytes(self, owner: OutboxOwner, held_bytes: int) -> None:
        """Set how many bytes are held for one client."""
        self.total += held_bytes - self._held_bytes_by_owner.get(owner, 0)
        self._held_bytes_by_owner[owner] = held_bytes
        while self.total > self._bytes_limit:
            largest_owner = max(
                self._held_bytes_by_owner, key=self._held_bytes_by_owner.__getitem__
            )
            self.forget(largest_owner)
            largest_owner.give_up()

    def forget(self, owner: OutboxOwner) -> None:
        self.total -= self._held_bytes_by_owner.pop(owner, 0)


def _do_nothing() -> None:
    """Do nothing: the connection is closed."""


def framed_response(request: Request, reply: Any) -> bytes:
    """An encoded response with header and size; empty if the API has no answer."""
    if isinstance(reply, NoResponse):
        return b""
    body = reply if type(reply) is bytes else codec.encode_body(reply)
    return codec.frame_response(request.api_key, request.api_version, request.correlation_id, body)
