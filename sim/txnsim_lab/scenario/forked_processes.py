"""Processes that start at once: a helper process imports the modules that they need, and forks a
child per task. A server can't fork itself, because it has threads and a loop; the helper has
neither. Each child gets one end of a socket pair, and both ends send whole messages. A child may
fork again to keep a checkpoint (``Checkpoints``); it stays in the same process group, which is
ended together. This does not work on Windows, which has no fork, nor in WebAssembly, where fork
always fails.
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
_LENGTH_STRUCT: Final = struct.Struct(">Q")
_PID_STRUCT: Final = struct.Struct(">i")
_POLL_S: Final = 0.005
_BACK_STATUS: Final = 100
"""Exit status of a process that returns to its newest checkpoint; higher values return to older
ones.
"""
CHECKPOINTS_BACK_MAX: Final = 100
CHILD_BYTES_MAX: Final = 1 << 30
"""Memory limit of a child, since it may run a stranger's file."""
CHILD_CPU_S_MAX: Final = 600
END_LIMIT_S: Final = 1.0
"""Seconds to wait for the helper's end before it is killed. On a busy machine, ending 200 processes
takes seconds, and a server has five seconds to stop.
"""
LOWEST_PRIORITY: Final = 19
"""The lowest scheduling priority (nice)."""


class ProcessEndedError(Exception):
    """The process at the other end has ended."""


class _ForkedProcess:
    """A helper process that was forked from this process; it has the methods of ``Popen`` that we
    need.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def terminate(self) -> None:
        os.kill(self._pid, signal.SIGTERM)  # it is not waited for yet, so the number is its own

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end of the process, at most for ``timeout_s`` seconds; returns its exit
        status.

        Raises:
            subprocess.TimeoutExpired: It has not ended.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() >= end_s:
                raise subprocess.TimeoutExpired(str(self._pid), timeout_s)
            time.sleep(_POLL_S)


class ForkServer:
    """Starts children in the helper process, which starts when the first child is wanted."""

    def __init__(self, module: str) -> None:
        """Args:
        module: The module to run with ``python -m``; it calls ``serve``.
        """
        self._module_name = module
        self._lock = threading.Lock()
        self._control_socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | _ForkedProcess | None = None
        self._is_closed = False

    def begin(self) -> Child:
        """Start a child. This blocks, the first time for as long as the imports take: a program
        with a loop calls it in a thread.

        Raises:
            ProcessEndedError: The helper process could not be started.
        """
        with self._lock:
            control = self._control_socket or self._start_process()
            parent_end, child_end = socket.socketpair()
            try:
                socket.send_fds(control, [b"b"], [child_end.fileno()])
                pid_bytes = control.recv(_PID_STRUCT.size)
            except OSError:
                pid_bytes = b""
            finally:
                child_end.close()
            if len(pid_bytes) != _PID_STRUCT.size:
                parent_end.close()
                self._end_process()
                raise ProcessEndedError("the helper process for runs has ended")
            return Child(parent_end, _PID_STRUCT.unpack(pid_bytes)[0])

    def warm_up(self) -> None:
        """Start the helper now, so that the first child starts at once. This blocks.

        Raises:
            ProcessEndedError: The server was closed meanwhile.
        """
        with self._lock:
            if self._control_socket is None:
                self._start_process()

    def fork(self) -> None:
        """Import the module, whose function ``main`` calls ``serve``, and forks the helper from
        this process, so that the helper shares what is imported here. This process must not have a
        loop or open sockets yet. If there are threads already, or no fork, the helper starts when
        the first child is wanted.
        """
        with self._lock:
            if self._control_socket is not None or not HAS_FORK or threading.active_count() > 1:
                return
            module = importlib.import_module(self._module_name)
            parent_end, child_end = socket.socketpair()
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid:
                child_end.close()
                self._control_socket, self._process = parent_end, _ForkedProcess(pid)
                return
            status = 1
            try:
                parent_end.close()
                os.setpgid(0, 0)  # Ctrl-C in a terminal is for the server alone
                _ = os.open(os.devnull, os.O_RDONLY)
                os.dup2(_, 0)
                os.close(_)
                sys.argv = [self._module_name, str(child_end.detach())]
                module.main()
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)

    def close(self) -> None:
        """End the helper; children end when their sockets are closed."""
        self._is_closed = True
        self._end_process()  # without the lock: who starts it now ends it again

    def _start_process(self) -> socket.socket:
        parent_end, child_end = socket.socketpair()
        with child_end:
            descriptor = child_end.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module_name, str(descriptor)],
                pass_fds=(descriptor,),
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal is for the server alone
            )
        self._control_socket = parent_end
        if self._is_closed:
            self._end_process()
            raise ProcessEndedError("the server is closing")
        return parent_end

    def _end_process(self) -> None:
        control, self._control_socket = self._control_socket, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                with contextlib.suppress(
                    subprocess.TimeoutExpired
                ):  # no more than that can be done
                    process.wait(END_LIMIT_S)


class Child:
    """A child process, as the server's loop sees it."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self._pid = pid
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._killed_event = asyncio.Event()
        self._is_opening = False

    async def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            ProcessEndedError: The child was ended before its first message.
        """
        _, writer = await self._open_streams()
        writer.write(_LENGTH_STRUCT.pack(len(message)) + message)
        with contextlib.suppress(ConnectionError):  # hear() tells
            await writer.drain()

    async def hear(self) -> bytes:
        """Wait for the next message.

        Raises:
            ProcessEndedError: The child has ended, or was killed.
        """
        reader, _ = await self._open_streams()
        try:
            (length,) = _LENGTH_STRUCT.unpack(await reader.readexactly(_LENGTH_STRUCT.size))
            return await reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ProcessEndedError("the process of the run has ended") from error

    def kill(self) -> None:
        """Kill the process and its checkpoints at once."""
        self._killed_event.set()
        if self._streams is not None:
            self._streams[1].close()
        elif not self._is_opening:
            self._connection.close()
        gone_errors = ProcessLookupError, PermissionError
        with contextlib.suppress(*gone_errors):
            # A hundred processes take a second of a busy machine to end: not before others.
            os.setpriority(os.PRIO_PGRP, self._pid, LOWEST_PRIORITY)
        with contextlib.suppress(*gone_errors):
            os.killpg(self._pid, signal.SIGKILL)

    async def _open_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            if self._killed_event.is_set():
                raise ProcessEndedError("the process of the run was ended")
            # The socket is the streams' now: kill() leaves it to them.
            self._is_opening = True
            self._streams = await asyncio.open_unix_connection(sock=self._connection)
            if self._killed_event.is_set():
                self._streams[1].close()
        return self._streams


# In the helper and in its children


class Channel:
    """A child's end of the socket pair. It blocks, as a child has nothing else to do."""

    def __init__(self, descriptor: int) -> None:
        self._connection = socket.socket(fileno=descriptor)

    def send(self, message: bytes) -> None:
        """Send a message; if the other end is closed, the process exits."""
        try:
            self._connection.sendall(_LENGTH_STRUCT.pack(len(message)) + message)
        except OSError:
            os._exit(0)

    def hear(self) -> bytes:
        """Wait for the next message; if the other end is closed, the process exits."""
        (length,) = _LENGTH_STRUCT.unpack(self._read_exactly(_LENGTH_STRUCT.size))
        return self._read_exactly(length)

    def _read_exactly(self, byte_count: int) -> bytes:
        received_bytes = bytearray()
        while len(received_bytes) < byte_count:
            try:
                chunk = self._connection.recv(byte_count - len(received_bytes))
            except OSError:
                chunk = b""
            if not chunk:
                os._exit(0)
            received_bytes += chunk
        return bytes(received_bytes)


