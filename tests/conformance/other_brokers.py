"""Have several brokers play the cases, for the table of docs/conformance.md.

::

    python -m tests.conformance.other_brokers                 # all: Java 17, Maven, Go
    python -m tests.conformance.other_brokers txnsim kfake
"""

from __future__ import annotations

import contextlib
import datetime
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import libversion

from benchmarks.build import build_go_program
from tests.conformance.cluster_setups import ClusterSetup, kafka_on, simulator_on
from tests.support.console import say
from tests.support.patience import until
from txnsim_lab.conformance.results import CaseOutcome, ConformanceResults, outcome_counts_by_file
from txnsim_lab.conformance.run import needed_settings

KEPT: Final = Path(__file__).with_name("other_brokers.json")
GROUND: Final = ClusterSetup(
    name="conformance",
    properties=needed_settings(),
    kafka_only={"broker.session.timeout.ms": "120000"},  # on a busy machine heartbeats come late
)
KFAKE: Final = Path(__file__).parents[2] / "benchmarks/kfake/go.mod"

MOCK: Final = """\
import sys
from confluent_kafka import Producer

producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
(broker,) = producer.list_topics(timeout=30).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table of brokers."""

    broker: str
    version: str
    claims: str
    day: str
    transaction_version: int
    passed: int
    differs: int
    not_applicable: int
    kept: int
    broken: tuple[str, ...]
    """Rules."""
    lacks: tuple[str, ...]
    files: Mapping[str, Mapping[str, int]]
    """Counts by file of cases."""
    left_behind: tuple[str, ...]


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that the casebook is played on."""

    name: str
    release: str
    version: Callable[[], str]
    started: Callable[[], AbstractContextManager[str]]
    patience_s: float = 10.0


def main(arguments: Sequence[str]) -> int:
    brokers = [broker for broker in BROKERS if not arguments or broker.name in arguments]
    rows = {row.broker: row for row in kept_rows()}
    for broker in brokers:
        with broker.started() as address:
            rows[broker.name] = _row(broker, _ask_conformance(broker, address))
        row = rows[broker.name]
        _keep(rows)
        counts_text = (
            f"{row.passed} passed, {row.differs} differ, {row.not_applicable} do not apply"
        )
        say(f"{row.broker}: {counts_text}")
    return 0


def _keep(rows: Mapping[str, Row]) -> None:
    ordered_rows = [rows[broker.name] for broker in BROKERS if broker.name in rows]
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(ordered_rows), indent=1) + b"\n")


def kept_rows() -> list[Row]:
    return msgspec.json.decode(KEPT.read_bytes(), type=list[Row]) if KEPT.exists() else []


def _ask_conformance(broker: Broker, address: str) -> ConformanceResults:
    command = [sys.executable, "-m", "txnsim", "conformance", address, "--release", broker.release]
    command += ["--patience", str(broker.patience_s), "--json"]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert process.returncode in (0, 1), broker.name
    results = msgspec.json.decode(process.stdout, type=ConformanceResults)
    for result in results.results:
        if result.outcome is CaseOutcome.DIFFERS:
            requests = (difference.request for difference in result.differences)
            say(f"{broker.name} {result.case}: {result.because}", *requests)
    return results


def _row(broker: Broker, results: ConformanceResults) -> Row:
    kept_rules, broken_rules = results.rules()
    return Row(
        broker=broker.name,
        version=broker.version(),
        claims=results.release,
        day=datetime.datetime.now(datetime.UTC).date().isoformat(),  # noqa: TID251 - when it was asked
        transaction_version=results.transaction_version,
        passed=results.outcome_count(CaseOutcome.PASSED),
        differs=results.outcome_count(CaseOutcome.DIFFERS),
        not_applicable=results.outcome_count(CaseOutcome.NOT_APPLICABLE),
        kept=len(kept_rules),
        broken=tuple(sorted(broken_rules)),
        lacks=results.lacks,
        files={
            file: {str(outcome): count for outcome, count in row.items()}
            for file, row in outcome_counts_by_file(results.results).items()
        },
        left_behind=results.left_behind,
    )


# Brokers


def _apache(version: str, transaction_version: int) -> Callable[[], AbstractContextManager[str]]:
    @contextlib.contextmanager
    def start_kafka() -> Iterator[str]:
        with kafka_on(GROUND, transaction_version, version) as target:
            yield target.bootstrap

    return start_kafka


@contextlib.contextmanager
def _txnsim() -> Iterator[str]:
    with simulator_on(GROUND, 2) as target:
        yield target.bootstrap


@contextlib.contextmanager
def _kfake() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder_path:
        ready_file = Path(folder_path, "ready.json")
        command = [
            str(build_go_program("kfake")),
            "--brokers",
            "1",
            "--ready-file",
            str(ready_file),
        ]
        with subprocess.Popen(command) as process:
            try:
                until(ready_file.exists, bool, "kfake is ready")
                yield str(json.loads(ready_file.read_text())["bootstrap"])
            finally:
                process.terminate()


@contextlib.contextmanager
def _mock() -> Iterator[str]:
    """Run the broker in a process of its own, because a request may end it."""
    command = [sys.executable, "-c", MOCK]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
    if process.returncode != -signal.SIGTERM:
        say(f"librdkafka's mock has ended with {process.returncode}")


def _kfake_version() -> str:
    (line,) = (line for line in KFAKE.read_text().splitlines() if "pkg/kfake v" in line)
    return line.split()[-1].split("-")[1][:8]


def _ours() -> str:
    from txnsim import VERSION

    return VERSION


BROKERS: Final = (
    Broker(
        name="Apache Kafka 4.4", release="4.4", version=lambda: "4.4.0", started=_apache("4.4.0", 2)
    ),
    Broker(
        name="Apache Kafka 3.9", release="3.9", version=lambda: "3.9.2", started=_apache("3.9.2", 0)
    ),
    Broker(name="txnsim", release="4.4", version=_ours, started=_txnsim),
    Broker(name="kfake", release="4.4", version=_kfake_version, started=_kfake, patience_s=3.0),
    Broker(name="librdkafka's mock", release="3.9", version=lambda: libversion()[0], started=_mock),
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
