"""The trace by the asynchronous door."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import committed
from tests.support.within import within
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


@within(run_virtual, topics=["orders"])
async def test_events_story_and_export(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "orders", "a")
    here = await kafka.trace.position()
    await kafka.trace.note("from here on")
    await committed(kafka, "orders", "b")
    # A commit returns before its markers are written.
    await kafka.transactions.wait_for_state("app", "CompleteCommit")
    assert len(await kafka.trace.events(kind="marker.written")) >= 2
    (first, *_) = await kafka.trace.story(since=here)
    assert (first.who, first.text) == ("scenario", "from here on")
    exported = await kafka.trace.export()
    assert exported.startswith(b'{"k":"run"')
    assert b'"k":"end"' in exported.splitlines()[-1]


@within(run_virtual, topics=["orders"])
async def test_recording_can_be_turned_off(kafka: AsyncSimulatedKafka) -> None:
    await kafka.trace.level("off")
    here = await kafka.trace.position()
    await kafka.trace.note("nobody hears")
    await committed(kafka, "orders", "a")
    assert await kafka.trace.position() == here
    with pytest.raises(ValueError, match="loud"):
        await kafka.trace.level("loud")
