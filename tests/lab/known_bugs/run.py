"""The instrument's own exam: is each known bug found from seeds that know nothing of it?

``python -m tests.lab.known_bugs.run`` asks about every switch of the releases that is on in the
reference, turned off, and about every mutation, up to some CPU seconds each. A bug is found at the
first seed whose run has a finding that the same seed has not without the bug. It is noticed at the
first seed in which somebody is answered otherwise, which ``simulate --against`` tells.

Each seed is played once without any bug, and what of the bugs would have made a difference is noted
(``watching``). Where a bug would have made none, its run is that one: it is not played again, and
its processor time counts as the bug's. Bugs that nobody has noticed yet are played together first.
Where nobody is answered otherwise, none of them is noticed; else each half is played, down to one.

What came of it stands in a small file per bug below ``results/``, so the exam can be stopped at any
time. A bug that was found is not asked about again, unless its seed does not find it any more
(``--again``); the search for another goes on behind its last seed where it has time left
(``--cpu``). ``--table`` prints them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.lab.known_bugs.mutations import MUTATIONS, Mutation
from txnsim.metadata.config_keys import config_key, config_keys
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.runtime.wall_clock import cpu_ms
from txnsim_lab.simulation._shrinking import shrink, with_switch
from txnsim_lab.simulation.drawing import draw
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import OVER_LIMIT_KIND, PlayedRun, play, quieten

RESULTS: Final = Path(__file__).with_name("results")
SHRINK_TRIES: Final = 150
BECAUSE_MAX: Final = 300
CPU_S: Final = 600.0
"""Processor time that each bug gets."""
SEED_S: Final = 30.0
"""Processor time of one run: a bug may have it go on for ever."""
SHRUNK_S: Final = 5.0
"""Processor time of a run that may be shrunk: it is played ``SHRINK_TRIES`` times."""
SAVED_SEEDS: Final = 5
"""What was searched is written at least so often."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the exam of one bug."""

    bug: str
    found: bool
    seeds: int
    """How many were played, the one that found it included."""
    cpu_s: float
    noticed: int | None = None
    """The first seed that is answered otherwise; None where none is."""
    kinds: tuple[str, ...] = ()
    because: str = ""
    shrunk: int | None = None
    """Acts of the smallest run; None where it was not shrunk."""


def bugs() -> tuple[str, ...]:
    return (*MUTATIONS, *switches())


def switches() -> tuple[str, ...]:
    return tuple(
        field_name for field_name in Rules.documentation() if getattr(LATEST_RULES, field_name)
    )


# With a bug, and without


@contextmanager
def bug_in(*mutation_names: str) -> Iterator[None]:
    """Apply the mutations among the bugs; a switch is in the plan instead."""
    with ExitStack() as stack:
        for mutation in [
            MUTATIONS[mutation_name]
            for mutation_name in mutation_names
            if mutation_name in MUTATIONS
        ]:
            original = vars(mutation.owner)[mutation.name]
            setattr(mutation.owner, mutation.name, mutation.patch.wrong(original))
            stack.callback(setattr, mutation.owner, mutation.name, original)
        yield


def with_bug(plan: Plan, *switch_names: str) -> Plan:
    """The plan with the named switches turned off; mutations need no change of the plan."""
    for switch_name in switch_names:
        plan = plan if switch_name in MUTATIONS else with_switch(plan, switch_name, False)
    return plan


@contextmanager
def watching() -> Iterator[set[str]]:
    """The code as it is, with a note of each bug that would have made a difference: of mutations by
    the calls of their functions, of switches by being asked for.
    """
    reached_names: set[str] = set()
    with ExitStack() as stack:
        for mutation_name, mutation in MUTATIONS.items():
            owner, original = mutation.owner, vars(mutation.owner)[mutation.name]
            if isinstance(original, property):
                reached_names.add(mutation_name)
                continue
            setattr(
                owner,
                mutation.name,
                _watch_function(original, mutation_name, mutation, reached_names),
            )
            stack.callback(setattr, owner, mutation.name, original)
        for cached in (config_keys, config_key):
            cached.cache_clear()  # what was asked for once is asked for again
        for mutation_name in switches():
            field = vars(Rules)[mutation_name]
            setattr(
                Rules, mutation_name, property(_watch_switch(field, mutation_name, reached_names))
            )
            stack.callback(setattr, Rules, mutation_name, field)
        yield reached_names


