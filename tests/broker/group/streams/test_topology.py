"""Topologies, held against the topics that there are; texts as a real 4.4.0 gives them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.consumer_groups import image
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.streams.topology import (
    ConfiguredTopology,
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
    TopologyStatus,
    build_topology,
    configure,
    topics_of,
)


def subtopology_of(subtopology_id: str, *sources: str, **subtopology_fields: Any) -> Subtopology:
    return Subtopology(subtopology_id=subtopology_id, source_topics=sources, **subtopology_fields)


def topology(*subtopologies: Subtopology) -> Topology:
    """A topology of epoch 0."""
    topology = build_topology(0, subtopologies)
    assert isinstance(topology, Topology)
    return topology


def configured(*parts: Subtopology, **topics: int) -> ConfiguredTopology:
    """A topology of the given subtopologies, configured with the given topics."""
    configured_topology = configure(topology(*parts), image(**topics))
    assert isinstance(configured_topology, ConfiguredTopology), configured_topology
    return configured_topology


def internal(*names: str, partitions: int = 0) -> tuple[TopicInfo, ...]:
    return tuple(TopicInfo(name=name, partitions=partitions) for name in names)


def test_tasks_follow_the_largest_source() -> None:
    configured_topology = configured(
        subtopology_of("0", "a", "b"), subtopology_of("1", "b"), a=2, b=5
    )
    assert configured_topology.is_ready
    assert dict(configured_topology.tasks) == {"0": 5, "1": 5}


def test_internal_topics_that_are_missing_are_to_be_made() -> None:
    parts = (
        subtopology_of("0", "a", repartition_sink_topics=("r",)),
        subtopology_of(
            "1",
            repartition_source_topics=internal("r"),
            state_changelog_topics=(TopicInfo(name="log", topic_configs=(("k", "v"),)),),
        ),
    )
    configured_topology = configured(*parts, a=3)
    assert not configured_topology.is_ready
    assert configured_topology.problem == (
        TopologyStatus.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: r, log",
    )
    assert configured_topology.missing["r"] == TopicInfo(name="r", partitions=3)
    assert configured_topology.missing["log"].topic_configs == (("k", "v"),)
    assert dict(configured_topology.tasks) == {"0": 3, "1": 3}
    assert configured(*parts, a=3, r=3, log=3).is_ready


def test_a_number_goes_through_a_chain_of_repartition_topics() -> None:
    configured_topology = configured(
        subtopology_of(
            "0", repartition_source_topics=internal("q"), repartition_sink_topics=("p",)
        ),
        subtopology_of("1", "a", repartition_sink_topics=("q",)),
        subtopology_of("2", repartition_source_topics=internal("p")),
        a=4,
    )
    assert {
        name: topic_info.partitions for name, topic_info in configured_topology.missing.items()
    } == {"p": 4, "q": 4}


def test_many_missing_topics_are_summed_up() -> None:
    configured_topology = configured(subtopology_of("0", "a", "b", "c", "d", "e"), b=1)
    assert configured_topology.problem == (
        TopologyStatus.MISSING_SOURCE_TOPICS,
        "Source topics a, c, d and 1 additional topics are missing.",
    )
    assert configured_topology.subtopologies is None


def _group(*sources: int, repartition: tuple[int, ...] = ()) -> CopartitionGroup:
    return CopartitionGroup(source_topics=sources, repartition_source_topics=repartition)


WRONG = {
    "sources that differ": (
        (subtopology_of("0", "a", "b", copartition_groups=(_group(0, 1),)),),
        "Following topics do not have the same number of partitions: [{a=2, b=3}]",
    ),
    "a fixed number that is not the source's": (
        (
            subtopology_of(
                "0",
                "a",
                repartition_source_topics=internal("r", partitions=5),
                copartition_groups=(_group(0, repartition=(0,)),),
            ),
        ),
        "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [2]"
        " of the source topic.",
    ),
    "fixed numbers that differ": (
        (
            subtopology_of(
                "0",
                repartition_source_topics=(
                    TopicInfo(name="r", partitions=3),
                    TopicInfo(name="q", partitions=4),
                ),
                copartition_groups=(_group(repartition=(0, 1)),),
            ),
        ),
        "Following topics do not have the same number of partitions: [{q=4, r=3}]",
    ),
    "an internal topic of another number": (
        (subtopology_of("0", "a", state_changelog_topics=internal("b")),),
        "Existing topic b has different number of partitions: expected 2, found 3",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_topics_that_don_t_fit(name: str) -> None:
    parts, text = WRONG[name]
    configured_topology = configured(*parts, a=2, b=3)
    assert configured_topology.problem == (TopologyStatus.INCORRECTLY_PARTITIONED_TOPICS, text)


def test_repartition_topics_of_a_group_get_one_number() -> None:
    flexible_topology = configured(
        subtopology_of("0", "a", repartition_sink_topics=("r",)),
        subtopology_of("1", "b", repartition_sink_topics=("q",)),
        subtopology_of(
            "2",
            repartition_source_topics=internal("r", "q"),
            copartition_groups=(_group(repartition=(0, 1)), _group()),
        ),
        a=2,
        b=3,
    )
    assert {topic_info.partitions for topic_info in flexible_topology.missing.values()} == {3}
    fixed_topology = configured(
        subtopology_of("0", "a", repartition_sink_topics=("r", "q")),
        subtopology_of(
            "1",
            repartition_source_topics=(TopicInfo(name="r", partitions=4), *internal("q")),
            copartition_groups=(_group(repartition=(0, 1)),),
        ),
        a=2,
    )
    assert {topic_info.partitions for topic_info in fixed_topology.missing.values()} == {4}
    source_topology = configured(
        subtopology_of("0", "a", repartition_sink_topics=("r",)),
        subtopology_of(
            "1",
            "b",
            repartition_source_topics=internal("r"),
            copartition_groups=(_group(0, repartition=(0,)),),
        ),
        a=2,
        b=3,
    )
    assert source_topology.missing["r"].partitions == 3


REFUSED = {
    "a repartition topic that nobody writes": (
        (subtopology_of("0", "a", repartition_source_topics=internal("r")),),
        ErrorCode.streams_invalid_topology,
        "Failed to compute number of partitions for all repartition topics, because a repartition "
        "source topic is never used as a sink topic.",
    ),
    "a loop": (
        (
            subtopology_of(
                "0", repartition_sink_topics=("r",), repartition_source_topics=internal("q")
            ),
            subtopology_of(
                "1", repartition_sink_topics=("q",), repartition_source_topics=internal("r")
            ),
        ),
        ErrorCode.streams_invalid_topology,
        "Failed to compute number of partitions for all repartition topics. There may be loops in "
        "the topology that cannot be resolved.",
    ),
    "no source": (
        (subtopology_of("0"),),
        ErrorCode.streams_invalid_topology,
        "No source topics found for subtopology 0",
    ),
    "a number below 1": (
        (subtopology_of("0", "a", state_changelog_topics=(TopicInfo(name="log", partitions=-1),)),),
        ErrorCode.unknown_server_error,
        "Number of partitions must be at least 1.",
    ),
    "a place that is not there": (
        (subtopology_of("0", "a", copartition_groups=(_group(3),)),),
        ErrorCode.unknown_server_error,
        "Index 3 out of bounds for length 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_topologies_that_can_t_be(name: str) -> None:
    parts, error, reason = REFUSED[name]
    assert configure(topology(*parts), image(a=2)) == Rejection(error=error, reason=reason)


@pytest.mark.parametrize(("epoch", "ids"), [(-1, ("0",)), (0, ("0", "0"))])
def test_an_epoch_is_not_negative_and_ids_are_distinct(epoch: int, ids: tuple[str, ...]) -> None:
    rejection = build_topology(
        epoch, [subtopology_of(subtopology_id, "a") for subtopology_id in ids]
    )
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.unknown_server_error


def test_who_reads_a_topic() -> None:
    read_topology = topology(
        subtopology_of("0", "a"), subtopology_of("1", "a", repartition_source_topics=internal("r"))
    )
    assert read_topology.reader_of("a") == "1", "the last of several"
    assert read_topology.reader_of("r") == "1"
    assert read_topology.reader_of("z") is None


def test_every_topic_is_named_once() -> None:
    parts = (
        subtopology_of(
            "0", "a", repartition_sink_topics=("r",), state_changelog_topics=internal("log")
        ),
        subtopology_of("1", "a", repartition_source_topics=internal("r")),
    )
    assert topics_of(parts) == ["a", "r", "log"]
