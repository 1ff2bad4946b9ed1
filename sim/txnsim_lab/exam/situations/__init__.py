"""The situations of the exam, by kind. Each is data and a few lines; the laws of ``_ledger`` are
asked in all of them.
"""

from __future__ import annotations

from typing import Final

from txnsim_lab.exam.situation import Situation
from txnsim_lab.exam.situations import _codes as codes
from txnsim_lab.exam.situations import _ends as ends
from txnsim_lab.exam.situations import _fenced as fenced
from txnsim_lab.exam.situations import _groups as groups
from txnsim_lab.exam.situations import _liveness as liveness
from txnsim_lab.exam.situations import _middle as middle
from txnsim_lab.exam.situations import _readers as readers
from txnsim_lab.exam.situations import _reports as reports
from txnsim_lab.exam.situations import _workers as workers

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
