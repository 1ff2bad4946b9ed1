"""The event trace of a cluster, for Python tests: events, the story made from them, a file."""

from __future__ import annotations

from txnsim.runtime.trace import Event, TraceLevel
from txnsim.testing.event_loop import in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart
from txnsim.trace.story import Sentence, story


class AsyncTrace(ClusterPart):
    """The trace of one cluster, if it is recorded (``trace=`` brief or full)."""

    @in_cluster_loop
    async def level(self, level: str) -> None:
        """Set how much is recorded from now on: ``off``, ``brief`` or ``full``.

        Raises:
            ValueError: There is no such level.
        """
        self._rebuilt.environment.tracer.level = TraceLevel(level)

    @in_cluster_loop
    async def position(self) -> int:
        """The position of the trace: the index of its next event."""
        return len(self._rebuilt.environment.tracer)

    @in_cluster_loop
    async def events(self, *, since: int = 0, kind: str | None = None) -> tuple[Event, ...]:
        """The events in order.

        Args:
            since: Index of the first event.
            kind: Only events of this kind (docs/trace-kinds.md).
        """
        events = self._rebuilt.environment.tracer.events(since)
        return tuple(event for event in events if kind in (None, event.k))

    @in_cluster_loop
    async def story(self, *, since: int = 0) -> tuple[Sentence, ...]:
        """What happened, in sentences.

        Args:
            since: Index of the first event.
        """
        tracer = self._rebuilt.environment.tracer
        return story(tracer.events(since), tracer.nodes)

    @in_cluster_loop
    async def note(self, text: str) -> None:
        """Add a sentence of the test to the trace."""
        tracer = self._rebuilt.environment.tracer
        if tracer.on:
            tracer.emit("note", "scenario", data={"text": text})

    @in_cluster_loop
    async def export(self) -> bytes:
        """The whole trace as JSON lines (tests/README.md explains the columns)."""
        json_lines: list[bytes] = []
        self._rebuilt.environment.tracer.export(json_lines.append)
        return b"".join(json_lines)
