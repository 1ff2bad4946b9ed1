"""tests/lab/known_bugs/RESULTS.md: what runs from seeds find of known bugs, from stored results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from tests.lab.known_bugs.mutations import MUTATIONS
from tests.lab.known_bugs.run import CPU_S, Answer, answers, bugs
from tests.lab.known_bugs.unfound import UNFOUND
from txnsim.releases.rules import Rules


def sections() -> Iterator[str]:
    """The sections of the page, in Markdown."""
    kept_answers = answers()
    mutated_answers = [answer for answer in kept_answers if answer.bug in MUTATIONS]
    switch_answers = [answer for answer in kept_answers if answer.bug not in MUTATIONS]
    yield INTRODUCTION
    yield _summary(mutated_answers, switch_answers)
    yield "## Bugs put in by hand\n\n" + _table(
        ("Bug", *_HEAD),
        [
            (MUTATIONS[mutated_answer.bug].what, *_cells(mutated_answer))
            for mutated_answer in mutated_answers
        ],
    )
    documentation = Rules.documentation()
    yield _SWITCHES + _table(
        ("Switch", "Without it", *_HEAD),
        [
            (f"`{answer.bug}`", documentation[answer.bug].behaviour_before, *_cells(answer))
            for answer in switch_answers
        ],
    )
    yield RUNNING


INTRODUCTION: Final = """\
An instrument that finds bugs must be asked whether it does. Each bug here is put into a sound
cluster, one at a time, and `txnsim simulate` plays seeds from 0 on until one finds it. The seeds
know nothing of any bug ([docs/simulate.md](../../../docs/simulate.md)). The weights by which they
are drawn are of 26 November 2026. Most were fixed before any bug was asked for. That day two bugs
that somebody had planted were missed, as no seed had both things that they take: so programs that
commit positions both ways, and followers that are late, were added. Later that day a table of
what meets (`pairs`, below) showed what never did: so acts in the middle of faults and of
transactions, on Kafka's own topics too, and members that leave then, were added. A bug is
**found** at the first seed with a finding that the same seed does not have without the bug. It is
**told apart** at the first seed in which somebody is answered otherwise: then `simulate
--against` names it, though no promise is broken that a judge knows. Where a bug would change
nothing, its run is the sound one, which all share: the time of that run counts for each. What was
found with the draws of before is kept until it is asked again (`--again`)."""

_SWITCHES: Final = """\
## Behaviours of older releases

A switch is a behaviour of brokers that some release changed
([docs/releases.md](../../../docs/releases.md)).
Most are bugs that were mended; many are another answer to the same request, which breaks no
promise and is no finding: it can only be told apart.

"""

RUNNING: Final = """\
## Running it

```
python -m tests.lab.known_bugs.run                     # what was not asked yet, 600 s of CPU each
python -m tests.lab.known_bugs.run --only no-timeout   # one bug
python -m tests.lab.known_bugs.run --part 0/2          # every second one; not what is kept
python -m tests.lab.known_bugs.pairs 0..500            # which acts of runs meet, and which never do
```

What came of each bug is a small file in `tests/lab/known_bugs/results`; this page is made of them:
`python -m tests.docs --write`."""

_HEAD: Final = ("Found", "Seeds", "Processor time", "Smallest run")


def _summary(mutated_answers: Sequence[Answer], switch_answers: Sequence[Answer]) -> str:
    found_answers = [mutated_answer for mutated_answer in mutated_answers if mutated_answer.found]
    times = [answer.cpu_s for answer in found_answers]
    distinct_answers = [
        answer for answer in switch_answers if not answer.found and answer.noticed is not None
    ]
    unasked = len(bugs()) - len(mutated_answers) - len(switch_answers)
    lines = [
        f"- **Bugs put in by hand**: {len(found_answers)} of {len(mutated_answers)} are found,"
        f" half of them within {median(times):.0f} s of processor time,"
        f" the last after {max(times):.0f} s.",
        f"- **Switches**: of {len(switch_answers)},"
        f" {sum(answer.found for answer in switch_answers)} are found and"
        f" {len(distinct_answers)} told apart; {unasked} were not asked yet.",
    ]
    unfound_s = [
        answer.cpu_s
        for answer in (*mutated_answers, *switch_answers)
        if not answer.found and answer.cpu_s < CPU_S
    ]
    if unfound_s:
        lines.append(
            f"- **The exam is not over**: {len(unfound_s)} bugs that are not found have had less"
            f" than {CPU_S:.0f} s, the least of them {min(unfound_s):.0f} s."
        )
    return "\n".join(lines)


def _cells(answer: Answer) -> tuple[str, str, str, str]:
    acts = "" if answer.shrunk is None else f"{answer.shrunk} acts"
    if answer.found:
        verdict_text = ", ".join(answer.kinds)
    elif answer.bug in UNFOUND:
        verdict_text = f"**no**: {UNFOUND[answer.bug]}"
    elif answer.noticed is not None:
        verdict_text = f"**no**; told apart at seed {answer.noticed}"
    else:
        verdict_text = "**no**; no seed has come to where it makes a difference"
    return verdict_text, f"{answer.seeds:,}", f"{answer.cpu_s:.0f} s", acts


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
