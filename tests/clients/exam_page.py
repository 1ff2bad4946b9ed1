"""Results of libraries that sat the exam, in docs/exam.md: ``python -m tests.clients.exam_page``.

Its arguments are what ``txnsim exam run --json`` has printed, a file per sitting; those of one
library at several levels count as one. One on the simulator replaces what is known of that library.
One on a real Kafka (``--on``) says of its misses what came of them there. Outcomes and reasons are
kept in ``exam_results.json``; whose fault a miss is stands there too, under ``judged``, written by
hand. The table behind the guide is made of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tests.support.apache_kafka import REPOSITORY
from txnsim.testing.exam.hall import SimulatedHalls
from txnsim.testing.exam.results import Outcome, Sitting
from txnsim.testing.exam.situations import SITUATIONS

KEPT: Final = REPOSITORY / "tests" / "clients" / "exam_results.json"
PAGE: Final = REPOSITORY / "docs" / "exam.md"
HEADING: Final = "## What libraries do today\n"
KINDS: Final[tuple[str, ...]] = tuple(dict.fromkeys(one.kind for one in SITUATIONS))
REASON_CHARS: Final = 160
SIMULATOR: Final = SimulatedHalls().about


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one."""

    reason: str
    on_kafka: str = ""
    """What the same came to on a real Kafka, and which; empty where it was not asked."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Whose it is."""

    verdict: Literal["bug", "choice", "protocol", "ours"]
    why: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a sitting."""

    library: str
    version: str
    speaks: int
    core_s: int
    """How long ``--core`` takes."""
    counts: dict[str, tuple[int, int, int, int]]
    """Class to how many passed, were missed, are the protocol's, do not apply."""
    misses: dict[str, Miss]
    """``situation@level`` to what it was."""
    judged: dict[str, Judged] = {}
    """Situation to whose fault it is."""


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
    core = {f"{one.name}@{max(one.levels)}" for one in SITUATIONS if one.core}
    return Kept(
        library=sitting.library,
        version=sitting.version,
        speaks=sitting.speaks,
        core_s=round(sum(one.seconds for one in sitting.results if one.id in core)),
        counts=counts,
        misses={one.id: Miss(reason=one.because[0]) for one in sitting.misses()},
    )


def asked_of_kafka(one: Kept, sitting: Sitting) -> Kept:
    """With what misses came to on a real Kafka."""
    misses = dict(one.misses)
    for result in sitting.results:
        if result.id in misses:
            told = ": ".join((f"{sitting.kafka}: {result.outcome}", *result.because[:1]))
            misses[result.id] = msgspec.structs.replace(misses[result.id], on_kafka=told)
    return msgspec.structs.replace(one, misses=misses)


def again(before: Kept | None, new: Kept) -> Kept:
    """A new sitting of a library: what was judged and asked before still holds of what it misses
    still.
    """
    if before is None:
        return new
    names = {name.partition("@")[0] for name in new.misses}
    judged = {name: one for name, one in before.judged.items() if name in names}
    misses = {
        name: msgspec.structs.replace(miss, on_kafka=before.misses[name].on_kafka)
        if name in before.misses
        else miss
        for name, miss in new.misses.items()
    }
    return msgspec.structs.replace(new, judged=judged, misses=misses)


def section(libraries: Sequence[Kept]) -> str:
    """The table, and each miss with its reason."""
    return "\n".join((HEADING, *_lines(libraries))) + "\n"


def _lines(libraries: Sequence[Kept]) -> Iterator[str]:
    yield "Passed of all that apply, at the levels 0, 1 and 2. What is the protocol's is left out."
    yield "Seconds are those of `--core`, beside other sittings. This part is written by"
    yield "`python -m tests.clients.exam_page`, from results."
    yield ""
    yield f"| Library | Speaks version | {' | '.join(KINDS)} | seconds |"
    yield "| --- " * (len(KINDS) + 3) + "|"
    for one in libraries:
        cells = (f"{counts[0]} of {counts[0] + counts[1]}" for counts in one.counts.values())
        name = f"{one.library} {one.version}"
        yield f"| {name} | {one.speaks} | {' | '.join(cells)} | {one.core_s} |"
    yield ""
    yield "Each miss is judged. A **bug** breaks what the library or the protocol promises."
    yield "A **choice** is the library's to make, and its users should know of it."
    yield "**Protocol** is open to any client. **Ours** is the simulator's or the exam's."
    yield "Where a real Kafka was asked the same behind the proxy, a line says what came of it."
    yield "Bindings of librdkafka were asked through confluent-kafka. @platformatic/kafka has sat"
    yield "at the levels 1 and 2 only. What came of a busy machine,"
    yield "and did not come again, is left out."
    for one in libraries:
        if one.misses:
            yield f"\n**{one.library} {one.version}** misses:\n"
        yield from _misses(one)


def _misses(one: Kept) -> Iterator[str]:
    """Misses of one cause together, with the first that was told and the first answer of Kafka."""
    causes: dict[Judged | None, dict[str, list[str]]] = {}
    for name in one.misses:
        situation, _, level = name.partition("@")
        places = causes.setdefault(one.judged.get(situation), {})
        places.setdefault(situation, []).append(level)
    for judged, situations in causes.items():
        names = ", ".join(f"`{name}@{','.join(levels)}`" for name, levels in situations.items())
        verdict = f"**{judged.verdict}**. {judged.why}" if judged else "not judged yet."
        told = [one.misses[f"{name}@{at}"] for name, levels in situations.items() for at in levels]
        yield f"- {names}: {verdict}"
        yield f"  Told: {_short(told[0].reason)}"
        for answer in [miss.on_kafka for miss in told if miss.on_kafka][:1]:
            yield f"  On {_short(answer)}"


def _short(reason: str) -> str:
    line = " ".join(reason.replace("|", "/").replace("<", "‹").split())
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1].rstrip() + "…"


def load() -> list[Kept]:
    """What is kept, by library."""
    return msgspec.json.decode(KEPT.read_bytes(), type=list[Kept]) if KEPT.exists() else []


def _joined(names: Sequence[str]) -> list[Sitting]:
    """Sittings, those of one library on one Kafka together; the simulator's first."""
    joined: dict[tuple[str, ...], Sitting] = {}
    for name in names:
        one = msgspec.json.decode(Path(name).read_bytes(), type=Sitting)
        who = (one.library, one.version, one.kafka)
        before = joined.get(who, one)
        results = {result.id: result for result in (*before.results, *one.results)}
        joined[who] = msgspec.structs.replace(
            one, speaks=max(before.speaks, one.speaks), results=tuple(results.values())
        )
    return sorted(joined.values(), key=lambda one: not one.kafka.startswith(SIMULATOR))


def main(arguments: Sequence[str]) -> None:
    """Take in new results, and write the page."""
    found = {(one.library, one.version): one for one in load()}
    for sitting in _joined(arguments):
        who = (sitting.library, sitting.version)
        if sitting.kafka.startswith(SIMULATOR):
            found[who] = again(found.get(who), kept(sitting))
        else:
            found[who] = asked_of_kafka(found[who], sitting)
    ordered = [found[key] for key in sorted(found)]
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    guide = PAGE.read_text("utf-8").partition(HEADING)[0].rstrip()
    PAGE.write_text(f"{guide}\n\n{section(ordered)}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
