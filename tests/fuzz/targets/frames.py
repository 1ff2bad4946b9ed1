"""The byte stream of a connection, and the requests in it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Final

from tests.broker.codec.golden.requests import golden_requests
from tests.fuzz.target import Target, Violation
from txnsim.errors import BadInputError, MalformedFrameError
from txnsim.wire import codec
from txnsim.wire.codec import FrameReader

_LIMIT: Final = 2_048
_HELD_BESIDES: Final = 4
"""Bytes of a size field that is cut off."""


def _stream_seeds() -> Iterator[bytes]:
    sized = [
        len(frame).to_bytes(4, "big") + frame for frame in itertools.islice(golden_requests(), 40)
    ]
    yield from (bytes((7,)) + frame for frame in sized)
    yield bytes((3,)) + b"".join(sized[:6])
    yield bytes((1,)) + bytes(40)
    yield bytes((0,)) + bytes.fromhex("16030100c8010000c40303")


def _play_stream(frame_bytes: bytes) -> None:
    if not frame_bytes:
        return
    step, stream = frame_bytes[0] % 64 + 1, frame_bytes[1:]
    frames_at_once = _read(stream, len(stream) + 1)
    if _read(stream, step) != frames_at_once:
        raise Violation(f"frames depend on where the stream is cut, every {step} bytes")


def _read(stream: bytes, step: int) -> tuple[list[bytes], bool]:
    reader = FrameReader(_LIMIT)
    frames: list[bytes] = []
    taken_bytes = 0
    for start in range(0, len(stream), step):
        chunk = stream[start : start + step]
        try:
            frames_read = reader.receive_data(chunk)
        except MalformedFrameError:
            return _frames_of(stream)[0], True
        frames += frames_read
        taken_bytes += sum(4 + len(frame) for frame in frames_read)
        held_bytes = min(start + step, len(stream)) - taken_bytes
        if reader.buffered_bytes != held_bytes:
            raise Violation(f"it tells of {reader.buffered_bytes} bytes and holds {held_bytes}")
    if (frames, False) != _frames_of(stream):
        raise Violation("frames are not those of the stream")
    return frames, False


def _frames_of(stream: bytes) -> tuple[list[bytes], bool]:
    """What the frames of a stream are, and whether it ends in one that is refused."""
    frames: list[bytes] = []
    position = 0
    while position + _HELD_BESIDES <= len(stream):
        size_bytes = int.from_bytes(stream[position : position + 4], "big", signed=True)
        if not 0 <= size_bytes <= _LIMIT:
            return frames, True
        if position + 4 + size_bytes > len(stream):
            break
        frames.append(stream[position + 4 : position + 4 + size_bytes])
        position += 4 + size_bytes
    return frames, False


def _play_request(frame: bytes) -> None:
    with contextlib.suppress(BadInputError):
        header = codec.read_request_header(frame)
        message = codec.decode_request(header, frame)
        body = codec.encode_body(message)
        reread = codec.decode_request(header, frame[: header.body_offset] + body)
        # Compared as bytes: a NaN is not equal to itself.
        if codec.encode_body(reread) != body:
            raise Violation(f"{type(message).__name__} is another one once it is written and read")


TARGETS: Final = {
    "framing": Target(play=_play_stream, seeds=_stream_seeds, length_max=256),
    "requests": Target(play=_play_request, seeds=golden_requests),
}
