"""Results of libraries that sat the exam, in docs/exam.md: ``python -m tests.clients.exam_page``.

Its arguments are what ``txnsim exam run --json`` has printed, a file per library. It keeps outcomes
and reasons in ``exam_results.json`` and writes the table behind the guide.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.support.apache_kafka import REPOSITORY
from txnsim.testing.exam.results import Outcome, Sitting
from txnsim.testing.exam.situations import SITUATIONS

KEPT: Final = REPOSITORY / "tests" / "clients" / "exam_results.json"
PAGE: Final = REPOSITORY / "docs" / "exam.md"
HEADING: Final = "## What libraries do today\n"
KINDS: Final[tuple[str, ...]] = tuple(dict.fromkeys(one.kind for one in SITUATIONS))
REASON_CHARS: Final = 160


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a sitting."""

    library: str
    version: str
    speaks: int
    counts: dict[str, tuple[int, int, int, int]]
    """Class to how many passed, were missed, are the protocol's, do not apply."""
    misses: dict[str, str]
    """``situation@level`` to the reason."""


def kept(sitting: Sitting) -> Kept:
    """Of a sitting what the page needs."""
    counts: dict[str, tuple[int, int, int, int]] = {}
    for kind in KINDS:
        seen = Counter(one.outcome for one in sitting.results if one.kind == kind)
        counts[kind] = (
            seen[Outcome.PASSED],
            seen[Outcome.MISSED],
            seen[Outcome.PROTOCOL],
            seen[Outcome.DOES_NOT_APPLY],
        )
    return Kept(
        library=sitting.library,
        version=sitting.version,
        speaks=sitting.speaks,
        counts=counts,
        misses={one.id: one.because[0] for one in sitting.misses()},
    )


def section(libraries: Sequence[Kept]) -> str:
    """The table, and each miss with its reason."""
    return "\n".join((HEADING, *_lines(libraries))) + "\n"


def _lines(libraries: Sequence[Kept]) -> Iterator[str]:
    yield "Passed of all that apply, at the levels 0, 1 and 2. What is the protocol's is left out."
    yield "This part is written by `python -m tests.clients.exam_page`, from results."
    yield ""
    yield f"| Library | Speaks version | {' | '.join(KINDS)} |"
    yield "| --- " * (len(KINDS) + 2) + "|"
    for one in libraries:
        cells = (f"{counts[0]} of {counts[0] + counts[1]}" for counts in one.counts.values())
        yield f"| {one.library} {one.version} | {one.speaks} | {' | '.join(cells)} |"
    for one in libraries:
        if one.misses:
            yield f"\n**{one.library} {one.version}** misses:\n"
        for name, reason in _by_situation(one.misses).items():
            yield f"- `{name}`: {reason}"


def _by_situation(misses: dict[str, str]) -> dict[str, str]:
    """Levels of one situation in one line, with the first reason."""
    levels: dict[str, list[str]] = {}
    for name in misses:
        situation, _, level = name.partition("@")
        levels.setdefault(situation, []).append(level)
    return {
        f"{situation}@{','.join(found)}": _short(misses[f"{situation}@{found[0]}"])
        for situation, found in levels.items()
    }


def _short(reason: str) -> str:
    line = " ".join(reason.replace("|", "/").replace("<", "‹").split())
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1].rstrip() + "…"


def load() -> list[Kept]:
    """What is kept, by library."""
    return msgspec.json.decode(KEPT.read_bytes(), type=list[Kept]) if KEPT.exists() else []


def main(arguments: Sequence[str]) -> None:
    """Take in new results, and write the page."""
    found = {(one.library, one.version): one for one in load()}
    for name in arguments:
        new = kept(msgspec.json.decode(Path(name).read_bytes(), type=Sitting))
        found[new.library, new.version] = new
    ordered = [found[key] for key in sorted(found)]
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    guide = PAGE.read_text("utf-8").partition(HEADING)[0].rstrip()
    PAGE.write_text(f"{guide}\n\n{section(ordered)}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
