"""Parse large requests and encode large replies in slices; other requests run between them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from txnsim.api.request import Request, RequestSender, parse_request
from txnsim.broker.broker import Broker
from txnsim.errors import AnswerTooLargeError
from txnsim.runtime.loop_turns import Pace
from txnsim.wire import codec

JOINED_PIECES: Final = 2_048
"""Answers with more small pieces than this have them joined."""
SMALL_BYTES: Final = 4_096


async def parsed_with_breaks(
    frame: bytes, sender: RequestSender, broker: Broker, pace: Pace
) -> Request:
    """Parse a large request, in slices.

    Raises:
        BadInputError: The table has no such request.
    """
    request = parse_request(frame, sender, broker, is_decoded=False)
    header, handler = codec.read_request_header(frame), request.handler
    if request.refused is not None:
        return request
    if handler.decode is codec.decode_request:
        request.message = await pace.run(codec.decode_in_steps(header, frame))
        if pace.has_rested:
            await pace.yield_turn()  # its handler begins with a slice of its own
    else:
        request.message = handler.decode(header, frame)
    if handler.check is not None:
        handler.check(request.message)
    return request


async def encoded_with_breaks(
    reply: Any, pace: Pace, go_over: Callable[[Any], object], *, limit: int
) -> list[bytes]:
    """Encode a large reply in slices. Return its bytes in pieces.

    Args:
        reply: The message.
        pace: The pace of its request.
        go_over: Called with the whole reply, in a slice of its own.
        limit: Greatest size of the reply in bytes.

    Raises:
        AnswerTooLargeError: The reply is larger than ``limit``.
        WorkIsOverError: No client waits for the reply any more.
    """
    pieces: list[bytes] = []
    await pace.yield_turn()  # the handler has just ended its last slice
    await pace.run(_joined_in_steps(codec.encode_in_steps(reply, pieces), pieces, limit))
    await pace.yield_turn()
    go_over(reply)
    await pace.yield_turn()
    return pieces


def _joined_in_steps(
    steps: Generator[int, None, None], pieces: list[bytes], limit: int
) -> Generator[int, None, None]:
    """Run the steps, and join the small pieces that they add: a ``bytes`` object takes more memory
    than the few bytes in it.
    """
    joined_pieces = counted = size = 0
    for elements in steps:
        size += sum(map(len, pieces[counted:]))
        if size > limit:
            raise AnswerTooLargeError(f"the answer has more than {limit:,} bytes")
        yield elements
        if len(pieces) - joined_pieces >= JOINED_PIECES:
            pieces[joined_pieces:] = join_pieces(pieces[joined_pieces:])
            joined_pieces = len(pieces)
        counted = len(pieces)
    if joined_pieces:
        pieces[joined_pieces:] = join_pieces(pieces[joined_pieces:])


def join_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes with adjacent small pieces joined; large pieces are not copied."""
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < SMALL_BYTES:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield piece
    if small:
        yield b"".join(small)
