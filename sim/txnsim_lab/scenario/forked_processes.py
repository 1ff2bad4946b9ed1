"""Processes that begin at once: a helper process imports what they need, and forks one per task.

A server with threads and a loop of its own can't be forked; the helper has neither. Each child gets
one end of a socket pair, and both ends send whole messages. A child may fork again to keep a
checkpoint (``Checkpoints``), in the same process group, which is ended as one.

Not on Windows, which has no fork, nor in WebAssembly, where it always fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

HAS_FORK: Final = hasattr(os, "fork") and sys.platform != "emscripten"
_LENGTH: Final = struct.Struct(">Q")
_PID: Final = struct.Struct(">i")
_POLL_S: Final = 0.005
_BACK: Final = 100
"""Exit status of a process that returns to its newest checkpoint; above: to an older one."""
BACK_MAX: Final = 100
CHILD_BYTES_MAX: Final = 1 << 30
"""Memory limit of a child, which may run a stranger's file."""
CHILD_CPU_S_MAX: Final = 600
END_S: Final = 1.0
"""The helper's end is waited for so long, then it is killed. On a busy machine the end of 200
processes takes the system seconds, and a server has five for all of its own.
"""
LOWEST: Final = 19
"""The least priority (nice)."""


class ProcessEndedError(Exception):
    """The process at the other end has ended."""


class _Forked:
    """A helper that was forked from this process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def terminate(self) -> None:
        """Send SIGTERM."""
        os.kill(self._pid, signal.SIGTERM)  # it is not waited for yet, so the number is its own

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Wait so many seconds for its end; returns its exit status.

        Raises:
            subprocess.TimeoutExpired: It has not ended.
        """
        end_s = time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() >= end_s:
                raise subprocess.TimeoutExpired(str(self._pid), timeout)
            time.sleep(_POLL_S)


