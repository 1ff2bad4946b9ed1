"""Any other client as an application of a story: a program that plays the whole part and tells of
it, one JSON object a line.

It is called with bootstrap, transactional id, topic, partition and the record's timestamp in ms; it
begins a transaction, sends one record (``late``), waits until that is acknowledged (``produced``)
or given up (``produce-failed``), aborts (``aborted``), and leaves. ``client`` in a line is its
name; its exit status does not matter, and what it writes to standard error is passed on.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
from typing import Final

import msgspec

from txnsim.errors import ClientError, ConfigError
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players._base import Part, Player

LINE_TIMEOUT_SECONDS: Final = 60
"""A JVM on a busy machine takes its time."""
END_TIMEOUT_SECONDS: Final = 10


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a program's output."""

    event: str
    client: str = ""
    error: str = ""


def words(command: str) -> tuple[str, ...]:
    """The words of a command line.

    Raises:
        ConfigError: There is no such program.
    """
    try:
        split = tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigError(f"program {command!r}: {error}") from None
    if not split or shutil.which(split[0]) is None:
        raise ConfigError(f"program {command!r}: there is no such program to run")
    return split


class ProgramPlayer(Player):
    """A child process that plays the part."""

    def __init__(self, part: Part, *, command: tuple[str, ...]) -> None:
        self.name = command[-1].rsplit("/", 1)[-1]
        self._part = part
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Nothing yet: a program does everything in one go, once it has to send."""

    async def send(self, _value: str, _place: TopicPartition) -> None:
        """Start the program; its record's value, ``late``, is its own."""
        assert self._process is None, "a program plays the whole part in one go"
        part = self._part
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            part.bootstrap,
            part.transactional_id,
            part.topic,
            str(part.partition),
            str(part.now_ms),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )

    async def await_ack(self) -> int:
        """Wait until the program reports the acknowledgement; -1, as no offset is reported."""
        await self._until("produced")
        return -1

    async def give_up(self) -> None:
        await self._until("produce-failed")

    async def commit(self) -> None:
        """Never: a program aborts.

        Raises:
            ClientError: Always.
        """
        raise ClientError(f"{self.name} aborts, and can't commit")

    async def abort(self) -> None:
        await self._until("aborted")

    async def close(self) -> None:
        """Wait for its end; kill it if it doesn't come."""
        process = self._process
        if process is None:
            return
        try:
            await asyncio.wait_for(process.communicate(), timeout=END_TIMEOUT_SECONDS)
        except TimeoutError:
            process.kill()
            await process.communicate()

    async def _until(self, event: str) -> None:
        """Read its lines up to that event; ``initialized`` may come before."""
        while True:
            line = await self._line(event)
            if line.client:
                self.name = line.client
            if line.event == event:
                return
            if line.event != "initialized":
                because = f": {line.error}" if line.error else ""
                raise ClientError(f"{self.name} said {line.event!r}, not {event!r}{because}")

    async def _line(self, awaited: str) -> Line:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            raw = await asyncio.wait_for(
                self._process.stdout.readline(), timeout=LINE_TIMEOUT_SECONDS
            )
        except TimeoutError:
            raise ClientError(
                f"{self.name} did not say {awaited!r} within {LINE_TIMEOUT_SECONDS} s"
            ) from None
        if not raw:
            raise ClientError(f"{self.name} ended before it said {awaited!r}")
        try:
            return msgspec.json.decode(raw, type=Line)
        except msgspec.MsgspecError as error:
            raise ClientError(f"{self.name} said {raw[:200]!r}: {error}") from None
