"""Is each rule held by what it names? The functions that rules name are broken, one mutation at a
time, and the tests that rules name are run: plays of cases, transcripts that are replayed, tests.

- A mutation on a line that tests of the function's rules execute must be noticed: by these tests,
  or by those of other rules of the same subjects, as one rule begins where another ends.
- The tests of each rule notice a mutation of what decides it: of the statement with the rule's id
  and the condition above it, where the code has the id, else of its function.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.conformance import programme, test_cases
from tests.mutants.forked_tests import ForkedTests, MutantOutcome, MutantRun, with_collected_tests
from tests.mutants.mutation import MutableModule, Mutation, deciding_lines
from tests.mutants.unseen_mutants import unseen_mutants
from txnsim.runtime.rng import RandomStreams
from txnsim_lab.conformance._book.casebook_reader import cases, rules
from txnsim_lab.conformance._book.model import ProofElsewhere, Rule

CASES_FILE: Final = "tests/conformance/test_cases.py"
REPLAY: Final = "tests/conformance/test_replay.py"
SECURITY: Final = "tests/conformance/test_security.py"
PLAY_TEST: Final = "test_the_simulator_answers_as_kafka_did"
SECURITY_TEST: Final = "test_the_answer_is_that_of_apache_kafka"
MARKERS: Final = "not real and not image and not browser and not spark and not clients"
SOURCE_FOLDER: Final = Path(__file__).parents[2] / "sim" / "txnsim"
TESTS_MAX: Final = 12
"""So many tests of a rule may notice a mutation: those that take the least time."""
OTHER_TESTS_MAX: Final = 400
"""So many tests of other rules of the same subjects may notice it as well."""
PROGRESS_EVERY: Final = 50


class RuleMutant(msgspec.Struct, frozen=True, kw_only=True):
    """A mutation of a function that rules name, and the rules that it shall be held by."""

    mutation: Mutation
    rule_ids: tuple[str, ...]
    """The rules that the line decides, or all of the function."""
    credited_ids: tuple[str, ...]
    """Rules that are held where one of their tests notices it: those that the line decides; where
    it decides none, those of which the function does not say what decides them.
    """


def break_rules(
    search_terms: Sequence[str], *, seed: int, minutes: float, worker_count: int
) -> int:
    """Break the functions of the rules whose ids or subjects contain a word; all without words.

    Args:
        search_terms: Parts of ids of rules, or of titles of their files.
        seed: Orders the functions: with a time limit, another seed breaks others.
        minutes: After so many no further mutant begins.
        worker_count: How many processes run at the same time.

    Returns:
        The exit status: 1 if a rule is not held, 2 if there is none.
    """
    chosen_rules = choose_rules(search_terms)
    if not chosen_rules:
        print(f"no rule contains {' or '.join(search_terms)}")
        return 2
    functions = {function for rule in chosen_rules for function in rule.decided_in}
    subjects = {rule_file.title for rule_file, rule in rules().values() if rule in chosen_rules}
    sharing = [
        rule
        for rule_file, rule in rules().values()
        if functions & set(rule.decided_in) or rule_file.title in subjects
    ]
    test_ids_by_rule = {rule.id: set(showing_tests(rule)) for rule in sharing}
    named_test_ids = {test_id for test_ids in test_ids_by_rule.values() for test_id in test_ids}

    def use(session: pytest.Session) -> int:
        forked = ForkedTests(session, worker_count=worker_count)
        campaign = RuleCampaign(forked, chosen_rules, sharing, test_ids_by_rule)
        return campaign.run(seed=seed, until_s=time.monotonic() + minutes * 60)

    return with_collected_tests(
        sorted({test_id.partition("::")[0] for test_id in named_test_ids}),
        use,
        markers=MARKERS,
        is_wanted=lambda test_id: (
            test_id in named_test_ids or test_id.partition("[")[0] in named_test_ids
        ),
    )


def choose_rules(search_terms: Sequence[str]) -> list[Rule]:
    """Rules whose id, or whose file's title, contains one of the words."""
    return [
        rule
        for rule_file, rule in rules().values()
        if not search_terms
        or any(term in rule.id or term.lower() in rule_file.title.lower() for term in search_terms)
    ]


def showing_tests(rule: Rule) -> Iterator[str]:
    """The ids of the tests that show a rule; of one with parameters, without them."""
    if rule.elsewhere is not None:
        yield from _tests_elsewhere(rule.elsewhere)
        return
    rule_file, _ = rules()[rule.id]
    yield from rule_file.plays
    for case in cases():
        levels = [level for level in rule.levels if rule.id in case.rule_ids(level)]
        recordings = test_cases.recorded(case.file).get(case.name, {})
        for level in levels:
            # Where Kafka answered as at a higher level, that one is enough.
            higher = [recordings.get(other_level) for other_level in levels if other_level > level]
            if recordings.get(level) not in higher:
                yield f"{CASES_FILE}::{PLAY_TEST}[{test_cases.id_of(case, level)}]"


