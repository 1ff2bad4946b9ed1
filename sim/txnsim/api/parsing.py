"""Parse large requests and encode large replies in slices; other requests run between them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from txnsim.api.request import Request, RequestSender, parse_request
from txnsim.broker.broker import Broker
from txnsim.errors import AnswerTooLargeError, ErrorCode
from txnsim.runtime.loop_turns import Pace
from txnsim.wire import codec

JOINED_PIECES: Final = 2_048
"""Answers with more small pieces than this have them joined."""
SMALL_BYTES: Final = 4_096


async def parse_with_breaks(
    frame: bytes, sender: RequestSender, broker: Broker, pace: Pace
) -> Request:
    """Parse a large request, in slices.

    Raises:
        BadInputError: The table has no such request.
    """
    request = parse_request(frame, sender, broker, is_decoded=False)
    header, handler = codec.read_request_header(frame), request.handler
    if request.refused is ErrorCode.unsupported_version:
        return request  # its layout is not known
    if handler.decode is codec.decode_request:
        request.message = await pace.run(codec.decode_in_steps(header, frame))
        if pace.has_rested:
            await pace.yield_turn()  # its handler begins with a slice of its own
    else:
        request.message = handler.decode(header, frame)
    if handler.check is not None:
        handler.check(request.message)
    return request


async def encode_with_breaks(
    reply: Any, pace: Pace, inspect_reply: Callable[[Any], object], *, max_bytes: int
) -> list[bytes]:
    """Encode a large reply in slices. Return its bytes in pieces.

    Args:
        reply: The message.
        pace: The pace of its request.
        inspect_reply: Called with the whole reply, in a slice of its own.
        max_bytes: Greatest size of the reply in bytes.

    Raises:
        AnswerTooLargeError: The reply is larger than ``max_bytes``.
        WorkIsOverError: No client waits for the reply any more.
    """
    pieces: list[bytes] = []
    await pace.yield_turn()  # the handler has just ended its last slice
    await pace.run(_joined_in_steps(codec.encode_in_steps(reply, pieces), pieces, max_bytes))
    await pace.yield_turn()
    inspect_reply(reply)
    await pace.yield_turn()
    return pieces


def _joined_in_steps(
    encoding_steps: Generator[int, None, None], pieces: list[bytes], max_bytes: int
) -> Generator[int, None, None]:
    """Run the steps, and join the small pieces that they add: a ``bytes`` object takes more memory
    than the few bytes in it.
    """
    joined_count = counted_count = total_bytes = 0
    for encoded_count in encoding_steps:
        total_bytes += sum(map(len, pieces[counted_count:]))
        if total_bytes > max_bytes:
            raise AnswerTooLargeError(f"the answer has more than {max_bytes:,} bytes")
        yield encoded_count
        if len(pieces) - joined_count >= JOINED_PIECES:
            pieces[joined_count:] = join_pieces(pieces[joined_count:])
            joined_count = len(pieces)
        counted_count = len(pieces)
    if joined_count:
        pieces[joined_count:] = join_pieces(pieces[joined_count:])


def join_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes with adjacent small pieces joined; large pieces are not copied."""
    small_pieces: list[bytes] = []
    for piece in pieces:
        if len(piece) < SMALL_BYTES:
            small_pieces.append(piece)
            continue
        if small_pieces:
            yield b"".join(small_pieces)
            small_pieces.clear()
        yield piece
    if small_pieces:
        yield b"".join(small_pieces)