def _watch_function(
    original_function: Callable[..., Any], name: str, mutation: Mutation, reached_names: set[str]
) -> Callable[..., Any]:
    patch = mutation.patch

    def watched(*args: Any, **keywords: Any) -> Any:
        if name in reached_names:
            return original_function(*args, **keywords)
        something_before = True if patch.before is None else patch.before(args, keywords)
        try:
            result = original_function(*args, **keywords)
        except BaseException:
            reached_names.add(name)
            raise
        was_something = something_before() if callable(something_before) else something_before
        if was_something and patch.differs(result, args, keywords):
            reached_names.add(name)
        return result

    return watched


def _watch_switch(field: Any, name: str, reached_names: set[str]) -> Callable[[Rules], bool]:
    def asked(rules: Rules) -> bool:
        reached_names.add(name)
        position: bool = field.__get__(rules)
        return position

    return asked


# The exam


class _Search(msgspec.Struct):
    """The search for one bug while it goes on."""

    bug: str
    seeds: int
    cpu_ms: int
    noticed: int | None
    found: PlayedRun | None = None
    kinds: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        findings = () if self.found is None else self.found.findings
        because = next((finding.because for finding in findings if finding.kind in self.kinds), "")
        return Answer(
            bug=self.bug,
            found=bool(self.kinds),
            seeds=self.seeds,
            cpu_s=self.cpu_ms / 1_000,
            noticed=self.noticed,
            kinds=self.kinds,
            because=because[:BECAUSE_MAX],
        )


def examine(
    bug_names: Sequence[str], *, cpu_s: float, answers_before: dict[str, Answer] | None = None
) -> Iterator[Answer]:
    """Play seeds until each bug is found or its time is used up; what came of each search, and what
    it has come to now and then.

    Args:
        bug_names: The bugs.
        cpu_s: All the processor time that each gets.
        answers_before: What earlier searches, without a find, have come to.
    """
    searches_left = [
        _Search(bug_name, *_search_so_far((answers_before or {}).get(bug_name)))
        for bug_name in bug_names
    ]
    while searches_left:
        seed = min(search.seeds for search in searches_left)
        began_ms, plan = cpu_ms(), draw(seed)
        with watching() as reached_names:
            sound_run = play(plan, cpu_s=SEED_S)
        sound_ms = cpu_ms() - began_ms
        searches_of_seed = [search for search in searches_left if search.seeds == seed]
        for search in searches_of_seed:
            search.seeds += 1
            search.cpu_ms += 0 if search.bug in reached_names else sound_ms
        reaching = [search for search in searches_of_seed if search.bug in reached_names]
        lone_searches = [[search] for search in reaching if search.noticed is not None]
        for searches_played in (
            [search for search in reaching if search.noticed is None],
            *lone_searches,
        ):
            _play_plan(searches_played, plan, sound_run)
        for search in searches_of_seed:
            is_over = search.kinds or search.cpu_ms >= cpu_s * 1_000
            if is_over:
                searches_left.remove(search)
            if is_over or search.seeds % SAVED_SEEDS == 0:
                yield search.answer


def _search_so_far(answer: Answer | None) -> tuple[int, int, int | None]:
    return (
        (0, 0, None)
        if answer is None
        else (answer.seeds, round(answer.cpu_s * 1_000), answer.noticed)
    )


