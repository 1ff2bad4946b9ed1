"""Runs the driver of a library: writes commands to its standard input, and reads answers from its
standard output.

Version 1 of the contract: docs/exam.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shlex
import signal
import tempfile
from typing import Any, BinaryIO, Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.files import problem_of
from txnsim.runtime.process_guard import ProcessGuard
from txnsim.text import PORT_MAX, read_host_and_port

CONTRACT_VERSION: Final = 1
ANSWER_LIMIT_S: Final = 30.0
"""A command that has no answer after this time counts as hanging. The libraries' own timeouts are
half as long.
"""
LINE_BYTES_MAX: Final = 1 << 24
ERROR_TAIL_BYTES: Final = 1_000
TCP_SCHEME: Final = "tcp://"
_STANDARD_OUTPUT: Final = 1
UNSUPPORTED_COMMAND: Final = "UNSUPPORTED_COMMAND"


class LibraryError(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the library reports it."""

    name: str
    class_: str = msgspec.field(name="class", default="")
    message: str = ""
    retriable: bool = False
    """Whether the same call may be repeated."""
    abortable: bool = False
    """Whether the transaction must be aborted; the producer stays usable."""
    fatal: bool = False
    """Whether the producer must be closed."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's answer to a command."""

    id: int
    ok: bool
    error: LibraryError | None = None
    offset: int = -1
    """Offset of the record that was sent."""
    records: tuple[tuple[int, int, str], ...] = ()
    """Partition, offset and value of each record of a poll."""
    positions: dict[str, int] | None = {}
    """Partition -> next offset of the reader; None if the library does not tell."""
    ends: dict[str, int] = {}
    """Partition -> its end offset, for the isolation level of the reader."""
    failed: dict[str, str] = {}
    """Partition -> error of the acknowledgements of its records."""
    state: str = ""
    """After a commit: state for a restart, if the library has such a state."""
    contract: int = 0
    library: str = ""
    version: str = ""
    language: str = ""
    runtime: str = ""


class NoAnswerError(Exception):
    """The program did not answer: it hangs, has ended, or breaks the contract."""


def _read_address(command: str) -> tuple[str, int]:
    host_and_port = read_host_and_port(command.removeprefix(TCP_SCHEME))
    if host_and_port is None or host_and_port[1] == 0:
        raise ConfigError(
            f"--driver {command}: expected {TCP_SCHEME}HOST:PORT, with a port from 1 to {PORT_MAX}"
        )
    host, port = host_and_port
    return host, port


class Driver:
    """A running driver: a process that we started, or a program that listens on a port."""

    def __init__(
        self,
        answer_stream: asyncio.StreamReader,
        command_stream: asyncio.StreamWriter,
        process: asyncio.subprocess.Process | None = None,
        error_output: BinaryIO | None = None,
        guard: ProcessGuard | None = None,
    ) -> None:
        self._answer_stream = answer_stream
        self._command_stream = command_stream
        self._process = process
        self._error_output = error_output
        """File with the standard error of the program."""
        self._guard = guard
        self._command_number = 0

    @classmethod
    async def start(cls, command: str) -> Driver:
        """Start the program, or connect to it.

        Args:
            command: The command line, split as a shell does, but run without a shell. Or
                ``tcp://HOST:PORT``, where each connection must serve as a driver.

        Raises:
            ConfigError: There is no such program, or no such address.
        """
        pipe = asyncio.subprocess.PIPE
        with contextlib.ExitStack() as exit_stack:
            try:
                if command.startswith(TCP_SCHEME):
                    host, port = _read_address(command)
                    return cls(*await asyncio.open_connection(host, port, limit=LINE_BYTES_MAX))
                error_output = exit_stack.enter_context(tempfile.TemporaryFile("a+b"))
                process = await asyncio.create_subprocess_exec(
                    *shlex.split(command), stdin=pipe, stdout=pipe, stderr=error_output,
                    limit=LINE_BYTES_MAX, start_new_session=True,
                )  # fmt: skip
            except (OSError, IndexError, TypeError, ValueError) as error:
                raise ConfigError(f"--driver {command}: {problem_of(error)}") from None
            exit_stack.pop_all()  # it stays open as long as the program runs
        assert process.stdin is not None
        assert process.stdout is not None
        guard = ProcessGuard(process.pid)  # nothing else would end a program that hangs
        return cls(process.stdout, process.stdin, process, error_output, guard)

    async def ask(self, verb: str, **arguments: Any) -> Answer:
        """Send one command and wait for its answer.

        Raises:
            NoAnswerError: There is no answer.
        """
        self._command_number += 1
        command_line = (
            msgspec.json.encode({"id": self._command_number, "do": verb, **arguments}) + b"\n"
        )
        try:
            self._command_stream.write(command_line)
            await self._command_stream.drain()
            async with asyncio.timeout(ANSWER_LIMIT_S):
                line_read = await self._answer_stream.readline()
        except TimeoutError:
            raise NoAnswerError(
                f"{verb} gave no answer in {ANSWER_LIMIT_S:g} s: it hangs"
            ) from None
        except ConnectionError:
            line_read = b""
        except ValueError as error:
            raise NoAnswerError(f"{verb}: {error}") from None
        if not line_read:
            raise NoAnswerError(f"{verb}: the driver's process has ended{self._error_tail()}")
        try:
            answer = msgspec.json.decode(line_read, type=Answer)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NoAnswerError(
                f"{verb}: the driver wrote no answer of the contract: {error}"
            ) from None
        if answer.id != self._command_number:
            raise NoAnswerError(f"{verb}: answer {answer.id} to command {self._command_number}")
        return answer

    def _error_tail(self) -> str:
        """The last lines that the program wrote to its standard error."""
        if self._error_output is None:
            return ""
        output_size = self._error_output.seek(0, io.SEEK_END)
        self._error_output.seek(max(0, output_size - ERROR_TAIL_BYTES))
        lines = self._error_output.read().decode("utf-8", "replace").strip().splitlines()
        return "".join(f"\n  {line}" for line in lines)

    async def describe(self) -> Answer:
        """Ask the driver for its library and version.

        Raises:
            ConfigError: The driver gives no answer, or speaks another version of the contract.
        """
        try:
            answer = await self.ask("describe", contract=CONTRACT_VERSION)
        except NoAnswerError as error:
            raise ConfigError(f"--driver: {error}") from None
        if not answer.ok and answer.error is not None:
            raise ConfigError(f"--driver: describe failed: {answer.error.message}")
        if answer.contract != CONTRACT_VERSION:
            raise ConfigError(
                f"--driver speaks contract {answer.contract}; this is {CONTRACT_VERSION}"
            )
        return answer

    async def end(self) -> None:
        """End the program with all that it has started, even if it hangs; for a program that
        listens, close the connection.
        """
        if self._process is None:
            self._command_stream.close()
            with contextlib.suppress(ConnectionError):
                await self._command_stream.wait_closed()
            return
        if self._guard is not None:
            self._guard.dismiss()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # asyncio waits until the pipes are closed, too, and a child that left the driver's session
        # may hold them for ever.
        self._command_stream.close()
        transport = self._process._transport  # type: ignore[attr-defined]  # has no other name
        transport.get_pipe_transport(_STANDARD_OUTPUT).close()
        await self._process.wait()
        if self._error_output is not None:
            self._error_output.close()
