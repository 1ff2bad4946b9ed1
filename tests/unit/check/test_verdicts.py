from __future__ import annotations

import pytest

from sim.check.facts import Facts
from sim.check.verdicts import (
    ABORTED_IN_TIME,
    DECLARABLE,
    HANGING,
    HANGING_AND_REPAIRED,
    JUDGES,
    REFUSED_BY_EPOCH,
    REFUSED_BY_VERIFICATION,
    UNEXPLAINED,
    judge_late_produce,
)
from tests.support.histories import (
    HEALED,
    STUCK,
    aborted_in_time,
    changed,
    hanging,
    reader_fetch,
    refused_by_epoch,
    refused_by_verification,
)


@pytest.mark.parametrize(
    ("facts", "verdict", "because"),
    [
        (hanging(), HANGING_AND_REPAIRED, "open at offset 1"),
        (hanging(found=()), HANGING, "find-hanging does not see it"),
        (hanging(after_repair=None), HANGING, "nobody looked"),
        (hanging(after_repair=STUCK), HANGING, "a transaction is open at 1"),
        (
            hanging(after_repair=changed(HEALED, reader=reader_fetch(offset=0))),
            HANGING,
            "another Fetch was asked",
        ),
        (
            hanging(after_repair=changed(HEALED, reader=reader_fetch(values=("after-1",)))),
            HANGING,
            "does not bring the later records",
        ),
        (refused_by_verification(), REFUSED_BY_VERIFICATION, "still 0"),
        (refused_by_epoch(), REFUSED_BY_EPOCH, "on the partition to 1"),
        (
            refused_by_epoch(marker_epoch=None),
            REFUSED_BY_EPOCH,
            "at the coordinator to 1",
        ),
        # A client that bumps its epoch behind the abort (KIP-360) is at Empty by then.
        (refused_by_verification(state_after_abort="Empty"), REFUSED_BY_VERIFICATION, "still 0"),
        (aborted_in_time(), ABORTED_IN_TIME, "before the marker"),
    ],
)
def test_what_was_seen_means(facts: Facts, verdict: str, because: str) -> None:
    found = judge_late_produce(facts)
    assert (found.name, because in found.because) == (verdict, True), found


def test_the_judge_does_not_ask_whether_the_run_was_armed() -> None:
    for facts in (hanging(), refused_by_verification(), refused_by_epoch(), aborted_in_time()):
        before = judge_late_produce(facts)
        facts.armed = not facts.armed
        assert judge_late_produce(facts) == before


def test_no_scenario_can_expect_what_is_unexplained() -> None:
    assert UNEXPLAINED not in DECLARABLE
    assert set(JUDGES) == {"late-produce"}
