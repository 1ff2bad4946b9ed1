"""A proxy before a real broker that holds every Produce request until it is told to let them go.

It stands for a network that delivers late. A frame that was read is delivered on release even if
its client has closed the connection meanwhile, as a real broker runs what it has read. Frames
behind a held one on the same connection wait with it; other connections are not disturbed.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Final

from tests.support.lifetime import ManagedResource
from tests.support.slow_machine import SLOW_S

_PRODUCE: Final = 0


class HoldingProxy(ManagedResource):
    """One port before one broker, as a context manager; ``forward_to`` names the broker."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._changed = threading.Condition()
        self._broker_port: int | None = None
        self._is_holding = False
        self._held = 0
        self._answered = 0
        self._is_closed = False

    @property
    def port(self) -> int:
        """Where clients connect; the broker must advertise it."""
        return int(self._listener.getsockname()[1])

    # Life

    def _on_exit(self, exc: BaseException | None) -> None:
        with self._changed:
            self._is_closed = True
            self._is_holding = False
            self._changed.notify_all()
        with contextlib.suppress(OSError):  # wakes the accepting thread
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def forward_to(self, broker_port: int) -> None:
        """Accept connections from now on."""
        self._broker_port = broker_port
        threading.Thread(target=self._accept, daemon=True).start()

    # Commands

    def hold(self) -> None:
        """Hold every Produce that arrives from now on."""
        with self._changed:
            self._is_holding = True
            self._held = self._answered = 0

    def await_held(self) -> bool:
        """Wait until a Produce is held; False if none came. A client's write may be ahead of us."""
        with self._changed:
            return self._changed.wait_for(lambda: self._held > 0, SLOW_S)

    def release(self) -> None:
        """Deliver what is held and wait until the broker has answered all of it.

        Raises:
            TimeoutError: The broker did not answer.
        """
        with self._changed:
            self._is_holding = False
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._answered == self._held, SLOW_S):
                raise TimeoutError(f"{self._answered} of {self._held} held Produce were answered")

    # Connections

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        address = ("127.0.0.1", self._broker_port or 0)
        with client, contextlib.suppress(OSError), socket.create_connection(address) as broker:
            delayed_requests: set[int] = set()
            answer_thread = threading.Thread(
                target=self._relay_answers, args=(broker, client, delayed_requests), daemon=True
            )
            answer_thread.start()
            for frame in _frames(client):
                self._pass_on(frame, broker, delayed_requests)
            with self._changed:  # the client is gone; its late requests are still answered
                self._changed.wait_for(lambda: not delayed_requests or self._is_closed, SLOW_S)
            broker.shutdown(socket.SHUT_RDWR)
            answer_thread.join()

    def _pass_on(self, frame: bytes, broker: socket.socket, delayed_requests: set[int]) -> None:
        api_key, _, correlation_id = struct.unpack_from(">hhi", frame)
        with self._changed:
            if api_key == _PRODUCE and self._is_holding:
                self._held += 1
                delayed_requests.add(correlation_id)
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._is_holding)
        broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _relay_answers(
        self, broker: socket.socket, client: socket.socket, delayed_requests: set[int]
    ) -> None:
        with contextlib.suppress(OSError):
            for frame in _frames(broker):
                with self._changed:
                    (correlation_id,) = struct.unpack_from(">i", frame)
                    if correlation_id in delayed_requests:
                        delayed_requests.discard(correlation_id)
                        self._answered += 1
                        self._changed.notify_all()
                with contextlib.suppress(OSError):  # nobody waits for a late answer
                    client.sendall(struct.pack(">i", len(frame)) + frame)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _frames(source: socket.socket) -> Iterator[bytes]:
    with source.makefile("rb") as stream, contextlib.suppress(OSError):
        while len(head := stream.read(4)) == 4:
            (size_bytes,) = struct.unpack(">i", head)
            yield stream.read(size_bytes)
