"""Cut links between nodes, and the messages that wait for them to heal; links that take time.

A link can be cut in two ways. **Refused**: connections break and new ones are refused, so the
sender knows at once. **A black hole**: neither side hears anything; the sender waits until its
deadline. TCP repeats what was not acknowledged. So what waits in a black hole arrives after the
heal, unless its sender has given up and closed the connection by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum

import msgspec

from txnsim.runtime.clock import Clock
from txnsim.types import BrokerId

Link = tuple[BrokerId, BrokerId]


class LinkCut(Enum):
    """What the two sides of a cut link notice."""

    BLACK_HOLE = "nothing arrives, and neither side knows"
    REFUSED = "connections break and are refused"


class LinkCuts:
    """The cut links between brokers, and the messages that wait on those that are black holes."""

    __slots__ = ("_cuts", "_waiting_sends", "_watchers")

    def __init__(self) -> None:
        self._cuts: dict[Link, LinkCut] = {}
        self._waiting_sends: dict[Link, list[Callable[[], object]]] = {}
        self._watchers: list[Callable[[BrokerId, BrokerId], object]] = []

    def __bool__(self) -> bool:
        """Whether any link is cut."""
        return bool(self._cuts)

    def cut(self, link: Link, kind_of_cut: LinkCut) -> None:
        """Cut a link, or change how it is cut; messages that wait on it go on waiting."""
        self._cuts[link] = kind_of_cut

    def heal(self, link: Link) -> list[Callable[[], object]]:
        """Make the link whole again.

        Returns:
            Callbacks that send the messages that waited, oldest first; the caller runs them.
        """
        if self._cuts.pop(link, None) is None:
            return []
        return self._waiting_sends.pop(link, [])

    def kind_of_cut(self, link: Link) -> LinkCut | None:
        """How a link is cut; None if it is whole."""
        return self._cuts.get(link)

    def hold(self, link: Link, send_on: Callable[[], object]) -> None:
        """Keep ``send_on``, which sends a message on, until the link heals."""
        self._waiting_sends.setdefault(link, []).append(send_on)

    # Watchers

    def watch(self, watcher: Callable[[BrokerId, BrokerId], object]) -> Callable[[], None]:
        """Call ``watcher(source, target)`` whenever a link heals; returns a function that ends
        this.
        """
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def notify_watchers(self, link: Link) -> None:
        """Call the watchers: a link has healed."""
        for watcher in list(self._watchers):
            watcher(*link)


class Pipe(msgspec.Struct, eq=False):
    """One direction of a link: delays messages, and keeps their order."""

    _clock: Clock
    _last_ms: float = 0.0
    _waiting_deliveries: deque[Callable[[], object]] = msgspec.field(default_factory=deque)

    def send(self, latency_ms: float, deliver: Callable[[], object]) -> None:
        """Call ``deliver`` after ``latency_ms``, but not before the message sent earlier is
        delivered.
        """
        now_ms = self._clock.monotonic_us() / 1_000
        self._last_ms = max(self._last_ms, now_ms + latency_ms)
        self._waiting_deliveries.append(deliver)
        # One timer per message, but each takes the oldest: equal deadlines fire in no promised
        # order.
        self._clock.call_later(self._last_ms - now_ms, lambda: self._waiting_deliveries.popleft()())
