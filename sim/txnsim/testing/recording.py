"""The event trace of a cluster, from Python: events, the story told from them, a file."""

from __future__ import annotations

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.testing.event_loop import in_home
from txnsim.testing.rebuilt_cluster import Inhabitant
from txnsim.trace.story import Sentence, story


class AsyncTrace(Inhabitant):
    """What has happened in one cluster, as far as it is recorded (``trace=`` brief or full)."""

    @in_home
    async def level(self, level: str) -> None:
        """Record as much from now on: ``off``, ``brief`` or ``full``.

        Raises:
            ValueError: There is no such level.
        """
        self._world.environment.tracer.level = TraceLevel(level)

    @in_home
    async def position(self) -> int:
        """Where the trace stands: the index that its next event gets."""
        return len(self._world.environment.tracer)

    @in_home
    async def events(self, *, since: int = 0, kind: str | None = None) -> tuple[Event, ...]:
        """Events in order.

        Args:
            since: From this position on.
            kind: Of this kind alone (docs/trace-kinds.md).
        """
        events = self._world.environment.tracer.events(since)
        return tuple(event for event in events if kind in (None, event.k))

    @in_home
    async def story(self, *, since: int = 0) -> tuple[Sentence, ...]:
        """What happened in sentences.

        Args:
            since: From this position on.
        """
        tracer = self._world.environment.tracer
        return story(tracer.events(since), tracer.nodes)

    @in_home
    async def note(self, text: str) -> None:
        """Put a sentence of the test's own into the trace."""
        tracer = self._world.environment.tracer
        if tracer.on:
            tracer.emit("note", "scenario", data={"text": text})

    @in_home
    async def export(self) -> bytes:
        """All of it as a file of JSON lines (tests/README.md explains the columns)."""
        lines: list[bytes] = []
        self._world.environment.tracer.export(lines.append)
        return b"".join(lines)