def _tests_elsewhere(elsewhere_proof: ProofElsewhere) -> Iterator[str]:
    if elsewhere_proof.test:
        yield elsewhere_proof.test
    for proof in elsewhere_proof.recorded:
        folder_path, _, kind = proof.file.rpartition("/")
        if folder_path == "security":
            for question in proof.asked:
                yield f"{SECURITY}::{SECURITY_TEST}[{kind}-{question}]"
        else:
            story, level = max(
                (
                    story_and_level
                    for story_and_level in programme.STORIES
                    if programme.name_of(story_and_level[0]) == proof.file
                ),
                key=lambda story_and_level: story_and_level[1],
            )
            yield f"{REPLAY}::{PLAY_TEST}[{programme.id_of(story, level)}]"


class RuleCampaign:
    """Breaks the functions of rules, and judges what their tests notice.

    Args:
        forked: The tests that rules name.
        chosen: The rules that are judged.
        sharing: All rules that name a function of these, or are of the same subjects.
        named: Ids of tests, by rule.
    """

    def __init__(
        self,
        forked: ForkedTests,
        chosen_rules: Sequence[Rule],
        sharing: Sequence[Rule],
        test_ids_by_rule: dict[str, set[str]],
    ) -> None:
        self._forked = forked
        self._chosen = chosen_rules
        self._sharing = sharing
        self._tests_by_rule = {
            rule.id: [
                test_id
                for test_id in forked.test_ids
                if test_id in test_ids_by_rule[rule.id]
                or test_id.partition("[")[0] in test_ids_by_rule[rule.id]
            ]
            for rule in sharing
        }
        self._modules: dict[str, MutableModule] = {}
        self._noticed: dict[str, int] = defaultdict(int)
        """How many mutations the tests of each rule have noticed."""

    def run(self, *, seed: int, until_s: float) -> int:
        """Try mutants until the time is over, and print survivors; return the exit status."""
        findings = list(self._record_baselines())
        mutants = self._mutants(seed)
        print(f"{len(self._chosen)} rules, {len(mutants)} mutations", flush=True)
        survivors, tried_count = [], 0
        for mutant, outcome in self._run(mutants, until_s):
            tried_count += 1
            if outcome.killed_by is not None:
                for rule_id in mutant.credited_ids:
                    self._noticed[rule_id] += outcome.killed_by in self._tests_by_rule[rule_id]
            elif not outcome.not_mutable:
                survivors.append(mutant)
                print(_survivor_line(mutant), flush=True)
            if tried_count % PROGRESS_EVERY == 0:
                print(
                    f"{tried_count} of {len(mutants)} mutations, {len(survivors)} survive",
                    flush=True,
                )
        if tried_count == len(mutants):
            findings += self._unmoved_rules()
        else:
            print(f"time is up: {len(mutants) - tried_count} mutations are left")
        for finding_text in findings:
            print(finding_text)
        killed = tried_count - len(survivors)
        print(f"{killed} of {tried_count} mutations are noticed; {len(survivors)} survive")
        return 1 if survivors or findings else 0

    def _record_baselines(self) -> Iterator[str]:
        """Run the tests without a mutant.

        Yields:
            A line for each test that fails, and for each rule without a test.
        """
        test_ids = sorted({test for tests in self._tests_by_rule.values() for test in tests})
        for recorded_count in self._forked.record_baselines(test_ids, SOURCE_FOLDER):
            print(f"{recorded_count} of {len(test_ids)} tests without a mutant", flush=True)
        for test_id in test_ids:
            baseline = self._forked.baseline(test_id)
            if not baseline.passed:
                yield f"fails without a mutant: {test_id}\n{baseline.failure}"
        for rule in self._chosen:
            if not self._tests_by_rule[rule.id] and not (
                rule.elsewhere is not None and rule.elsewhere.deviation
            ):
                yield f"no test is collected: {rule.id}"

    def _mutants(self, seed: int) -> list[RuleMutant]:
        """The mutations of all functions of the chosen rules, the functions in drawn order."""
        unseen_ids = unseen_mutants()
        functions = sorted({function for rule in self._chosen for function in rule.decided_in})
        RandomStreams(seed).stream("functions").shuffle(functions)
        mutants = []
        for function in functions:
            module, function_name = self._module_of(function)
            rule_ids = [rule.id for rule in self._sharing if function in rule.decided_in]
            node = module.function_node(function_name)
            lines_by_rule = {rule_id: deciding_lines(node, rule_id) for rule_id in rule_ids}
            unsaid = tuple(rule_id for rule_id, lines in lines_by_rule.items() if not lines)
            for mutation in module.mutations(function_name):
                if mutation.only_observes or mutation.is_switched or mutation.id in unseen_ids:
                    continue
                deciding_rules = tuple(
                    rule_id
                    for rule_id, lines in lines_by_rule.items()
                    if not lines.isdisjoint(mutation.lines)
                )
                mutant = RuleMutant(
                    mutation=mutation,
                    rule_ids=deciding_rules or tuple(rule_ids),
                    credited_ids=deciding_rules or unsaid,
                )
                if self._tests_for(mutant):
                    mutants.append(mutant)
        return mutants

    def _tests_for(self, mutant: RuleMutant, *, with_others: bool = True) -> tuple[str, ...]:
        """The tests that may notice a mutant: first those of its rules, the quickest first."""
        module, _ = self._module_of(mutant.mutation.function)
        test_ids: dict[str, None] = {}
        for rule_id in mutant.rule_ids:
            own_tests = self._reaching(self._tests_by_rule[rule_id], module.path, mutant.mutation)
            test_ids.update(dict.fromkeys(own_tests[:TESTS_MAX]))
        if test_ids and with_others:
            all_tests = {test for tests in self._tests_by_rule.values() for test in tests}
            other_tests = self._reaching(all_tests - set(test_ids), module.path, mutant.mutation)
            # What lies beside a rule is shown by cases of the same files.
            files = {_file_of(test_id) for test_id in test_ids}
            other_tests.sort(key=lambda test_id: _file_of(test_id) not in files)
            return (*self._by_time(test_ids), *other_tests[:OTHER_TESTS_MAX])
        return tuple(self._by_time(test_ids))

    def _reaching(self, test_ids: Iterable[str], path: Path, mutation: Mutation) -> list[str]:
        """The tests that execute a mutation's lines, the quickest first."""
        baselines = {test_id: self._forked.baseline(test_id) for test_id in test_ids}
        return self._by_time(
            test_id
            for test_id, baseline in baselines.items()
            if baseline.passed and baseline.reaches(path, mutation.lines)
        )

    def _by_time(self, test_ids: Iterable[str]) -> list[str]:
        return sorted(
            test_ids, key=lambda test_id: (self._forked.baseline(test_id).seconds, test_id)
        )

    def _run(
        self, mutants: Sequence[RuleMutant], until_s: float, *, with_others: bool = True
    ) -> Iterator[tuple[RuleMutant, MutantOutcome]]:
        runs = [
            MutantRun(
                module=self._module_of(mutant.mutation.function)[0],
                mutation=mutant.mutation,
                test_ids=self._tests_for(mutant, with_others=with_others),
            )
            for mutant in mutants
        ]
        for index, outcome in self._forked.run(runs, until_s=until_s):
            yield mutants[index], outcome

    def _unmoved_rules(self) -> Iterator[str]:
        """A line for each rule whose tests notice no mutation of its function."""
        for rule in self._chosen:
            test_ids = self._tests_by_rule[rule.id]
            if not test_ids or self._noticed[rule.id]:
                continue
            reached = [
                function for function in rule.decided_in if self._reaches(test_ids, function)
            ]
            if not reached:
                yield f"no test executes {' or '.join(rule.decided_in)}: {rule.id}"
            elif not self._notices_any(rule):
                yield f"its tests notice no mutation of {' or '.join(reached)}: {rule.id}"

    def _reaches(self, test_ids: Sequence[str], function: str) -> bool:
        module, function_name = self._module_of(function)
        node = module.function_node(function_name)
        body = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
        return any(
            self._forked.baseline(test_id).reaches(module.path, body) for test_id in test_ids
        )

    def _notices_any(self, rule: Rule) -> bool:
        """Whether tests of this rule alone notice a mutation: of the lines that decide it, where
        the code says which. True if there is nothing to break.
        """
        mutants = []
        for function in rule.decided_in:
            module, function_name = self._module_of(function)
            lines = deciding_lines(module.function_node(function_name), rule.id)
            mutants += [
                RuleMutant(mutation=mutation, rule_ids=(rule.id,), credited_ids=(rule.id,))
                for mutation in module.mutations(function_name)
                if not lines or not lines.isdisjoint(mutation.lines)
            ]
        mutants = [mutant for mutant in mutants if self._tests_for(mutant, with_others=False)]
        outcomes = self._run(mutants, time.monotonic() + 3_600, with_others=False)
        return not mutants or any(outcome.killed_by is not None for _, outcome in outcomes)

    def _module_of(self, function: str) -> tuple[MutableModule, str]:
        module_name, _, function_name = function.partition(":")
        if module_name not in self._modules:
            self._modules[module_name] = MutableModule(module_name)
        return self._modules[module_name], function_name


def _file_of(test_id: str) -> str:
    """The file of cases of a play; the test's own file for another test."""
    path, _, parameters = test_id.partition("[")
    return parameters.rpartition("/")[0] if path.startswith(CASES_FILE) else path.partition("::")[0]


def _survivor_line(mutant: RuleMutant) -> str:
    return f"survives: {mutant.mutation}  ({', '.join(mutant.rule_ids)})"
