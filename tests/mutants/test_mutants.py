"""The program that breaks the product: what it breaks, what takes effect, what it reports."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.forked_processes import ForkedProcesses
from tests.mutants.mutation import (
    MutableModule,
    Mutation,
    NotMutableError,
    deciding_lines,
    running_functions,
)
from tests.mutants.room_mutants import ROOMS, draw_mutations, folder_with_tests, modules_of
from tests.mutants.rule_mutants import choose_rules, showing_tests
from tests.mutants.unseen_mutants import unseen_mutants
from txnsim_lab.conformance._book.casebook_reader import rules

ROOT = Path(__file__).parents[2]
SAMPLE = '''
from __future__ import annotations
from contextlib import contextmanager
from functools import cache, cached_property
from txnsim.errors import ErrorCode

def is_within(number: int, limit: int = 7) -> bool:
    """Docstrings stay."""
    assert limit > 0
    return 0 <= number < limit

def rejection_of(text: str, names: list[str]) -> ErrorCode:
    if not text:
        return ErrorCode.invalid_request
    if text in names and any(name for name in names):
        names.append(text)
        return reject(ErrorCode.unknown_server_error, "sample.known")
    return ErrorCode.none

def reject(error: ErrorCode, rule: str) -> ErrorCode:
    return error

def pairs(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    assert len(left) < 1_000
    match left:
        case list():
            return list(zip(left, right, strict=True))
        case _:
            assert_never(left)

@cache
def doubled(number: int) -> int:
    return number + number

@contextmanager
def counted(counts: list[int]):
    counts.append(1)
    yield counts

class Box:
    def __init__(self) -> None:
        self.number = 1

    @property
    def is_full(self) -> bool:
        return self.number > 2

    @classmethod
    def limit(cls) -> int:
        return 2

    @cached_property
    def total(self) -> int:
        return self.number - 1

    async def fill(self) -> None:
        self.number += 5
'''


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MutableModule]:
    (tmp_path / "mutants_sample.py").write_text(textwrap.dedent(SAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield MutableModule("mutants_sample")
    sys.modules.pop("mutants_sample", None)


def mutations(module_sample: MutableModule, function_name: str) -> list[tuple[str, str, str]]:
    return [
        (mutation.kind, mutation.before, mutation.after)
        for mutation in module_sample.mutations(function_name)
    ]


def find_mutation(module_sample: MutableModule, function_name: str, text_after: str) -> Mutation:
    (mutation,) = (
        mutation
        for mutation in module_sample.mutations(function_name)
        if mutation.after == text_after
    )
    return mutation


# mutation


def test_an_order_is_moved_by_one_and_turned_round(sample: MutableModule) -> None:
    assert mutations(sample, "is_within") == [
        ("comparison", "0 <= number < limit", "0 < number < limit"),
        ("comparison", "0 <= number < limit", "0 <= number <= limit"),
        ("comparison", "0 <= number < limit", "0 <= number >= limit"),
        ("comparison", "0 <= number < limit", "0 > number < limit"),
        ("constant", "0 <= number < limit", "1 <= number < limit"),
    ]


def test_conditions_errors_and_statements_are_broken(sample: MutableModule) -> None:
    found_mutations = mutations(sample, "rejection_of")
    assert ("boolean", "not text", "not not text") in found_mutations
    assert ("operand", "text in names", "True") in found_mutations
    assert ("comparison", "text in names", "text not in names") in found_mutations
    known = "text in names and any((name for name in names))"
    assert ("boolean", known, known.replace(" and ", " or ")) in found_mutations
    assert (
        "function",
        "any((name for name in names))",
        "all((name for name in names))",
    ) in found_mutations
    assert ("statement", "names.append(text)", "(left out)") in found_mutations
    assert ("statement", "return ErrorCode.invalid_request", "(left out)") in found_mutations
    invalid, unknown = ("return ErrorCode.invalid_request", "return ErrorCode.unknown_server_error")
    assert ("error", invalid, unknown) in found_mutations
    assert not any(
        text_before == "return ErrorCode.none"
        for _, text_before, text_after in found_mutations
        if not text_after
    )


def test_assertions_stay(sample: MutableModule) -> None:
    assert mutations(sample, "pairs") == []


def test_a_statement_is_named_once_however_often_it_stands_there(sample: MutableModule) -> None:
    for function_name in sample.function_names:
        ids = [mutation.id for mutation in sample.mutations(function_name)]
        assert len(ids) == len(set(ids))


def test_the_tree_is_as_before_when_mutations_have_been_listed(sample: MutableModule) -> None:
    for function_name in sample.function_names:
        assert mutations(sample, function_name) == mutations(sample, function_name)


def test_what_was_imported_elsewhere_has_the_mutant_too(sample: MutableModule) -> None:
    is_within = sample.module.is_within
    assert not is_within(7)
    sample.install(find_mutation(sample, "is_within", "0 <= number <= limit"))
    assert is_within(7)


def full_box(module: ModuleType) -> bool:
    box = module.Box()
    box.number = 2
    return bool(box.is_full)


def counts_within(module: ModuleType) -> list[int]:
    with module.counted([]) as counts:
        return list(counts)


@pytest.mark.parametrize(
    ("function_name", "text_after", "is_broken"),
    [
        ("Box.is_full", "self.number >= 2", full_box),
        ("Box.limit", "return 3", lambda module: module.Box.limit() == 3),
        ("Box.total", "self.number + 1", lambda module: module.Box().total == 2),
        ("doubled", "number - number", lambda module: module.doubled(4) == 0),
        ("counted", "(left out)", lambda module: counts_within(module) == []),
    ],
)
def test_decorated_functions_are_broken_within(
    sample: MutableModule,
    function_name: str,
    text_after: str,
    is_broken: Callable[[ModuleType], bool],
) -> None:
    assert sample.module.doubled(4) == 8  # it is remembered, and has to be forgotten
    assert not is_broken(sample.module)
    sample.install(find_mutation(sample, function_name, text_after))
    assert is_broken(sample.module)


def test_a_function_that_is_not_there_is_refused(sample: MutableModule) -> None:
    with pytest.raises(NotMutableError, match="no function none_such"):
        sample.mutations("none_such")
    assert running_functions(sample.module, "none_such") == []


def test_the_lines_of_a_rule_are_its_statement_and_the_condition_above(
    sample: MutableModule,
) -> None:
    node = sample.function_node("rejection_of")
    lines = SAMPLE.splitlines()
    assert sorted(lines[line - 1].strip() for line in deciding_lines(node, "sample.known")) == [
        "if text in names and any(name for name in names):",
        'return reject(ErrorCode.unknown_server_error, "sample.known")',
    ]
    assert deciding_lines(node, "sample.unknown") == set()


# forked_processes


def test_a_process_that_hangs_is_killed_and_the_others_go_on(tmp_path: Path) -> None:
    def hang(result_file: Path) -> None:
        while True:
            pass

    def answer(result_file: Path) -> None:
        result_file.write_text(json.dumps("done"))

    def fail(result_file: Path) -> None:
        raise AssertionError

    processes = ForkedProcesses(tmp_path, worker_count=2)
    outcomes = {
        index: (result, is_signalled)
        for index, result, is_signalled in processes.run(
            [(hang, 0.1), (answer, 60.0), (fail, 60.0)]
        )
    }
    assert outcomes == {0: (None, True), 1: ("done", False), 2: (None, False)}


def test_no_job_begins_when_time_is_up(tmp_path: Path) -> None:
    processes = ForkedProcesses(tmp_path, worker_count=1)
    assert list(processes.run([(Path.touch, 60.0)], until_s=0.0)) == []


# rule_mutants


def test_rules_are_chosen_by_id_or_title() -> None:
    assert {rule.id for rule in choose_rules(["timeout.s"])} == {"timeout.strictly"}
    assert {rule.id.partition(".")[0] for rule in choose_rules(["fetch sessions"])} == {"session"}
    assert len(choose_rules([])) == len(rules())


def test_a_rule_names_plays_tests_or_transcripts() -> None:
    (strict_rule,) = choose_rules(["timeout.strictly"])
    assert list(showing_tests(strict_rule)) == [
        "tests/broker/txn/test_machine.py::test_a_transaction_lives_for_all_of_its_timeout"
    ]
    (unauthorized_rule,) = choose_rules(["init.unauthorized"])
    assert (
        "tests/conformance/test_security.py::test_the_answer_is_that_of_apache_kafka"
        "[denied-InitProducerId v0 without any right]"
    ) in showing_tests(unauthorized_rule)
    (idle_rule,) = choose_rules(["timeout.idle"])
    plays, *case_plays = showing_tests(idle_rule)
    assert plays.partition("::")[0] == "tests/conformance/test_recorded_play.py"
    assert all(test_id.startswith("tests/conformance/test_cases.py::") for test_id in case_plays)
    assert case_plays


@pytest.mark.costly
def test_a_rule_that_is_held_is_reported_as_held_and_no_file_changes() -> None:
    source_path = ROOT / "sim/txnsim/txn/machine_init.py"
    text_before = source_path.read_bytes()
    command = [sys.executable, "-m", "tests.mutants", "rules", "--rules", "init.two-phase-off"]
    finished_process = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "mutations are noticed" in finished_process.stdout, (
        finished_process.stdout + finished_process.stderr
    )
    assert source_path.read_bytes() == text_before


# room_mutants


def test_the_same_seed_draws_the_same_mutants() -> None:
    first_draw, second_draw, other_draw = (
        [mutation.id for _, mutation in draw_mutations("share_state", seed=seed, count=4)]
        for seed in (1, 1, 2)
    )
    assert first_draw == second_draw != other_draw
    assert len(set(first_draw)) == 4


def test_each_room_has_modules_and_tests() -> None:
    for room in ROOMS:
        assert modules_of(room)
        assert list((ROOT / folder_with_tests(room)).rglob("test_*.py"))


# unseen_mutants


def test_every_unseen_mutant_is_a_mutation_with_a_reason() -> None:
    modules: dict[str, MutableModule] = {}
    for mutation_id, reason in unseen_mutants().items():
        module_name, _, rest = mutation_id.partition(":")
        function_name = rest.partition(" | ")[0]
        importlib.import_module(module_name)
        module = modules.setdefault(module_name, MutableModule(module_name))
        assert mutation_id in {mutation.id for mutation in module.mutations(function_name)}
        assert reason.strip()
