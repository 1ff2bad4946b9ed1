"""Send large amounts at once, with or without reading the answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any, Final

from tests.attacks.target import AttackTarget
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from

PIECE_BYTES: Final = 1 << 16


def request(api_key: int, api_version: int, **request_fields: Any) -> bytes:
    """A whole frame."""
    message = message_from(codec.request_class(api_key, api_version), request_fields)
    return codec.encode_request(api_key, api_version, 1, "attack", message)


def send_frames(target: AttackTarget, frames: Sequence[bytes]) -> int:
    """Send frames one after the other and read their answers, unless the connection ends before.
    Returns the size of the frames.
    """
    frame_bytes = b"".join(frames)
    with target.socket() as connection:
        connection.settimeout(60.0)
        with contextlib.suppress(ConnectionError):
            exchange(connection, frame_bytes, answer_count=len(frames))
    return len(frame_bytes)


def exchange(connection: socket.socket, frame_bytes: bytes, *, answer_count: int) -> None:
    """Send and read at the same time, until this many answers have come.

    Raises:
        ConnectionError: It ended before.
    """
    sender_thread = threading.Thread(
        target=send_quietly, args=(connection, frame_bytes), daemon=True
    )
    sender_thread.start()
    read_answers(connection, answer_count)
    sender_thread.join()


def send_quietly(connection: socket.socket, frame_bytes: bytes) -> int:
    """Send until the other side closes, or until the socket's timeout. Returns the number of bytes
    sent.
    """
    sent_bytes = 0
    view = memoryview(frame_bytes)
    while sent_bytes < len(frame_bytes):
        try:
            sent_bytes += connection.send(view[sent_bytes : sent_bytes + PIECE_BYTES])
        except OSError:
            break
    return sent_bytes


def read_answers(connection: socket.socket, count: int) -> None:
    """Read so many frames and forget them.

    Raises:
        ConnectionError: The connection ended before.
    """
    head = b""
    missing = 0
    while count:
        chunk = connection.recv(PIECE_BYTES)
        if not chunk:
            raise ConnectionError(f"the connection ended {count} answers too early")
        position = 0
        while position < len(chunk):
            if missing:
                step = min(missing, len(chunk) - position)
                missing -= step
                position += step
                if not missing:
                    count -= 1
                continue
            step = min(4 - len(head), len(chunk) - position)
            head += chunk[position : position + step]
            position += step
            if len(head) == 4:
                missing = int.from_bytes(head, "big")
                head = b""
