"""Suites of Python's Kafka clients: of the three, only kafka-python publishes its tests.

aiokafka's source distributions hold none, in any release that runs on Python 3.11; Confluent's
holds programs for Kafka's system tests (``confluent_kafka.kafkatest``), no tests.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.peers.sdists import source_distribution
from tests.peers.suite import PeerError, PeerOutcome, PeerResult, PeerTarget, Suite
from tests.support.apache_kafka import CACHE, KAFKA_VERSION, ApacheKafka, hold_lock
from tests.support.txnsim_server import TxnsimServer

_PEERS: Final = CACHE / "peers"
_VERSION: Final = "3.0.12"
_FOLDER: Final = "test/integration"
_MISSING: Final = Path(__file__).with_name("python_sources") / "service.py"
"""A module that the tests import and the distribution lacks."""

_SETTINGS: Final = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "num.partitions": "4",
}
"""Settings of the tests' own broker, except the wait of a new group."""

_TOLD_MAX: Final = 200
_WORSE: Final = (PeerResult.SKIPPED, PeerResult.PASSED, PeerResult.FAILED)


def _kafka_python(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    """Run pytest once. A test with parameters has passed if it passes with all of them."""
    sources_folder = _sources()
    with contextlib.ExitStack() as stack:
        work_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        bootstrap = stack.enter_context(_one_broker(target, work_folder))
        environment = {
            **os.environ,
            "KAFKA_ROOT": str(
                work_folder
            ),  # a distribution, wanted to be there and not looked into
            "KAFKA_URI": f"kafka://{bootstrap}",
            "KAFKA_VERSION": KAFKA_VERSION,
        }
        nodes = [f"{_FOLDER}/{_node(name)}" for name in test_names]
        report_file = work_folder / "report.xml"
        pytest_options = ("-o", "addopts=", "-p", "no:randomly", "-p", "no:cacheprovider", "-q")
        chosen_tests = nodes or [_FOLDER]
        process = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                *pytest_options,
                f"--junitxml={report_file}",
                *chosen_tests,
            ],
            cwd=sources_folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if not report_file.exists():
            raise PeerError(f"pytest ended with {process.returncode}:\n{process.stdout[-2000:]}")
        yield from _outcomes(report_file, sources_folder)


def _node(name: str) -> str:
    """The test's node id in pytest."""
    module_name, _, path = name.partition(".")
    return f"{module_name}.py::{path.replace('.', '::')}"


def _outcomes(report_file: Path, sources_folder: Path) -> list[PeerOutcome]:
    outcome_by_name: dict[str, PeerOutcome] = {}
    for case in ElementTree.parse(report_file).getroot().iter("testcase"):
        class_name = case.attrib["classname"].removeprefix("test.integration.")
        outcome_name = f"{class_name}.{case.attrib['name'].partition('[')[0]}"
        outcome = _outcome(outcome_name, case, sources_folder)
        worst_so_far = outcome_by_name.get(outcome_name, outcome)
        outcome_by_name[outcome_name] = max(
            worst_so_far, outcome, key=lambda outcome_of_case: _WORSE.index(outcome_of_case.result)
        )
    return sorted(outcome_by_name.values())


def _outcome(name: str, case: ElementTree.Element, sources_folder: Path) -> PeerOutcome:
    for tag, result in (
        ("failure", PeerResult.FAILED),
        ("error", PeerResult.FAILED),
        ("skipped", PeerResult.SKIPPED),
    ):
        note = case.find(tag)
        if note is not None:
            message = note.attrib.get("message", "").replace(f"{sources_folder}/", "")
            message = message.strip().partition("\n")[0]
            return PeerOutcome(name, result, message[:_TOLD_MAX])
    return PeerOutcome(name, PeerResult.PASSED)


@contextlib.contextmanager
def _one_broker(target: PeerTarget, work_folder: Path) -> Iterator[str]:
    if target is PeerTarget.APACHE:
        settings = {**_SETTINGS, "super.users": "User:ANONYMOUS"}
        with ApacheKafka(properties=settings, jvm_options=("-Xmx512m",)) as kafka:
            yield kafka.bootstrap
        return
    config = work_folder / "server.properties"
    config.write_text(
        "".join(
            f"{setting_name}={setting_value}\n" for setting_name, setting_value in _SETTINGS.items()
        )
    )
    with TxnsimServer(brokers=1, arguments=("--config", str(config))) as server:
        yield server.bootstrap


def _sources() -> Path:
    """The unpacked source distribution, with files that it lacks, fetched on first use."""
    home = _PEERS / f"kafka-python-{_VERSION}"
    with hold_lock(_PEERS / "kafka-python.lock"):
        if not home.is_dir():
            new_folder = _PEERS / "kafka-python.partial"
            shutil.rmtree(new_folder, ignore_errors=True)
            new_folder.mkdir(parents=True)
            unpacked_folder = source_distribution("kafka-python", _VERSION, new_folder)
            (unpacked_folder / "test" / "__init__.py").touch()  # Python has a package of that name
            unpacked_folder.rename(home)
            shutil.rmtree(new_folder)
    shutil.copyfile(_MISSING, home / "test" / "service.py")
    return home


_OWN_BROKER: Final = "It starts a broker of its own, from files that its distribution does not hold"

_REASONS: Final = {
    "test_admin_integration.test_create_partitions": "It places replicas on broker 0; ours are "
    "numbered from 1. The same on a real Kafka whose brokers are.",
    "test_consumer_integration.test_kafka_consumer_offsets_for_time_old": "It is about brokers "
    "before Kafka 0.10.1, and skips itself.",
    "test_sasl_integration.*": f"{_OWN_BROKER}, and skips itself.",
    "test_ssl_integration.*": f"{_OWN_BROKER}.",
}

SUITES: Final[tuple[Suite, ...]] = (
    Suite(
        name="kafka-python",
        project="kafka-python",
        version=_VERSION,
        source=f"`{_FOLDER}` of its source distribution, which lacks two small modules. The "
        "distributions of aiokafka and confluent-kafka hold no tests.",
        cluster="One broker, plain, with an authorizer.",
        ask=_kafka_python,
        reasons=_REASONS,
    ),
)
