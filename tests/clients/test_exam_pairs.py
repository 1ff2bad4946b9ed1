"""Known bugs of libraries: a version that has one misses its situation, the mended one passes.

The table of docs/exam.md, played. Nothing but the version differs between the two.
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Final

import pytest

from tests.clients.exam_drivers import python_driver
from tests.clients.exam_go import go_driver
from txnsim.testing.exam.results import Outcome
from txnsim.testing.exam.sitting import chosen, sit
from txnsim.testing.exam.situations import SITUATIONS

pytestmark = [pytest.mark.clients, pytest.mark.nightly]

FRANZ: Final = ("franzgo", "github.com/twmb/franz-go")
SARAMA: Final = ("sarama", "github.com/IBM/sarama")
LIBRDKAFKA: Final = ("confluent", "github.com/confluentinc/confluent-kafka-go")
"""It brings the librdkafka of its version."""
AIOKAFKA: Final = ("aiokafka", "")
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
    (AIOKAFKA, "0.12.0", "0.13.0", "coordinator-dies-before-record", 1),
    (AIOKAFKA, "0.12.0", "0.13.0", "commit-while-coordinator-is-cut-off", 2),
)
"""Library, the version with the bug, the mended one, situation, level."""


def outcome(command: str, situation: str, level: int) -> Outcome:
    """What one situation comes to."""
    only = [one for one in chosen(SITUATIONS, [situation]) if one.name == situation]
    [result] = asyncio.run(sit(command, only, levels=(level,))).results
    return result.outcome


@pytest.mark.parametrize(("library", "bad", "mended", "situation", "at"), PAIRS)
def test_the_bug_is_seen_and_its_mending_too(
    library: tuple[str, str], bad: str, mended: str, situation: str, at: int
) -> None:
    program, module = library
    found = []
    for version in (bad, mended):
        if module:
            command = [str(go_driver(program, module=module, version=version))]
        else:
            command = python_driver(program, version)
        found.append(outcome(shlex.join(command), situation, at))
    assert found == [Outcome.MISSED, Outcome.PASSED]
