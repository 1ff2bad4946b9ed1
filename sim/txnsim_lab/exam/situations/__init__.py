"""The situations of the exam, by kind. Each is some data and a few lines of code; the laws of
``_ledger`` are checked in all of them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim_lab.exam._application import Application
from txnsim_lab.exam.situation import Situation
from txnsim_lab.exam.situations import _error_codes as codes
from txnsim_lab.exam.situations import _fencing as fenced
from txnsim_lab.exam.situations import _groups as groups
from txnsim_lab.exam.situations import _liveness as liveness
from txnsim_lab.exam.situations import _mid_transaction as middle
from txnsim_lab.exam.situations import _readers as readers
from txnsim_lab.exam.situations import _reports as reports
from txnsim_lab.exam.situations import _share_groups as share_groups
from txnsim_lab.exam.situations import _unknown_ends as ends
from txnsim_lab.exam.situations import _workers as workers

SINGLE_MOVE_SITUATIONS: Final = (
    "commit-while-coordinator-moves",
    "coordinator-moves-before-offsets",
    "end-is-stable-across-leader-change",
    "group-coordinator-moves",
    "leader-moves",
    "reads-across-leader-change",
)
"""Situations in which a leader or coordinator moves once. Each has a variant in which it moves
there, back, and to a third broker, since a library that follows one move may keep something from
the broker before.
"""
MOVE_COUNT: Final = 3


def there_back_and_on(base_situation: Situation) -> Situation:
    """The variant of a situation with three moves instead of one."""

    async def play(app: Application) -> None:
        app.move_count = MOVE_COUNT
        await base_situation.play(app)

    return msgspec.structs.replace(
        base_situation,
        name=f"{base_situation.name}-there-back-and-on",
        asks=f"{base_situation.asks} It moves there, back, and on.",
        play=play,
        about=(),
        core=False,
    )


_BASE_SITUATIONS: Final[tuple[Situation, ...]] = (
    *fenced.SITUATIONS,
    *ends.SITUATIONS,
    *codes.SITUATIONS,
    *middle.SITUATIONS,
    *readers.SITUATIONS,
    *groups.SITUATIONS,
    *workers.SITUATIONS,
    *share_groups.SITUATIONS,
    *liveness.SITUATIONS,
    *reports.SITUATIONS,
)
SITUATIONS: Final = (
    *_BASE_SITUATIONS,
    *(there_back_and_on(base) for base in _BASE_SITUATIONS if base.name in SINGLE_MOVE_SITUATIONS),
)
