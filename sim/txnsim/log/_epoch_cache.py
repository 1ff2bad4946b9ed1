"""Which leader wrote from which offset on (Kafka's LeaderEpochFileCache, KIP-101).

A list of (leader epoch, first offset), strictly rising in both. It answers where an epoch ended,
which is how a follower finds the point at which its log parts from its leader's, and which epoch
wrote an offset.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

UNDEFINED: Final = -1


class EpochCache:
    """Leader epochs of one log with their first offsets."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED
        """The newest epoch; -1 without epochs."""

    # Commands

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """``leader_epoch`` writes from ``start_offset`` on; entries that contradict it are dropped.

        Nothing changes if the newest entry is of this epoch already
        (LeaderEpochFileCache.isUpdateNeeded).
        """
        assert leader_epoch >= 0
        assert start_offset >= 0
        if self._epochs and self._epochs[-1] == leader_epoch and self._starts[-1] <= start_offset:
            return
        while self._epochs and (
            self._epochs[-1] >= leader_epoch or self._starts[-1] >= start_offset
        ):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(leader_epoch)
        self._starts.append(start_offset)
        self.latest = leader_epoch

    def truncate_to(self, offset: int) -> None:
        """Forget epochs that begin at ``offset`` or above."""
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED

    def drop_before(self, offset: int) -> None:
        """The log now starts at ``offset``: epochs that ended there go, the one that spans it
        begins there.
        """
        covering = bisect_right(self._starts, offset) - 1
        if covering < 0:
            return
        del self._epochs[:covering]
        del self._starts[:covering]
        self._starts[0] = offset

    # Queries

    def end_offset_for(self, leader_epoch: int, *, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) for a requested epoch, by the rules of
        LeaderEpochFileCache.endOffsetFor.

        The epoch in the answer is the largest known one that is not above the requested one.
        """
        if leader_epoch == UNDEFINED or not self._epochs or leader_epoch > self._epochs[-1]:
            return (UNDEFINED, UNDEFINED)
        if leader_epoch == self._epochs[-1]:
            return (leader_epoch, log_end_offset)
        higher = bisect_right(self._epochs, leader_epoch)
        if higher == 0:
            return (leader_epoch, self._starts[0])
        return (self._epochs[higher - 1], self._starts[higher])

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote ``offset``, -1 when it lies before the first entry."""
        position = bisect_right(self._starts, offset) - 1
        return self._epochs[position] if position >= 0 else UNDEFINED

    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) in rising order."""
        return tuple(zip(self._epochs, self._starts, strict=True))
