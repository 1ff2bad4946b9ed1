"""Every driver sits some of the exam: what it passes today, it passes tomorrow.

The whole exam of a library is ``txnsim exam run``.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.clients.exam_drivers import DRIVERS, command_of
from tests.clients.exam_page import HEADING, PAGE, load, section
from txnsim_lab.exam.results import SituationOutcome
from txnsim_lab.exam.run import choose_situations, run_exam
from txnsim_lab.exam.situations import SITUATIONS

pytestmark = pytest.mark.clients

SOME: Final = (
    *("fenced-by-newer", "timed-out", "commit-answer-lost", "reads-", "offsets-"),
    "share-release",
)
"""One of most classes, quick with every library."""


def outcomes(
    library_name: str, *only: str, transaction_version: int = 2
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The outcome and the reasons of each situation that did not pass."""
    run = asyncio.run(
        run_exam(
            command_of(library_name),
            choose_situations(SITUATIONS, only),
            levels=(transaction_version,),
        )
    )
    return {
        result.situation: (result.outcome, result.because)
        for result in run.results
        if result.outcome is not SituationOutcome.PASSED
    }


@pytest.mark.costly
def test_confluent_kafka_passes_some() -> None:
    assert outcomes("confluent-kafka", *SOME) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("library_name", DRIVERS)
def test_every_driver_answers(library_name: str) -> None:
    assert (
        outcomes(library_name, "fenced-by-newer", "commit-answer-lost", "reads-around", "seek-")
        == {}
    )


def test_the_page_shows_the_results_that_are_kept() -> None:
    assert PAGE.read_text("utf-8").partition(HEADING)[2] == section(load()).partition(HEADING)[2]
