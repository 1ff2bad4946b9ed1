"""The situations of the exam, by kind. Each is data and a few lines; the laws of ``book`` are asked
in all of them.
"""

from __future__ import annotations

from typing import Final

from txnsim_lab.exam.situation import Situation
from txnsim_lab.exam.situations import codes
from txnsim_lab.exam.situations import ends
from txnsim_lab.exam.situations import fenced
from txnsim_lab.exam.situations import groups
from txnsim_lab.exam.situations import liveness
from txnsim_lab.exam.situations import middle
from txnsim_lab.exam.situations import readers
from txnsim_lab.exam.situations import reports
from txnsim_lab.exam.situations import workers

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
