"""Results of libraries that sat the exam, in RESULTS.md: ``python -m tests.clients.exam_page``.

Its arguments are what ``txnsim exam run --json`` has printed, a file per run. One on the
simulator replaces what is known of the situations that it has asked, all or some. One on a real
Kafka (``--on``) says of misses what came of them there. Outcomes and reasons are kept in
``exam_results.json``; whose fault a miss is stands there too, under ``judged``, written by hand.
The table behind the guide is made of it, for the situations that there are today.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tests.support.apache_kafka import REPOSITORY
from txnsim_lab.exam.results import ExamRun, SituationOutcome
from txnsim_lab.exam.situations import SITUATIONS
from txnsim_lab.exam.targets import SimulatedTargets

KEPT: Final = REPOSITORY / "tests" / "clients" / "exam_results.json"
PAGE: Final = REPOSITORY / "tests/clients/RESULTS.md"
HEADING: Final = "## What libraries do today\n"
KINDS: Final[tuple[str, ...]] = tuple(dict.fromkeys(one.kind for one in SITUATIONS))
QUESTIONS: Final = tuple((one, level) for one in SITUATIONS for level in one.levels)
CORE: Final = frozenset(f"{one.name}@{max(one.levels)}" for one in SITUATIONS if one.core)
LETTERS: Final = {
    SituationOutcome.PASSED: "p",
    SituationOutcome.MISSED: "m",
    SituationOutcome.PROTOCOL: "v",
    SituationOutcome.DOES_NOT_APPLY: "-",
}
NOT_ASKED: Final = "..."
REASON_CHARS: Final = 160
SIMULATOR: Final = SimulatedTargets().about


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
    """What is kept of a run."""

    library: str
    version: str
    speaks: int
    core_s: int
    """How long ``--core`` takes."""
    outcomes: dict[str, str]
    """Situation to its outcomes at the levels 0, 1 and 2, a letter each."""
    misses: dict[str, Miss]
    """``situation@level`` to what it was."""
    judged: dict[str, Judged] = {}
    """Situation to whose fault it is."""


def taken_in(before: Kept, run: ExamRun) -> Kept:
    """What is known after a run on the simulator. What was judged, and asked of a real Kafka,
    still holds of what is missed still.
    """
    outcomes, misses = dict(before.outcomes), dict(before.misses)
    for one in run.results:
        letters = list(outcomes.get(one.situation, NOT_ASKED))
        letters[one.level] = LETTERS[one.outcome]
        outcomes[one.situation] = "".join(letters)
        old = misses.pop(one.id, None)
        if one.outcome is SituationOutcome.MISSED:
            misses[one.id] = Miss(reason=one.because[0], on_kafka=old.on_kafka if old else "")
    ordered = {f"{one.name}@{level}": one.name for one, level in QUESTIONS}
    missed = {name for id_, name in ordered.items() if id_ in misses}
    core = {one.id: one.seconds for one in run.results if one.id in CORE}
    return Kept(
        library=run.library,
        version=run.version,
        speaks=max(before.speaks, run.speaks),
        core_s=round(sum(core.values())) if core.keys() == CORE else before.core_s,
        outcomes={one.name: outcomes[one.name] for one in SITUATIONS if one.name in outcomes},
        misses={id_: misses[id_] for id_ in ordered if id_ in misses},
        judged={name: one for name, one in before.judged.items() if name in missed},
    )


def asked_of_kafka(one: Kept, run: ExamRun) -> Kept:
    """With what misses came to on a real Kafka."""
    misses = dict(one.misses)
    for result in run.results:
        if result.id in misses:
            told = ": ".join((f"{run.kafka}: {result.outcome}", *result.because[:1]))
            misses[result.id] = msgspec.structs.replace(misses[result.id], on_kafka=told)
    return msgspec.structs.replace(one, misses=misses)


def section(libraries: Sequence[Kept]) -> str:
    """The table, and each miss with its reason."""
    return "\n".join((HEADING, *_lines(libraries))) + "\n"


def _lines(libraries: Sequence[Kept]) -> Iterator[str]:
    yield "Passed of all that apply, at the levels 0, 1 and 2. What is the protocol's is left out."
    yield f"Asked: of the {len(QUESTIONS)} questions that there are, each a situation at a level."
    yield "Seconds are those of `--core`, beside other runs. This part is written by"
    yield "`python -m tests.clients.exam_page`, from results."
    yield ""
    yield f"| Library | Speaks version | Asked | {' | '.join(KINDS)} | seconds |"
    yield "| --- " * (len(KINDS) + 4) + "|"
    for one in libraries:
        count = Counter[tuple[str, str]](
            (place.kind, one.outcomes.get(place.name, NOT_ASKED)[level])
            for place, level in QUESTIONS
        )
        cells = (f"{count[kind, 'p']} of {count[kind, 'p'] + count[kind, 'm']}" for kind in KINDS)
        asked = len(QUESTIONS) - sum(count[kind, NOT_ASKED[0]] for kind in KINDS)
        name = f"{one.library} {one.version}"
        yield f"| {name} | {one.speaks} | {asked} | {' | '.join(cells)} | {one.core_s} |"
    yield ""
    yield "Each miss is judged. A **bug** breaks what the library or the protocol promises."
    yield "A **choice** is the library's to make, and its users should know of it."
    yield "**Protocol** is open to any client. **Ours** is the simulator's or the exam's."
    yield "Where a real Kafka was asked the same behind the proxy, a line says what came of it."
    yield "Bindings of librdkafka were asked there through confluent-kafka. @platformatic/kafka has"
    yield "sat at the levels 1 and 2 only: at level 0 Kafka refuses AddPartitionsToTxn 5, which"
    yield "it sends, so it can do nothing there. What came of a busy machine,"
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
    return msgspec.json.decode(KEPT.read_bytes(), type=list[Kept]) if KEPT.exists() else []


def main(arguments: Sequence[str]) -> None:
    """Take in new results, and write the page."""
    found = {(one.library, one.version): one for one in load()}
    runs = [msgspec.json.decode(Path(name).read_bytes(), type=ExamRun) for name in arguments]
    for one in sorted(runs, key=lambda one: not one.kafka.startswith(SIMULATOR)):
        who = (one.library, one.version)
        if one.kafka.startswith(SIMULATOR):
            nobody = Kept(
                library=who[0], version=who[1], speaks=0, core_s=0, outcomes={}, misses={}
            )
            found[who] = taken_in(found.get(who, nobody), one)
        else:
            found[who] = asked_of_kafka(found[who], one)
    ordered = [found[key] for key in sorted(found)]
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    guide = PAGE.read_text("utf-8").partition(HEADING)[0].rstrip()
    PAGE.write_text(f"{guide}\n\n{section(ordered)}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
