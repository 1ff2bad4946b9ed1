"""The situations of the exam, by kind. Each is data and a few lines; the laws of ``book`` are asked
in all of them.
"""

from __future__ import annotations

from typing import Final

from txnsim_lab.exam.situation import Situation
from txnsim_lab.exam.situations import (
    codes,
    ends,
    fenced,
    groups,
    liveness,
    middle,
    readers,
    reports,
    workers,
)

SITUATIONS: Final[tuple[Situation, ...]] = (
    *fenced.SITUATIONS,
    *ends.SITUATIONS,
    *codes.SITUATIONS,
    *middle.SITUATIONS,
    *readers.SITUATIONS,
    *groups.SITUATIONS,
    *workers.SITUATIONS,
    *liveness.SITUATIONS,
    *reports.SITUATIONS,
)
