"""The rules with the cases that show them, as a page: ``docs/rules.md``, by ``tests.docs``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from txnsim_lab.conformance._book.casebook_reader import Case, cases, rule_files
from txnsim_lab.conformance._book.model import TXN_LEVELS, Rule, RuleFile

CASES_TOLD_MAX: Final = 4
"""Cases that are named for a rule; the files have the others."""

INTRODUCTION: Final = """\
What a broker decides about transactions, row by row, in our words: which answer shows it, which
class of Kafka and which function of txnsim decide it, and which cases prove it. A real Apache Kafka
{kafka} has answered every case at each level of `transaction.version`, and every test run holds the
simulator against those answers. A row is one line: `grep` its words or its id here to learn where a
rule is. How cases are written: [tests/conformance/CASES.md](../tests/conformance/CASES.md).

{rules} rules, {shown} of them shown by {cases} cases in {plays} plays, and {recorded} by what a
real Kafka has answered to stories and to a guest with few rights. The other {others} can't be
reached from outside on a cluster that is well; they say which test shows them."""

HEAD: Final = ("Rule", "What is decided", "Answer", "Decided in", "Shown by")


def introduction(kafka: str) -> str:
    rules = [rule for file in rule_files() for rule in file.rules]
    rules_shown = sum(rule.elsewhere is None for rule in rules)
    recorded_count = sum(
        rule.elsewhere is not None and bool(rule.elsewhere.recorded) for rule in rules
    )
    return INTRODUCTION.format(
        kafka=kafka,
        rules=len(rules),
        shown=rules_shown,
        recorded=recorded_count,
        others=len(rules) - rules_shown - recorded_count,
        cases=len(cases()),
        plays=sum(len(case.text.levels) for case in cases()),
    )


def sentence_of_plays(file: RuleFile) -> str:
    """Which recorded plays hold the rules of a file besides its cases; empty without any."""
    paths = dict.fromkeys(test_id.partition("::")[0] for test_id in file.plays)
    links = " and ".join(f"[{path.rpartition('/')[2]}](../{path})" for path in paths)
    return f"Besides the cases, recorded plays hold these rules: {links}." if links else ""


def subjects() -> Iterator[tuple[RuleFile, list[tuple[str, ...]]]]:
    """Each file of rules with the rows of its table."""
    cases_by_rule = _cases_by_rule()
    for file in rule_files():
        yield file, [_row(file, rule, cases_by_rule[rule.id]) for rule in file.rules]


def _cases_by_rule() -> Mapping[str, list[Case]]:
    cases_by_rule: dict[str, list[Case]] = defaultdict(list)
    for case in cases():
        for row in sorted(
            {
                row
                for transaction_version in TXN_LEVELS
                for row in case.rule_ids(transaction_version)
            }
        ):
            cases_by_rule[row].append(case)
    return cases_by_rule


def _row(file: RuleFile, rule: Rule, proof_cases: list[Case]) -> tuple[str, ...]:
    source = rule.source or file.source
    says = " ".join(rule.says.split())
    if rule.levels != TXN_LEVELS:
        says += f" *(at level {' and '.join(map(str, rule.levels))})*"
    answers = " or ".join(
        "none" if answer_text == "NONE" else f"`{answer_text}`" for answer_text in rule.answers
    )
    decided_in = ", ".join(f"`{function_name}`" for function_name in rule.decided_in)
    return f"`{rule.id}`", f"{says} `{source}`", answers, decided_in, _proof(rule, proof_cases)


def _proof(rule: Rule, proof_cases: list[Case]) -> str:
    proof = rule.elsewhere
    if proof is None:
        return _case_links(proof_cases)
    reason = " ".join(proof.why.split())
    if proof.test:
        path, _, name = proof.test.partition("::")
        return f"[{name}](../{path}). {reason}"
    if proof.recorded:
        links = (
            f"[{recorded_file.file}](../tests/conformance/transcripts/{recorded_file.file}.jsonl): "
            + ", ".join(f"`{question}`" for question in recorded_file.asked)
            for recorded_file in proof.recorded
        )
        return f"{'; '.join(links)}. {reason}"
    return f"[DEVIATIONS](../DEVIATIONS.md). {reason}"


def _case_links(proofs: Iterable[Case]) -> str:
    names = list(dict.fromkeys((case.file, case.text.name) for case in proofs))
    links = [
        f"[{file.split('/')[1]}: {name}](../sim/txnsim_lab/conformance/casebook/cases/{file}.yaml)"
        for file, name in names[:CASES_TOLD_MAX]
    ]
    unnamed = len(names) - len(links)
    return ", ".join(links) + (f" and {unnamed} more" if unnamed else "")
