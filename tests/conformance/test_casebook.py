"""The casebook is whole: every rule is shown at each of its levels, every name leads somewhere."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests import docs
from tests.conformance.casebook import other_transcripts
from tests.conformance.programme import LEVELS
from txnsim import coordinators, log, txn
from txnsim.broker import verification
from txnsim.config.yaml_bounds import read_mapping
from txnsim.node import log_events
from txnsim.replica import replicas
from txnsim.runtime.trace_kinds import KINDS
from txnsim_lab.conformance._book import answers
from txnsim_lab.conformance._book.casebook_reader import (
    all_files,
    broker_configs,
    cases,
    rule_files,
    rules,
)

CASES_MIN = 300
NAMED_MIN = 180
"""Rules that decisions, refusals, markers and appends name for the trace."""
EXPLAINING = (coordinators, log, log_events, replicas, txn, verification)
ROW_ID = re.compile(r"[a-z0-9-]+(\.[A-Za-z0-9-]+)+")
FILE_BYTES_MAX = 400_000
ALL_BYTES_MAX = 4_000_000
ROOT = Path(docs.__file__).parents[1]


def none_of(offenders: Iterable[str], advice: str) -> None:
    offenders_found = sorted(offenders)
    assert not offenders_found, f"{advice}:\n" + "\n".join(offenders_found)


def test_no_key_is_given_twice() -> None:
    for path in all_files():
        read_mapping(path.read_bytes(), file=path.name)


def test_every_rule_is_shown_at_each_of_its_levels() -> None:
    levels_by_rule: dict[str, set[int]] = defaultdict(set)
    for case in cases():
        for transaction_version in LEVELS:
            for row in case.rule_ids(transaction_version):
                levels_by_rule[row].add(transaction_version)
    none_of(
        (
            f"{rule.id}: at {', '.join(map(str, missing))}"
            for _, rule in rules().values()
            if rule.elsewhere is None
            and (missing := sorted(set(rule.levels) - levels_by_rule[rule.id]))
        ),
        "no case shows",
    )


def test_every_row_that_a_case_names_is_a_rule() -> None:
    none_of(
        (
            f"{case.id}: {row}"
            for case in cases()
            for transaction_version in LEVELS
            for row in case.rule_ids(transaction_version)
            if row not in rules()
        ),
        "unknown rules",
    )


def test_a_rule_that_a_case_shows_does_not_point_elsewhere() -> None:
    rules_shown = {
        row
        for case in cases()
        for transaction_version in LEVELS
        for row in case.rule_ids(transaction_version)
    }
    none_of((row for row in rules_shown if rules()[row][1].elsewhere), "shown by a case after all")


def is_test(test_id: str) -> bool:
    path, _, name = test_id.partition("::")
    file = ROOT / path
    return file.exists() and f"def {name}(" in file.read_text("utf-8")


def test_the_recorded_plays_of_a_file_of_rules_exist() -> None:
    plays = [test_id for rule_file in rule_files() for test_id in rule_file.plays]
    assert plays
    none_of((test_id for test_id in plays if not is_test(test_id)), "no such test")


def test_what_shows_a_rule_elsewhere_exists() -> None:
    deviations = " ".join((ROOT / "DEVIATIONS.md").read_text("utf-8").split())
    complaints = []
    for _, rule in rules().values():
        match rule.elsewhere:
            case None:
                continue
            case elsewhere if elsewhere.test:
                if not is_test(elsewhere.test):
                    complaints.append(f"{rule.id}: no test {elsewhere.test}")
            case elsewhere if elsewhere.recorded:
                complaints += other_transcripts.recording_complaints(rule)
            case elsewhere:
                if elsewhere.deviation not in deviations:
                    complaints.append(
                        f"{rule.id}: DEVIATIONS.md does not say {elsewhere.deviation!r}"
                    )
    none_of(complaints, "what rules point to is gone")


def test_every_rule_names_the_function_that_decides_it() -> None:
    function_names = {
        function_name for _, rule in rules().values() for function_name in rule.decided_in
    }
    none_of(
        (function_name for function_name in function_names if not is_function(function_name)),
        "no such function",
    )


def test_a_name_that_leads_nowhere_is_noticed() -> None:
    module_name = __name__
    assert is_function(f"{module_name}:is_function")
    assert not is_function(f"{module_name}:none_such")
    assert not is_function(f"{module_name}:ROOT")
    assert not is_function(f"{module_name}.none_such:is_function")
    assert not is_function("is_function")


def is_function(function_name: str) -> bool:
    """Whether ``module:qualified name`` is a function, a method or a property."""
    module_name, _, qualified = function_name.partition(":")
    try:
        member_found: object = importlib.import_module(module_name)
        for attribute_name in qualified.split("."):
            member_found = vars(member_found)[attribute_name]
    except (ImportError, KeyError, TypeError):
        return False
    if isinstance(member_found, property):
        member_found = member_found.fget
    return inspect.isroutine(
        inspect.unwrap(member_found) if callable(member_found) else member_found
    )


def test_every_rule_that_the_code_names_is_one() -> None:
    path_by_rule = {
        text: path.name
        for path in explaining()
        for text in texts_in(path)
        if ROW_ID.fullmatch(text) and text.partition(".")[0] in subjects() and text not in KINDS
    }
    none_of(
        (f"{path}: {rule_id}" for rule_id, path in path_by_rule.items() if rule_id not in rules()),
        "no rule",
    )
    assert len(path_by_rule) >= NAMED_MIN


def explaining() -> Iterator[Path]:
    """Files whose decisions, refusals, markers and appends name a row for the trace."""
    for module in EXPLAINING:
        assert module.__file__ is not None
        path = Path(module.__file__)
        yield from path.parent.rglob("*.py") if path.stem == "__init__" else [path]


def texts_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def subjects() -> frozenset[str]:
    """The first parts of all rule ids, up to the dot."""
    return frozenset(rule.partition(".")[0] for rule in rules())


def test_every_case_has_a_broker_that_is_configured() -> None:
    none_of((case.id for case in cases() if case.broker not in broker_configs()), "no such broker")
    none_of(set(broker_configs()) - {case.broker for case in cases()}, "brokers that no case needs")


def test_there_are_as_many_cases_as_promised() -> None:
    assert len(cases()) >= CASES_MIN


def test_every_play_is_recorded_and_every_recording_is_played() -> None:
    play_keys = {(case.file, case.name, level) for case in cases() for level in case.text.levels}
    recorded_plays = {
        (file, name, level)
        for file in answers.recorded_files()
        for name, book in answers.read_recordings(file).items()
        for level in book
    }
    none_of(
        map(str, play_keys - recorded_plays),
        "record them: python -m tests.conformance.record_cases",
    )
    none_of(map(str, recorded_plays - play_keys), "no such play; record the file anew")


def test_transcripts_are_small_enough_to_be_read_in_a_review() -> None:
    sizes = {
        file: answers.transcript_path(file).stat().st_size for file in answers.recorded_files()
    }
    assert max(sizes.values()) <= FILE_BYTES_MAX
    assert sum(sizes.values()) <= ALL_BYTES_MAX


def test_the_real_broker_refuses_to_keep_a_prepared_transaction() -> None:
    """On the day when Kafka ships KIP-939 its recorded answer changes, and this test fails: then
    the rule of ``txn.two_phase`` is to be compared with Kafka's and moved to the ordinary listener.
    """
    answers_file = ROOT / "sim/txnsim_lab/conformance/casebook/answers/coordinator/two_phase.jsonl"
    lines = [json.loads(line) for line in answers_file.read_text().splitlines()]
    (answer,) = (
        line["says"] for line in lines if line.get("ask") == "InitProducerId v6 keep prepared"
    )
    assert answer["error_code"] == "35 unsupported_version"
    assert answer["ongoing_txn_producer_id"] == -1
