"""RESULTS.md: what the suites of other projects say, from stored results and reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.peers.record import StoredSuite, StoredTest, load
from tests.peers.suite import PeerResult, PeerTarget, Suite
from tests.peers.suites import all_suites

INTRODUCTION: Final = """\
Projects that speak to Kafka have tests of their own. Here they are pointed at simulated brokers
over TCP, unmodified, as they come from their package registry, or from the sources of a tag where
a package holds no tests. Where a test does not pass, the reason stands beside it, and where that
was asked, what a real Apache Kafka (4.4.0, in older rows 4.3.1) makes of it."""

_FROM_A_TAG: Final = "They were played from the sources of a tag (above)."
NOT_TO_BE_HAD: Final = {
    "aiokafka": f"Its source distributions hold no tests. {_FROM_A_TAG}",
    "kafkajs": f"Its npm package holds one test, of a default. {_FROM_A_TAG}",
    "confluent-kafka (Python)": "Its source distribution holds programs for Kafka's system tests.",
    "Confluent's JavaScript client, @platformatic/kafka": "Their npm packages hold none.",
    "Confluent's .NET client": "NuGet could not be reached where this was written.",
    "node-rdkafka": "Its npm package holds tests. With Node.js 20, 3.6.1 ends in a segmentation "
    "fault in the middle of them.",
    "rskafka": "Its crate, 0.6.0, holds tests. They need rsasl 2.2.0, which Rust 1.95 refuses.",
    "kafka (Rust), samsa": "Their crates' tests want containers by name, or Redpanda.",
}
"""Client → why the page has no verdict of its tests, or none from its package."""

RUNNING: Final = """\
```
python -m tests.peers.run                     # all of them
python -m tests.peers.run go --suite sarama   # one suite; --list names them
python -m tests.peers.run go --suite kfake --test TestGroupMaxSize848 --target apache
python -m tests.peers.run --write             # keep the results, then python -m tests.docs --write
```

What a suite needs is fetched and built on first use, and lies in `.cache/`."""


def sections() -> Iterator[str]:
    """The sections of the page."""
    stored_suites = load()
    yield INTRODUCTION
    yield _overview(stored_suites)
    for suite in all_suites():
        if suite.name in stored_suites:
            yield _section(suite, stored_suites[suite.name])
    yield f"## Not to be had\n\n{_not_to_be_had()}"
    yield f"## Running them\n\n{RUNNING}"


def _not_to_be_had() -> str:
    rows = [f"| {client} | {reason} |" for client, reason in NOT_TO_BE_HAD.items()]
    return "\n".join(["| Client | Why |", "| --- | --- |", *rows])


def _overview(stored_suites: dict[str, StoredSuite]) -> str:
    lines = ["| Suite | Version | Passed | Failed | Skipped |", "| --- | --- | --- | --- | --- |"]
    for suite in all_suites():
        if suite.name not in stored_suites:
            continue
        tests = list(stored_suites[suite.name].tests.values())
        cells = [sum(_ours(test) is result for test in tests) for result in PeerResult]
        name = f"[{suite.project}](#{_anchor(suite)})"
        lines.append(
            f"| {name} | {stored_suites[suite.name].version} | {' | '.join(map(str, cells))} |"
        )
    return "\n".join(lines)


def _section(suite: Suite, stored_suite: StoredSuite) -> str:
    parts = [
        f"## {suite.project}",
        f"{suite.source} *Pointed at:* {suite.cluster[0].lower()}{suite.cluster[1:]}",
    ]
    not_passed = {
        name: test
        for name, test in stored_suite.tests.items()
        if _ours(test) is not PeerResult.PASSED
    }
    if not_passed:
        rows = [
            f"| `{name}` | {_ours(test) or 'not asked'} "
            f"| {test.by_target.get(PeerTarget.APACHE, '')} "
            f"| {_cell(suite.why(name) or _same_on_apache(test) or test.message)} |"
            for name, test in sorted(not_passed.items())
        ]
        head = ["| Not passed | txnsim | Apache Kafka | Why |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([*head, *rows]))
    passed_tests = sorted(
        name for name, test in stored_suite.tests.items() if name not in not_passed
    )
    parts.append(f"Passed: {', '.join(f'`{name}`' for name in passed_tests)}.")
    return "\n\n".join(parts)


def _same_on_apache(test: StoredTest) -> str:
    is_same = _ours(test) is test.by_target.get(PeerTarget.APACHE)
    return f"The same on a real Apache Kafka. {test.message}" if is_same else ""


def _ours(test: StoredTest) -> PeerResult | None:
    return test.by_target.get(PeerTarget.TXNSIM)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(suite: Suite) -> str:
    """The anchor that GitHub gives to the heading."""
    letters = (letter for letter in suite.project.lower() if letter.isalnum() or letter in "- ")
    return "".join(letters).replace(" ", "-")