class Checkpoints:
    """Checkpoints of a process: at each the process forks; the child goes on, and the parent waits
    until it is returned to.
    """

    def __init__(self) -> None:
        self.checkpoint_count = 0
        """Number of checkpoints to return to."""

    def keep(self) -> bool:
        """Make a checkpoint.

        Returns:
            False in the process that goes on; True in a process that has returned to this
            checkpoint.
        """
        loop = asyncio._get_running_loop()
        pid = os.fork()
        if pid == 0:
            asyncio._set_running_loop(loop)  # which asyncio keeps by process
            self.checkpoint_count += 1
            return False
        _, status = os.waitpid(pid, 0)
        exit_code = os.waitstatus_to_exitcode(status)
        if exit_code == _BACK_STATUS:
            return True
        os._exit(exit_code - 1 if exit_code > _BACK_STATUS else max(exit_code, 0))

    def back(self, checkpoint_count: int) -> None:
        """Return to the ``checkpoint_count``-th newest checkpoint; the call itself does not return.

        Raises:
            ValueError: There are fewer checkpoints.
        """
        if not 1 <= checkpoint_count <= min(self.checkpoint_count, CHECKPOINTS_BACK_MAX):
            raise ValueError(
                f"{self.checkpoint_count} moments are kept, {checkpoint_count} back was asked for"
            )
        os._exit(_BACK_STATUS + checkpoint_count - 1)


def _limit_child() -> None:
    """Limits memory (MemoryError) and CPU time (the process ends), also of forked children."""
    import resource  # no such module on Windows

    resource.setrlimit(resource.RLIMIT_DATA, (CHILD_BYTES_MAX, CHILD_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (CHILD_CPU_S_MAX, CHILD_CPU_S_MAX))


def serve(handle: Callable[[Channel], None]) -> None:
    """The main function of a helper: forks a child per request, which calls ``handle`` with its
    channel.

    The program's only argument is the file descriptor of its own socket.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for here
    while True:
        request_bytes, file_descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not request_bytes:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = 1
            try:
                os.setpgid(0, 0)
                _limit_child()
                handle(Channel(file_descriptors[0]))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # the child does so too: one of them is first
        os.close(file_descriptors[0])
        control.send(_PID_STRUCT.pack(pid))
