"""Results of libraries that sat the exam, in RESULTS.md: ``python -m tests.clients.exam_page``.

Its arguments are what ``txnsim exam run --json`` has printed, a file per run. One on the
simulator replaces what is known of the situations that it has asked, all or some. One on a real
Kafka (``--on``) says of misses what came of them there. Outcomes and reasons are kept in
``exam_results.json``; whose fault a miss is stands there too, under ``judged``, written by hand.
The table behind the guide is made of it, for the situations that there are today.
"""

from __future__ import annotations

import datetime
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

RESULTS_FILE: Final = REPOSITORY / "tests" / "clients" / "exam_results.json"
PAGE: Final = REPOSITORY / "tests/clients/RESULTS.md"
HEADING: Final = "## What libraries do today\n"
KINDS: Final[tuple[str, ...]] = tuple(dict.fromkeys(situation.kind for situation in SITUATIONS))
QUESTIONS: Final = tuple(
    (situation, level) for situation in SITUATIONS for level in situation.levels
)
CORE: Final = frozenset(
    f"{situation.name}@{max(situation.levels)}" for situation in SITUATIONS if situation.core
)
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
    """One situation that a library missed."""

    reason: str
    on_kafka: str = ""
    """What the same came to on a real Kafka, and which; empty where it was not asked."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Whose fault a miss is, and why."""

    verdict: Literal["bug", "choice", "protocol", "ours"]
    why: str


class LibraryResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one library at one version."""

    library: str
    version: str
    speaks: int
    core_s: int
    """How long ``--core`` takes."""
    day: str
    """When it was asked last, as 2026-11-27."""
    outcomes: dict[str, str]
    """Situation to its outcomes at the levels 0, 1 and 2, a letter each."""
    misses: dict[str, Miss]
    """``situation@level`` to what it was."""
    judged: dict[str, Judgement] = {}
    """Situation to whose fault it is."""


def merge_run(previous_results: LibraryResults, run: ExamRun) -> LibraryResults:
    """The results after another run on the simulator. Judgements and answers of a real Kafka stay
    for the situations that are still missed.
    """
    outcomes, misses = dict(previous_results.outcomes), dict(previous_results.misses)
    for result in run.results:
        letters = list(outcomes.get(result.situation, NOT_ASKED))
        letters[result.level] = LETTERS[result.outcome]
        outcomes[result.situation] = "".join(letters)
        previous_miss = misses.pop(result.id, None)
        if result.outcome is SituationOutcome.MISSED:
            misses[result.id] = Miss(
                reason=result.because[0], on_kafka=previous_miss.on_kafka if previous_miss else ""
            )
    ordered = {f"{situation.name}@{level}": situation.name for situation, level in QUESTIONS}
    missed_names = {name for id_, name in ordered.items() if id_ in misses}
    core = {result.id: result.seconds for result in run.results if result.id in CORE}
    return LibraryResults(
        library=run.library,
        version=run.version,
        speaks=max(previous_results.speaks, run.speaks),
        core_s=round(sum(core.values())) if core.keys() == CORE else previous_results.core_s,
        day=datetime.datetime.now(datetime.UTC).date().isoformat(),
        outcomes={
            situation.name: outcomes[situation.name]
            for situation in SITUATIONS
            if situation.name in outcomes
        },
        misses={id_: misses[id_] for id_ in ordered if id_ in misses},
        judged={
            name: judgement
            for name, judgement in previous_results.judged.items()
            if name in missed_names
        },
    )


def add_kafka_answers(library: LibraryResults, run: ExamRun) -> LibraryResults:
    """Add to each miss what a real Kafka answered to the same situation."""
    misses = dict(library.misses)
    for result in run.results:
        if result.id in misses:
            outcome = ": ".join((f"{run.kafka}: {result.outcome}", *result.because[:1]))
            misses[result.id] = msgspec.structs.replace(misses[result.id], on_kafka=outcome)
    return msgspec.structs.replace(library, misses=misses)


def section(libraries: Sequence[LibraryResults]) -> str:
    """The table, and each miss with its reason."""
    return "\n".join((HEADING, *_lines(libraries))) + "\n"


def _lines(libraries: Sequence[LibraryResults]) -> Iterator[str]:
    yield "Passed of all that apply, at the levels 0, 1 and 2. What is the protocol's is left out."
    yield f"Asked: of the {len(QUESTIONS)} questions that there are, each a situation at a level."
    yield "Seconds are those of `--core`, beside other runs. This part is written by"
    yield "`python -m tests.clients.exam_page`, from results."
    yield ""
    yield f"| Library | Speaks version | Asked | {' | '.join(KINDS)} | seconds |"
    yield "| --- " * (len(KINDS) + 4) + "|"
    for library in libraries:
        count = Counter[tuple[str, str]](
            (situation.kind, library.outcomes.get(situation.name, NOT_ASKED)[level])
            for situation, level in QUESTIONS
        )
        cells = (f"{count[kind, 'p']} of {count[kind, 'p'] + count[kind, 'm']}" for kind in KINDS)
        answered_count = len(QUESTIONS) - sum(count[kind, NOT_ASKED[0]] for kind in KINDS)
        name = f"{library.library} {library.version}"
        answers = f"{library.speaks} | {answered_count} | {' | '.join(cells)}"
        yield f"| {name} | {answers} | {library.core_s} |"
    yield ""
    yield "Each miss is judged. A **bug** breaks what the library or the protocol promises."
    yield "A **choice** is the library's to make, and its users should know of it."
    yield "**Protocol** is open to any client. **Ours** is the simulator's or the exam's."
    yield "Where a real Kafka was asked the same behind the proxy, a line says what came of it."
    yield "Bindings of librdkafka were asked there through confluent-kafka. @platformatic/kafka has"
    yield "sat at the levels 1 and 2 only: at level 0 Kafka refuses AddPartitionsToTxn 5, which"
    yield "it sends, so it can do nothing there. What came of a busy machine,"
    yield "and did not come again, is left out."
    for library in libraries:
        if library.misses:
            yield f"\n**{library.library} {library.version}** misses:\n"
        yield from _misses(library)


def _misses(library: LibraryResults) -> Iterator[str]:
    """Misses of one cause together, with the first that was told and the first answer of Kafka."""
    causes: dict[Judgement | None, dict[str, list[str]]] = {}
    for miss_name in library.misses:
        situation, _, level = miss_name.partition("@")
        levels_by_situation = causes.setdefault(library.judged.get(situation), {})
        levels_by_situation.setdefault(situation, []).append(level)
    for judgement, situations in causes.items():
        names = ", ".join(
            f"`{situation_name}@{','.join(transaction_versions)}`"
            for situation_name, transaction_versions in situations.items()
        )
        verdict_text = (
            f"**{judgement.verdict}**. {judgement.why}" if judgement else "not judged yet."
        )
        misses = [
            library.misses[f"{situation_name}@{transaction_version}"]
            for situation_name, transaction_versions in situations.items()
            for transaction_version in transaction_versions
        ]
        yield f"- {names}: {verdict_text}"
        yield f"  Told: {_shorten_reason(misses[0].reason)}"
        for answer_text in [miss.on_kafka for miss in misses if miss.on_kafka][:1]:
            yield f"  On {_shorten_reason(answer_text)}"


def _shorten_reason(reason: str) -> str:
    line = " ".join(reason.replace("|", "/").replace("<", "‹").split())
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1].rstrip() + "…"


def load() -> list[LibraryResults]:
    return (
        msgspec.json.decode(RESULTS_FILE.read_bytes(), type=list[LibraryResults])
        if RESULTS_FILE.exists()
        else []
    )


def main(arguments: Sequence[str]) -> None:
    """Take in new results, and write the page."""
    by_library = {(library.library, library.version): library for library in load()}
    runs = [
        msgspec.json.decode(Path(argument_name).read_bytes(), type=ExamRun)
        for argument_name in arguments
    ]
    for run in sorted(runs, key=lambda run: not run.kafka.startswith(SIMULATOR)):
        library_version = (run.library, run.version)
        if run.kafka.startswith(SIMULATOR):
            empty_results = LibraryResults(
                library=library_version[0],
                version=library_version[1],
                speaks=0,
                core_s=0,
                day="",
                outcomes={},
                misses={},
            )
            by_library[library_version] = merge_run(
                by_library.get(library_version, empty_results), run
            )
        else:
            by_library[library_version] = add_kafka_answers(by_library[library_version], run)
    ordered_results = [by_library[key] for key in sorted(by_library)]
    RESULTS_FILE.write_bytes(
        msgspec.json.format(msgspec.json.encode(ordered_results), indent=1) + b"\n"
    )
    guide = PAGE.read_text("utf-8").partition(HEADING)[0].rstrip()
    PAGE.write_text(f"{guide}\n\n{section(ordered_results)}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
