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
        "_listener",
        "_own_bytes",
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
        go_on: Callable[[], object],
        give_up: Callable[[], object],
    ) -> None:
        """Start without answers.

        Args:
            listener: The listener of the connection.
            go_on: Called when there is room again, or when the next parts are due in another turn.
            give_up: Called when the answers of all clients take too much memory, and these take
                most of it.
        """
        self._listener = listener
        self._go_on = go_on
        self._give_up = give_up
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

    def put(self, frame: bytes) -> None:
        """Send an answer at the end of this turn."""
        self.output.append(frame)
        self.bytes += len(frame)

    def put_pieces(self, head: bytes, pieces: list[bytes], size: int, *, stored: bool) -> None:
        """Send ``head`` and ``pieces`` with ``size`` bytes at the end of this turn; ``stored``:
        most of them are in the log's memory anyway.
        """
        self.bytes += len(head) + size
        if size >= UNJOINED_FROM_BYTES and (stored or size >= len(pieces) * UNJOINED_PIECE_BYTES):
            self.output.append(head)
            self.output += pieces
        else:
            self.output.append(b"".join((head, *pieces)))
        if not (stored and size >= UNJOINED_FROM_BYTES):
            self._own_bytes += size

    def pieces(self) -> int:
        """Number of pieces of this turn's answers: an index for ``since``."""
        return len(self.output)

    def since(self, index: int) -> bytes:
        """The bytes that were added from piece ``index`` on."""
        return b"".join(self.output[index:])

    def replace(self, index: int, changed: bytes) -> None:
        """Send other bytes instead of the pieces from ``index`` on."""
        self.bytes += len(changed) - sum(map(len, self.output[index:]))
        self.output[index:] = [changed]

    # Sending answers

    def is_wanted(self) -> bool:
        """Whether the connection is open."""
        return self.transport is not None

    def flush(self) -> None:
        """Give the answers of this turn to the socket."""
        self.is_flush_due = False
        output = self.output
        if self.transport is None or not self._listener.is_open:
            return
        if self.parked is not None or self.bytes > PART_BYTES:
            self._park(output)
            if self.is_paused:
                self._listener.unread.note(self, self._own_bytes)
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

    def _park(self, output: list[bytes]) -> None:
        if self.parked is None:
            self.parked = ParkedAnswers()
        self.parked.add(output)
        self.output = []

    def send_parts(self) -> None:
        """Give up to ``PARTS_PER_TURN`` parts of large answers to the socket."""
        parked, transport = self.parked, self.transport
        if parked is None or transport is None or not self._listener.is_open:
            return
        for _ in range(PARTS_PER_TURN):
            if self.is_paused:
                self._listener.unread.note(self, self._own_bytes)
                return
            part = parked.next_part()
            self.bytes -= sum(map(len, part))
            transport.writelines(part)
            if not parked:
                self._forget_parked()
                break
        self._go_on()

    def send_all(self) -> None:
        """Give all answers to the socket, because the connection is about to close."""
        self.flush()
        if self.parked is not None and self.transport is not None and self._listener.is_open:
            self.transport.writelines(self.parked.remaining_pieces())
            self._forget_parked()

    def forget(self) -> None:
        """Drop all answers and references: the connection is closed, and can be freed without the
        garbage collector.
        """
        self.transport = None
        self._go_on = self._give_up = _nothing
        self.output.clear()
        if self.parked is not None:
            self._forget_parked()

    def give_up(self) -> None:
        """Give up the connection: its unread answers take too much memory."""
        self._give_up()

    def _forget_parked(self) -> None:
        self.parked = None
        self.bytes = self._own_bytes = 0
        self._listener.unread.forget(self)


class ParkedAnswers:
    """Large answers in order, in pieces."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, pieces: Iterable[bytes]) -> None:
        """Append answers."""
        self._pieces.extend(pieces)

    def next_part(self) -> list[Piece]:
        """Remove and return up to ``PART_BYTES`` from the front, with small pieces joined; there
        must be a piece.
        """
        pieces = self._pieces
        part: list[Piece] = []
        room = PART_BYTES
        while pieces and room > 0:
            piece = pieces.popleft()
            if len(piece) > room:
                view = memoryview(piece)
                pieces.appendleft(view[room:])
                piece = view[:room]
            room -= len(piece)
            part.append(piece)
        is_small = len(part) > (PART_BYTES - room) // UNJOINED_PIECE_BYTES + 1
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

    __slots__ = ("_held", "_limit", "total")

    def __init__(self, limit: int) -> None:
        """Start at zero; ``limit`` is the bound for all clients together, in bytes."""
        self._limit = limit
        self._held: dict[OutboxOwner, int] = {}
        self.total = 0
        """Bytes held for all clients."""

    def note(self, holder: OutboxOwner, held_bytes: int) -> None:
        """Set how many bytes are held for one client."""
        self.total += held_bytes - self._held.get(holder, 0)
        self._held[holder] = held_bytes
        while self.total > self._limit:
            largest = max(self._held, key=self._held.__getitem__)
            self.forget(largest)
            largest.give_up()

    def forget(self, holder: OutboxOwner) -> None:
        self.total -= self._held.pop(holder, 0)


def _nothing() -> None:
    """Do nothing: the connection is closed."""


def whole(request: Request, reply: Any) -> bytes:
    """An encoded response with header and size; empty if the API has no answer."""
    if isinstance(reply, NoResponse):
        return b""
    body = reply if type(reply) is bytes else codec.encode_body(reply)
    return codec.frame_response(request.api_key, request.api_version, request.correlation_id, body)