def _play_plan(searches: Sequence[_Search], plan: Plan, sound_run: PlayedRun) -> None:
    """Play a plan with all these bugs; with fewer of them where that makes a difference."""
    if not searches:
        return
    names = [search.bug for search in searches]
    began_ms = cpu_ms()
    with bug_in(*names):
        played_run = play(with_bug(plan, *names), cpu_s=SEED_S)
    kinds = tuple(sorted({*played_run.kinds} - {*sound_run.kinds}))
    is_noticed = played_run.digest != sound_run.digest
    if len(searches) > 1 and (is_noticed or kinds):
        middle_index = len(searches) // 2
        _play_plan(searches[:middle_index], plan, sound_run)
        _play_plan(searches[middle_index:], plan, sound_run)
        return
    for search in searches:
        search.cpu_ms += cpu_ms() - began_ms
        if search.noticed is None and is_noticed:
            search.noticed = plan.seed
        if kinds:
            search.kinds, search.found = kinds, played_run


def finds_again(answer: Answer) -> bool:
    """Whether the recorded seed still finds the bug, with the present draws and judges."""
    plan = draw(answer.seeds - 1)
    sound_run = play(plan, cpu_s=SEED_S)
    with bug_in(answer.bug):
        played_run = play(with_bug(plan, answer.bug), cpu_s=SEED_S)
    return not {*answer.kinds}.isdisjoint({*played_run.kinds} - {*sound_run.kinds})


def shrunk(answer: Answer) -> Answer:
    """The answer with the size of the smallest run; a run that takes long is left as it is."""
    bad_plan = with_bug(draw(answer.seeds - 1), answer.bug)
    switch = None if answer.bug in MUTATIONS else (answer.bug, True)
    with bug_in(answer.bug):
        kinds = play(bad_plan, cpu_s=SHRUNK_S).kinds
        if OVER_LIMIT_KIND in kinds:
            return answer
        shrunk_plan = shrink(bad_plan, kinds, switch=switch, tries_max=SHRINK_TRIES)
    return msgspec.structs.replace(answer, shrunk=shrunk_plan.plan.size)


def answers() -> list[Answer]:
    paths = sorted(RESULTS.glob("*.json"))
    return [msgspec.json.decode(path.read_bytes(), type=Answer) for path in paths]


def main() -> None:
    """Examine the bugs that have no answer yet, or print the stored answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cpu", type=float, default=CPU_S, help="seconds of processor time per bug"
    )
    parser.add_argument("--only", action="append", default=[], help="this bug; may be repeated")
    parser.add_argument(
        "--part", default="0/1", metavar="I/N", help="every N-th bug, from the I-th"
    )
    parser.add_argument("--no-shrink", action="store_true", help="leave that for another time")
    parser.add_argument("--again", action="store_true", help="ask first whether finds still hold")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    quieten()
    answer_by_bug = {answer.bug: answer for answer in answers()}
    for lost_answer in [answer for answer in answer_by_bug.values() if args.again and answer.found]:
        if not finds_again(lost_answer):
            print(f"{lost_answer.bug}: seed {lost_answer.seeds - 1} does not find it any more")
            del answer_by_bug[lost_answer.bug]
    first_part, _, parts = args.part.partition("/")
    names = () if args.table else (args.only or bugs())[int(first_part) :: int(parts)]
    for answer in examine(
        [name for name in names if _is_open(answer_by_bug.get(name), args.cpu)],
        cpu_s=args.cpu,
        answers_before=answer_by_bug,
    ):
        _keep_answer(answer)
    for answer in answers():
        if answer.bug in names and answer.found and answer.shrunk is None and not args.no_shrink:
            _keep_answer(shrunk(answer))
    for line in table(answers()):
        print(line)


def _is_open(answer_before: Answer | None, cpu_s: float) -> bool:
    return answer_before is None or not (answer_before.found or answer_before.cpu_s >= cpu_s)


def _keep_answer(answer: Answer) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{answer.bug}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(answer)) + b"\n")


def table(answers_found: Sequence[Answer]) -> Iterator[str]:
    """A row of a Markdown table for each answer."""
    for answer in answers_found:
        acts = "" if answer.shrunk is None else f"{answer.shrunk} acts"
        other_result = (
            "" if answer.noticed is None else f"answered otherwise at seed {answer.noticed}"
        )
        kinds = ", ".join(answer.kinds) or other_result or "makes no difference so far"
        yield f"| {answer.bug} | {answer.seeds} | {answer.cpu_s:.0f} s | {acts} | {kinds} |"


if __name__ == "__main__":
    main()
