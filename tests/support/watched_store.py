"""A store that somebody watches, to interrupt who writes there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from txnsim.pipeline.streaming.store import LocalStore

Hook = Callable[[], object]


class WatchedStore(LocalStore):
    """Calls out around each step that gives a directory its final name.

    Args:
        root: Where it is.
        at_staged: Called when all is written, and not yet committed.
        at_committed: Called when it is committed, and the writer does not know yet.
    """

    def __init__(
        self, root: Path, *, at_staged: Hook = lambda: None, at_committed: Hook = lambda: None
    ) -> None:
        super().__init__(root)
        self._at_staged = at_staged
        self._at_committed = at_committed

    def publish(self, source: str, target: str) -> bool:
        """As always."""
        self._at_staged()
        is_first = super().publish(source, target)
        if is_first:
            self._at_committed()
        return is_first
