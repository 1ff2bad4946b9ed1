"""Histories that the judge of late produces must refuse: each is a true story with one fact that
does not fit. A judge that never convicts would pass every run of the scenario too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.check.facts import Facts
from sim.check.verdicts import UNEXPLAINED, judge_late_produce
from tests.support.histories import (
    FOUND,
    HEALED,
    LATER,
    STUCK,
    aborted_in_time,
    changed,
    hanging,
    partition,
    reader_fetch,
    refused_by_epoch,
    refused_by_verification,
)

TRUE_STORIES: tuple[Callable[..., Facts], ...] = (
    hanging,
    refused_by_verification,
    refused_by_epoch,
    aborted_in_time,
)
GOES_ON = changed(STUCK, reader=reader_fetch(last_stable_offset=4, high_watermark=4))
DELIVERS_ABORTED = partition(committed=("late", *LATER))


@pytest.mark.parametrize("true_story", TRUE_STORIES)
@pytest.mark.parametrize(
    "lie",
    [
        pytest.param({"after_release": None}, id="nobody looked after the release"),
        pytest.param({"late_epoch": None}, id="the late record's epoch was not seen"),
        pytest.param({"appended": ()}, id="nobody appended anything behind it"),
        pytest.param({"state_after_abort": ""}, id="the coordinator was not asked"),
        pytest.param({"state_after_abort": "PrepareAbort"}, id="the abort is not complete"),
        pytest.param({"state_after_abort": "Ongoing"}, id="nothing was aborted"),
        pytest.param({"after_release": DELIVERS_ABORTED}, id="the record was delivered"),
        pytest.param({"after_repair": DELIVERS_ABORTED}, id="the repair delivered the record"),
        pytest.param(
            {"after_repair": partition(reader=reader_fetch(values=("late", *LATER)))},
            id="the reader at its position got it",
        ),
    ],
)
def test_a_lie_spoils_every_story(true_story: Callable[..., Facts], lie: dict[str, Any]) -> None:
    assert judge_late_produce(true_story()).name != UNEXPLAINED
    assert judge_late_produce(true_story(**lie)).name == UNEXPLAINED


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(hanging(late_gauge_after=0), id="hangs, but the late gauge stays"),
        pytest.param(hanging(late_gauge_before=1), id="late before it could be"),
        pytest.param(hanging(late_gauge_after=None), id="nobody read the gauge"),
        pytest.param(hanging(late_gauge_after=2), id="two hang"),
        pytest.param(hanging(after_release=GOES_ON), id="open, but readers go on"),
        pytest.param(
            hanging(after_release=changed(STUCK, uncommitted=LATER)),
            id="open, but not with the late record",
        ),
        pytest.param(
            hanging(after_release=changed(STUCK, open_transaction_offset=2)),
            id="open elsewhere than where the last stable offset stands",
        ),
        pytest.param(
            hanging(after_release=HEALED, found=(), late_gauge_after=0),
            id="in the log behind the marker, and yet not open",
        ),
        pytest.param(refused_by_epoch(late_gauge_after=1), id="not open, but late"),
        pytest.param(refused_by_verification(found=(FOUND,)), id="not open, but found"),
        pytest.param(
            refused_by_verification(
                after_release=partition(reader=reader_fetch(values=("after-1",)))
            ),
            id="not open, but a later record is missing",
        ),
        pytest.param(
            refused_by_verification(
                after_release=partition(
                    reader=reader_fetch(values=(), last_stable_offset=1, high_watermark=3)
                )
            ),
            id="not open, but the reader starves",
        ),
        pytest.param(refused_by_verification(handled=0), id="the record was only lost"),
        pytest.param(refused_by_epoch(handled=0), id="the record was lost under a new epoch"),
        pytest.param(
            refused_by_epoch(marker_epoch=None, epoch_after_abort=0),
            id="no marker and no higher epoch",
        ),
        pytest.param(
            refused_by_epoch(marker_epoch=None, epoch_after_abort=None),
            id="no marker and nobody asked for the epoch",
        ),
        pytest.param(aborted_in_time(handled=1), id="held and released, and yet in time"),
    ],
)
def test_a_story_that_contradicts_itself_is_refused(facts: Facts) -> None:
    assert judge_late_produce(facts).name == UNEXPLAINED