class ForkServer:
    """The helper process, from the outside; started when the first child is wanted."""

    def __init__(self, module: str) -> None:
        """Args:
        module: Run as ``python -m``; it calls ``serve``.
        """
        self._module = module
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | _Forked | None = None
        self._is_closed = False

    def begin(self) -> Child:
        """Start a child. Blocks, the first time for as long as the imports take: to be called in a
        thread beside a loop.

        Raises:
            EndedError: The helper process could not be started.
        """
        with self._lock:
            control = self._control or self._start()
            parent_end, child_end = socket.socketpair()
            try:
                socket.send_fds(control, [b"b"], [child_end.fileno()])
                answer = control.recv(_PID.size)
            except OSError:
                answer = b""
            finally:
                child_end.close()
            if len(answer) != _PID.size:
                parent_end.close()
                self._end()
                raise ProcessEndedError("the helper process for runs has ended")
            return Child(parent_end, _PID.unpack(answer)[0])

    def warm_up(self) -> None:
        """Start the helper now, so that the first child begins at once. Blocks.

        Raises:
            EndedError: It was closed meanwhile.
        """
        with self._lock:
            if self._control is None:
                self._start()

    def fork(self) -> None:
        """Import the module, whose function ``main`` calls ``serve``, and fork the helper from this
        process: what is imported here need not be imported there. This process must not have a loop
        or open sockets yet. Where there are threads already, or no fork, the helper starts later,
        when it is wanted.
        """
        with self._lock:
            if self._control is not None or not HAS_FORK or threading.active_count() > 1:
                return
            module = importlib.import_module(self._module)
            parent_end, child_end = socket.socketpair()
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid:
                child_end.close()
                self._control, self._process = parent_end, _Forked(pid)
                return
            status = 1
            try:
                parent_end.close()
                os.setpgid(0, 0)  # Ctrl-C in a terminal is for the server alone
                nothing = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nothing, 0)
                os.close(nothing)
                sys.argv = [self._module, str(child_end.detach())]
                module.main()
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)

    def close(self) -> None:
        """End the helper; children end by themselves when their sockets close."""
        self._is_closed = True
        self._end()  # without the lock: who starts it now ends it again

    def _start(self) -> socket.socket:
        parent_end, child_end = socket.socketpair()
        with child_end:
            number = child_end.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(number)],
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal is for the server alone
            )
        self._control = parent_end
        if self._is_closed:
            self._end()
            raise ProcessEndedError("the server is closing")
        return parent_end

    def _end(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                with contextlib.suppress(
                    subprocess.TimeoutExpired
                ):  # no more than that can be done
                    process.wait(END_S)


class Child:
    """One child, from the loop of the server."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self._pid = pid
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._killed = asyncio.Event()
        self._is_opening = False

    async def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            EndedError: The child was ended before its first message.
        """
        _, writer = await self._open()
        writer.write(_LENGTH.pack(len(message)) + message)
        with contextlib.suppress(ConnectionError):  # hear() tells
            await writer.drain()

    async def hear(self) -> bytes:
        """The next message.

        Raises:
            EndedError: The child has ended, or was.
        """
        reader, _ = await self._open()
        try:
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            return await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ProcessEndedError("the process of the run has ended") from error

    def kill(self) -> None:
        """Kill the process and its checkpoints at once."""
        self._killed.set()
        if self._streams is not None:
            self._streams[1].close()
        elif not self._is_opening:
            self._connection.close()
        gone_errors = ProcessLookupError, PermissionError
        with contextlib.suppress(*gone_errors):
            # A hundred processes take a second of a busy machine to end: not before others.
            os.setpriority(os.PRIO_PGRP, self._pid, LOWEST)
        with contextlib.suppress(*gone_errors):
            os.killpg(self._pid, signal.SIGKILL)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            if self._killed.is_set():
                raise ProcessEndedError("the process of the run was ended")
            # The socket is the streams' now: kill() leaves it to them.
            self._is_opening = True
            self._streams = await asyncio.open_unix_connection(sock=self._connection)
            if self._killed.is_set():
                self._streams[1].close()
        return self._streams


# In the helper and in its children


class Channel:
    """A child's end of the socket pair. It blocks: a child has nothing else to do."""

    def __init__(self, number: int) -> None:
        self._connection = socket.socket(fileno=number)

    def send(self, message: bytes) -> None:
        """Send a message; without a receiver the process ends."""
        try:
            self._connection.sendall(_LENGTH.pack(len(message)) + message)
        except OSError:
            os._exit(0)

    def hear(self) -> bytes:
        """The next message; the process exits when the channel is closed."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                part = self._connection.recv(size - len(received))
            except OSError:
                part = b""
            if not part:
                os._exit(0)
            received += part
        return bytes(received)


class Checkpoints:
    """Moments to return to: at each the process forks, and one of the two waits there."""

    def __init__(self) -> None:
        self.kept = 0
        """Number of checkpoints to return to."""

    def keep(self) -> bool:
        """Keep this moment and go on.

        Returns:
            False where the process goes on; True where it has returned to this moment.
        """
        loop = asyncio._get_running_loop()
        pid = os.fork()
        if pid == 0:
            asyncio._set_running_loop(loop)  # which asyncio keeps by process
            self.kept += 1
            return False
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == _BACK:
            return True
        os._exit(code - 1 if code > _BACK else max(code, 0))

    def back(self, count: int) -> None:
        """Return to the ``count``-th newest moment; does not come back.

        Raises:
            ValueError: So many are not kept.
        """
        if not 1 <= count <= min(self.kept, BACK_MAX):
            raise ValueError(f"{self.kept} moments are kept, {count} back was asked for")
        os._exit(_BACK + count - 1)


def _bound() -> None:
    """Limit memory (MemoryError) and CPU time (the process ends), also for forked children."""
    import resource  # no such module on Windows

    resource.setrlimit(resource.RLIMIT_DATA, (CHILD_BYTES_MAX, CHILD_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (CHILD_CPU_S_MAX, CHILD_CPU_S_MAX))


def serve(handle: Callable[[Channel], None]) -> None:
    """The main function of a helper: fork a child per request and let it ``handle`` its channel.

    Its own socket's number is the program's only argument.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for here
    while True:
        word, numbers, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = 1
            try:
                os.setpgid(0, 0)
                _bound()
                handle(Channel(numbers[0]))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does so too: one of them is first
        os.close(numbers[0])
        control.send(_PID.pack(pid))
