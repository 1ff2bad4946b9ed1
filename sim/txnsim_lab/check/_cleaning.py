"""Compacted logs that can't be cleaned any more.

The cleaner never passes the last stable offset (``LogCleanerManager.cleanableOffsets``). Behind a
live transaction it only waits. Behind a transaction without an owner the log grows for ever:
KIP-664 was written about that.
"""

from __future__ import annotations

from txnsim_lab.check._hanging import Hanging, hanging
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Cleaned


def uncleanable_logs(history: History) -> tuple[Anomaly, ...]:
    """The cleaner has had its turn, readers still get several records of one key from behind the
    start of a hanging transaction, and that transaction still hangs at the end.
    """
    found = []
    for one in hanging(history):
        kept = _kept(history, one)
        if kept is not None:
            cleaned, at, key = kept
            because = (
                f"{one.place}: the cleaner had its turn and left several records of key {key!r} "
                f"behind {one.start_offset}, where a transaction hangs"
            )
            evidence = (cleaned, at, *one.evidence)
            found.append(convict(Kind.UNCLEANABLE_LOG, because, *evidence))
    return tuple(found)


def _kept(history: History, one: Hanging) -> tuple[int, int, str] | None:
    """The cleaner's last turn, the Read that showed two records of one key behind it that were
    there before, and the key.
    """
    turns = [index for index, seen in history.all_of(Cleaned) if seen.place == one.place]
    if not turns:
        return None
    turn = turns[-1]
    known = [read.high_watermark for at, read in history.reads(one.place) if at < turn]
    candidates = range(one.start_offset, max(known, default=0))
    seen_at: dict[str, int] = {}
    for at, read in history.reads(one.place):
        for record in read.records if at > turn else ():
            if record.key is None or record.offset not in candidates:
                continue
            if seen_at.setdefault(record.key, record.offset) != record.offset:
                return turn, at, record.key
    return None
