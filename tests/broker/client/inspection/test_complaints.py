"""Complaints in words: assertions of Python and of the control port fail with them."""

from __future__ import annotations

from tests.support.testing_plays import HANGING, aborted, committed
from tests.support.within import within
from txnsim.client.inspection.complaints import about_exactly_once, about_hanging
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


def test_what_hangs_is_named_with_its_reason_and_its_end() -> None:
    assert about_hanging((), bootstrap="b:1") is None
    told = about_hanging((HANGING,), bootstrap="b:1")
    assert told is not None
    assert told.splitlines() == [
        "1 transaction hangs:",
        "  orders-1 since offset 3: producer 7, epoch 0: no coordinator knows producer id 7",
        "    It was committed: end it with COMMIT, as so it is",
        "    txnsim txns --bootstrap-server b:1 repair --topic orders --partition 1 --yes",
    ]
    two = about_hanging((HANGING, HANGING), bootstrap="b:1")
    assert two is not None
    assert two.startswith("2 transactions hang:")


@within(run_virtual, topics={"input": 1})
async def test_what_is_missing_tells_where_it_was_written(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "input", "a")
    await aborted(kafka, "input", "b")
    admin = await kafka.rebuilt.admin()
    assert await about_exactly_once(admin, ["a"], "input", settle_ms=0) is None
    told = await about_exactly_once(admin, ["a", "b"], "input", settle_ms=0)
    assert told is not None
    assert told.splitlines() == [
        "not exactly once, from what was given to input:",
        "missing: 1 record",
        "  'b' (written there in a transaction that is aborted)",
    ]
