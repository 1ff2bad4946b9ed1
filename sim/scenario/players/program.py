"""Any other client as the producer of a story: a program that plays the whole part and tells of it,
one JSON object a line.

It is called with bootstrap, transactional id, topic, partition and the record's timestamp in ms; it
begins a transaction, sends one record, waits until that is acknowledged (``produced``) or given up
(``produce-failed``), aborts (``aborted``), and leaves.
"""

from __future__ import annotations

import asyncio
import shlex

import msgspec

from sim.errors import ClientError
from sim.scenario.players.base import Part

LINE_TIMEOUT_SECONDS = 60


class ProgramPlayer:
    """A child process that plays the part."""

    def __init__(self, part: Part, command: str, *, timestamp_ms: int) -> None:
        self.name = shlex.split(command)[-1].rsplit("/", 1)[-1]
        self._part = part
        self._command = shlex.split(command)
        self._timestamp_ms = timestamp_ms
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        """Nothing yet: the program does everything in one go, once it is to send."""

    async def send(self, _value: str) -> None:
        """Start the program; its record's value is its own."""
        part = self._part
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            part.bootstrap,
            part.transactional_id,
            part.topic,
            str(part.partition),
            str(self._timestamp_ms),
            stdout=asyncio.subprocess.PIPE,
        )

    async def await_ack(self) -> None:
        """Wait until it says that its record was acknowledged."""
        await self._until("produced")

    async def give_up(self) -> None:
        """Wait until it says that it has given up."""
        await self._until("produce-failed")

    async def abort(self) -> None:
        """Wait until it says that it has aborted."""
        await self._until("aborted")

    async def close(self) -> None:
        """Wait for its end; kill it if it doesn't come."""
        process = self._process
        if process is None:
            return
        try:
            await asyncio.wait_for(process.wait(), timeout=10)
        except TimeoutError:
            process.kill()
            await process.wait()

    def remarks(self) -> tuple[str, ...]:
        """Nothing: what the program logs goes to standard error."""
        return ()

    async def _until(self, event: str) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(
                self._process.stdout.readline(), timeout=LINE_TIMEOUT_SECONDS
            )
            if not line:
                raise ClientError(f"{self.name} ended before it said {event!r}")
            if msgspec.json.decode(line).get("event") == event:
                return
