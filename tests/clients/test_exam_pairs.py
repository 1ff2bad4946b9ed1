"""Known bugs of libraries: a version that has one misses its situation, the mended one passes.

The table of RESULTS.md, played. Nothing but the version differs between the two. A bug that is
open has no mended version; there the Java client passes. Who mends it ends its row here.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Final

import pytest

from tests.clients.exam_drivers import command_of, java_driver, python_driver
from tests.clients.exam_go import go_driver
from txnsim_lab.exam.results import SituationOutcome
from txnsim_lab.exam.run import choose_situations, run_exam
from txnsim_lab.exam.situations import SITUATIONS

pytestmark = [pytest.mark.clients, pytest.mark.nightly]

FRANZ: Final = ("franzgo", "github.com/twmb/franz-go")
SARAMA: Final = ("sarama", "github.com/IBM/sarama")
LIBRDKAFKA: Final = ("confluent", "github.com/confluentinc/confluent-kafka-go")
"""It brings the librdkafka of its version."""
AIOKAFKA, JAVA = ("aiokafka", ""), ("kafka-clients", "")
PAIRS: Final = (
    (FRANZ, "1.21.3", "1.21.4", "worker-ends-when-refused", 2),
    (FRANZ, "1.21.3", "1.21.4", "second-partition-refused", 1),
    (FRANZ, "1.21.3", "1.21.4", "every-record-refused", 2),
    (FRANZ, "1.21.3", "1.21.4", "init-while-aborting", 2),
    (FRANZ, "1.21.3", "1.21.4", "administrator-aborts", 2),
    (FRANZ, "1.21.3", "1.21.4", "reads-unsorted-list-of-one", 2),
    (FRANZ, "1.21.5", "1.22.0", "commit-refused-unknown-server-error", 2),
    (FRANZ, "1.21.5", "1.22.0", "worker-without-input", 2),
    (FRANZ, "1.19.1", "1.19.3", "reads-around-aborted", 0),
    (FRANZ, "1.19.2", "1.19.3", "reads-around-aborted", 1),
    (SARAMA, "1.43.2", "1.43.3", "produce-kafka-storage-error", 2),
    (SARAMA, "1.48.2", "1.49.0", "produce-breaks-long", 2),
    (LIBRDKAFKA, "1.5.2", "1.6.1", "pending-positions-classic", 1),
    (LIBRDKAFKA, "1.8.2", "1.9.2", "group-coordinator-unreachable-then-moves", 1),
    (LIBRDKAFKA, "1.9.2", "2.0.2", "new-epoch-in-open-transaction", 1),
    (LIBRDKAFKA, "2.10.1", "2.8.0", "group-coordinator-dies", 2),  # no later version has mended it
    (AIOKAFKA, "0.12.0", "0.13.0", "coordinator-dies-before-record", 1),
    (AIOKAFKA, "0.12.0", "0.13.0", "commit-while-coordinator-is-cut-off", 2),
    (AIOKAFKA, "0.12.0", "0.14.0", "commit-while-coordinator-dies", 2),
    (AIOKAFKA, "0.13.0", "0.14.0", "both-coordinators-die", 2),
    (JAVA, "3.6.2", "3.9.2", "fenced-by-administrator", 2),
)
"""Library, the version with the bug, the mended one, situation, level."""
OPEN: Final = (
    ("confluent-kafka", "commits-each-record", 2),
    ("confluent-kafka", "abort-behind-slow-markers", 1),
    ("confluent-kafka", "group-coordinator-dies", 2),
    ("confluent-kafka", "group-coordinator-unreachable", 1),
    ("aiokafka", "pending-positions-classic", 2),
    ("kafkajs", "markers-slow-then-offsets", 2),
)
"""Driver of today's version, situation, level."""


def outcome(command: str, situation: str, transaction_version: int) -> SituationOutcome:
    """The outcome of a situation with the driver that ``command`` starts."""
    situations = [
        chosen_situation
        for chosen_situation in choose_situations(SITUATIONS, [situation])
        if chosen_situation.name == situation
    ]
    [result] = asyncio.run(run_exam(command, situations, levels=(transaction_version,))).results
    return result.outcome


@pytest.mark.parametrize(
    ("library", "bad_version", "mended_version", "situation", "transaction_version"), PAIRS
)
def test_the_bug_is_seen_and_its_mending_too(
    library: tuple[str, str],
    bad_version: str,
    mended_version: str,
    situation: str,
    transaction_version: int,
) -> None:
    outcomes = [
        outcome(_command(*library, version), situation, transaction_version)
        for version in (bad_version, mended_version)
    ]
    assert outcomes == [SituationOutcome.MISSED, SituationOutcome.PASSED]


@pytest.mark.parametrize(("library_name", "situation", "transaction_version"), OPEN)
def test_a_bug_that_is_open_is_seen_and_the_java_client_has_it_not(
    library_name: str, situation: str, transaction_version: int
) -> None:
    outcomes = [
        outcome(command_of(driver), situation, transaction_version)
        for driver in (library_name, "kafka-clients-4.4.0")
    ]
    assert outcomes == [SituationOutcome.MISSED, SituationOutcome.PASSED]


def _command(program: str, module_name: str, version: str) -> str:
    if module_name:
        return str(go_driver(program, module_name=module_name, version=version))
    if program == "kafka-clients":
        return shlex.join(java_driver(version))
    return shlex.join(python_driver(program, version))
