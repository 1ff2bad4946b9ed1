"""What is expected of readers, held against what our own reader gets."""

from __future__ import annotations

import pytest

from txnsim.client.inspection.reading import Fate, read_topic
from txnsim.client.offsets import LATEST
from txnsim.log.answers import LogRead
from txnsim.types import BrokerId, IsolationLevel, TopicPartition
from txnsim_lab.exam.fixture_topics import FIXTURE_TOPICS, LARGE, FixtureTopic, shown, written
from txnsim_lab.exam.targets import SimulatedTargets


@pytest.mark.parametrize("fixture", FIXTURE_TOPICS, ids=lambda one: one.expected.topic)
async def test_a_fixture_topic_says_what_a_reader_gets(fixture: FixtureTopic) -> None:
    async with SimulatedTargets().open(2) as opened:
        place = TopicPartition(await written(opened.target, fixture), 0)
        admin = await opened.target.admin()
        records = await read_topic(admin, place.topic, settle_ms=0)
        committed = [(one.value or b"").decode() for one in records if one.fate is Fate.COMMITTED]
        assert shown(committed) == fixture.expected.values
        stable = await admin.offset_of(place, LATEST, IsolationLevel.READ_COMMITTED)
        assert stable == fixture.expected.stable
        assert await admin.offset_of(place, LATEST) == fixture.expected.end


async def test_an_answer_is_cut_in_the_middle_of_a_large_batch() -> None:
    (large,) = (one for one in FIXTURE_TOPICS if one.expected.topic == "large")
    async with SimulatedTargets().open(2) as opened:
        await written(opened.target, large)
        kafka = opened.kafka
        leader = kafka.cluster.brokers[BrokerId(await kafka.leaders.of("large"))]
        read = leader.replicas.hosted[TopicPartition("large", 0)].read(0, max_bytes=1 << 20)
        assert isinstance(read, LogRead)
        assert 0 < len(read.cut) < LARGE


async def test_the_cleaner_has_left_an_empty_batch() -> None:
    (compacted,) = (one for one in FIXTURE_TOPICS if one.expected.topic == "compacted")
    async with SimulatedTargets().open(2) as opened:
        await written(opened.target, compacted)
        kafka = opened.kafka
        leader = kafka.cluster.brokers[BrokerId(await kafka.leaders.of("compacted"))]
        log = leader.replicas.hosted[TopicPartition("compacted", 0)]
        counts = [int.from_bytes(batch[57:61]) for batch in log.batches()]
        assert 0 in counts, "the record count of a batch"
