"""The results of a run of the conformance cases, also as JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Final
from xml.etree import ElementTree

import msgspec


class CaseOutcome(StrEnum):
    """Whether a broker answered a case as Kafka did, or the case does not apply to it."""

    PASSED = "passed"
    DIFFERS = "differs"
    NOT_APPLICABLE = "not applicable"


class AnswerDifference(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that differs from Kafka's."""

    request: str
    answer: Any
    """The broker's answer as plain values; ids, addresses and times that a broker may choose are
    normalised.
    """
    kafka: Any
    """Kafka's answer, in the same form."""
    fields: tuple[str, ...]
    """The fields that differ: ``FIELD: Kafka's != the broker's``."""
    rules: tuple[str, ...] = ()
    """Rules of docs/rules.md that the answer shows."""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """A case, whether the broker passed it, and where its answers differ from Kafka's."""

    case: str
    """Name of the case as FILE/NAME."""
    outcome: CaseOutcome
    rules: tuple[str, ...] = ()
    """All rules that the case shows."""
    differences: tuple[AnswerDifference, ...] = ()
    because: str = ""
    seconds: float = 0.0


class ConformanceResults(msgspec.Struct, frozen=True, kw_only=True):
    """All results of one broker."""

    bootstrap: str
    release: str
    """The release of Apache Kafka that the broker claims to be."""
    answered_by: str
    """The Kafka release whose recorded answers are compared."""
    transaction_version: int
    """The level that the cluster has finalized."""
    lacks: tuple[str, ...]
    """APIs and versions that the release has and the broker does not offer."""
    results: tuple[CaseResult, ...]
    left_behind: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    """All cases to play, as FILE/NAME."""
    is_stopped: bool = False
    """Whether the run was stopped early: ``results`` then has only a part of ``cases``."""

    def files_left(self) -> list[str]:
        """Files of the casebook with cases that were not played."""
        played_ids = {result.case for result in self.results}
        unplayed_ids = (case_id for case_id in self.cases if case_id not in played_ids)
        return list(dict.fromkeys(case_id.rpartition("/")[0] for case_id in unplayed_ids))

    def outcome_count(self, outcome: CaseOutcome) -> int:
        return sum(result.outcome is outcome for result in self.results)

    def rules(self) -> tuple[set[str], set[str]]:
        """Rules that all cases confirmed, and rules that some answer broke."""
        broken_rules = {
            rule
            for result in self.results
            for difference in result.differences
            for rule in difference.rules
        }
        shown_rules = {
            rule
            for result in self.results
            if result.outcome is not CaseOutcome.NOT_APPLICABLE
            for rule in result.rules
        }
        unplayed_rules = {
            rule
            for result in self.results
            if result.outcome is CaseOutcome.DIFFERS and result.because
            for rule in result.rules
        }
        return shown_rules - broken_rules - unplayed_rules, broken_rules


_JSON_CHARS_MAX: Final = 500


def result_lines(result: CaseResult) -> Iterator[str]:
    """Describe a case that differs."""
    yield f"{result.case}: {result.outcome}"
    if result.because:
        yield f"  {result.because}"
    for difference in result.differences:
        rules_phrase = f" ({', '.join(difference.rules)})" if difference.rules else ""
        yield f"  {difference.request}{rules_phrase}"
        for field in difference.fields[:6]:
            yield f"    {_shorten_text(field)}"
        yield f"    answer {_shorten_text(_to_json(difference.answer))}"
        yield f"    Kafka  {_shorten_text(_to_json(difference.kafka))}"


def junit_xml(run: ConformanceResults) -> str:
    """All results as JUnit XML; each case is a test case."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"txnsim conformance, Kafka {run.release}",
        tests=str(len(run.results)),
        failures=str(run.outcome_count(CaseOutcome.DIFFERS)),
        skipped=str(run.outcome_count(CaseOutcome.NOT_APPLICABLE)),
        errors="0",
        time=f"{sum(result.seconds for result in run.results):.3f}",
    )
    for result in run.results:
        file, _, case_name = result.case.rpartition("/")
        test_case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=file.replace("/", "."),
            name=case_name,
            time=f"{result.seconds:.3f}",
        )
        if result.outcome is CaseOutcome.NOT_APPLICABLE:
            ElementTree.SubElement(test_case, "skipped", message=result.because)
        elif result.outcome is CaseOutcome.DIFFERS:
            failure = ElementTree.SubElement(test_case, "failure", message=_failure_message(result))
            failure.text = "\n".join(result_lines(result))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def outcome_counts_by_file(results: Iterable[CaseResult]) -> dict[str, dict[CaseOutcome, int]]:
    """Number of cases by file and outcome."""
    counts: dict[str, dict[CaseOutcome, int]] = {}
    for result in results:
        file_counts = counts.setdefault(
            result.case.rpartition("/")[0], dict.fromkeys(CaseOutcome, 0)
        )
        file_counts[result.outcome] += 1
    return counts


def _failure_message(result: CaseResult) -> str:
    if result.because:
        return result.because
    return "; ".join(difference.request for difference in result.differences)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shorten_text(text: str) -> str:
    return text if len(text) <= _JSON_CHARS_MAX else f"{text[:_JSON_CHARS_MAX]}…"
