"""What ``logs report`` reads, and the file that it writes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from txnsim.pipeline.engine import NewSession, Progress
from txnsim.pipeline.forensics.find_hanging import (
    NOT_JUDGED,
    Reading,
    Search,
    find_hanging,
)
from txnsim.pipeline.forensics.findings import Report
from txnsim.pipeline.questions.positions import positions_in
from txnsim.pipeline.questions.waiting import waiting_by
from txnsim.pipeline.report_page.lives import Lives
from txnsim.pipeline.report_page.page import Contents, page
from txnsim.written_files import write_whole


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    file: str
    size_bytes: int
    partitions: int
    transactions: int
    """Those that ended, on each partition."""
    report: Report
    """As ``logs find-hanging`` has it."""


def write_report(
    search: Search, file: Path, *, new_session: NewSession, progress: Progress
) -> Written:
    """Look, and write the page.

    Args:
        search: What to look at.
        file: Where to.
        new_session: Called where there is much to search for open transactions.
        progress: Told what is done now.

    Raises:
        MissingExtraError: A library is missing, or Spark is needed and missing.
        ConfigError: The file can't be written.
    """
    reading = Reading(search, new_session, progress)
    report = find_hanging(search, new_session=new_session, progress=progress, reading=reading)
    progress("reading __consumer_offsets")
    unread: dict[str, None] = {}
    waiting = waiting_by(report, positions_in(search.paths, unread.setdefault), unread)
    progress("reading the transactions that ended")
    lives = Lives([one for one in reading.living_states() if one.replica.topic not in NOT_JUDGED])
    lives.read()
    progress("drawing")
    text = page(Contents(report=report, waiting=waiting, lives=lives))
    write_whole(file, text)
    return Written(
        file=str(file),
        size_bytes=len(text.encode()),
        partitions=len(lives.of),
        transactions=sum(one.commits + one.aborts for one in lives.of.values()),
        report=report,
    )
