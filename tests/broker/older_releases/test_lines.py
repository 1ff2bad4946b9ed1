"""Lines of releases: what they advertise, in which order, and what a Java client makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker.older_releases.history import UNOBSERVED
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.raw_connection import API_VERSIONS, WireClient
from txnsim.api.registry import ADVERTISED, shipped_apis
from txnsim.errors import ErrorCode
from txnsim.releases import REFERENCE, RELEASES, Fleet
from txnsim.releases.rules import Rules
from txnsim.types import BrokerId
from txnsim.wire import codec

# What a client sees of a release before it does anything: versions, features, closed connections.


B1: Final = BrokerId(1)
PRODUCE: Final = 0
END_TXN: Final = 26
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
UPDATE_FEATURES: Final = 57
ANY_STATE: Final = {"state_filters": (), "producer_id_filters": ()}
ENDED: Final = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "committed": True}
NOTHING: Final = {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": ()}


def api_versions_answer(as_version: str, api_version: int) -> Any:
    """The answer of broker 1 to ApiVersions."""

    async def story(cluster: VirtualCluster) -> Any:
        wire = await open_wire_to_one(cluster)
        message = codec.build(
            codec.request_class(API_VERSIONS, api_version),
            client_software_name="x",
            client_software_version="1",
        )
        wire.send(wire.frame(API_VERSIONS, api_version, message))
        _, answer = await wire.answer()
        await wire.close()
        return answer

    return run_cluster(story, as_version=(as_version,), brokers=1)


async def open_wire_to_one(cluster: VirtualCluster) -> WireClient:
    broker = cluster.sim.metadata.image.brokers[B1]
    return await WireClient.open(broker.host, broker.port)


@pytest.mark.parametrize("release_name", RELEASES)
def test_versions_lie_within_the_release_and_begin_where_ours_do(release_name: str) -> None:
    release = RELEASES[release_name]
    for key, (lowest_version, highest_version) in shipped_apis(release).advertised.items():
        assert highest_version <= release.api_versions[key][1]
        assert lowest_version == ADVERTISED[key][0]
    answer = api_versions_answer(release_name, 3)
    ranges = {
        api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in answer.api_keys
    }
    assert ranges == shipped_apis(release).advertised


@pytest.mark.parametrize(
    ("release_name", "supported", "finalized"),
    [
        ("2.8", {}, {}),
        ("3.5", {"metadata.version": (1, 11)}, {"metadata.version": 11}),
        ("3.6", {"metadata.version": (1, 14)}, {"metadata.version": 14}),
        ("3.9", {"metadata.version": (1, 21)}, {"metadata.version": 21}),
        (
            "4.0",
            {"metadata.version": (7, 25)},
            {"group.version": 1, "metadata.version": 25, "transaction.version": 2},
        ),
        (
            "4.1",
            {"metadata.version": (7, 27)},
            {
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "metadata.version": 27,
                "transaction.version": 2,
            },
        ),
        (
            "4.4",
            {"metadata.version": (7, 33)},
            {
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "metadata.version": 33,
                "share.version": 2,
                "streams.version": 1,
                "transaction.version": 2,
            },
        ),
    ],
)
def test_features_are_those_that_a_real_broker_of_that_release_told(
    release_name: str, supported: dict[str, tuple[int, int]], finalized: dict[str, int]
) -> None:
    answer = api_versions_answer(release_name, 3)
    shown_features = {
        supported_feature.name: (supported_feature.min_version, supported_feature.max_version)
        for supported_feature in answer.supported_features
    }
    assert shown_features == supported
    assert {
        finalized_feature.name: finalized_feature.max_version_level
        for finalized_feature in answer.finalized_features
    } == finalized


def test_a_version_above_the_releases_own_is_told_which_ones_there_are() -> None:
    async def story(cluster: VirtualCluster) -> tuple[int, int, int]:
        wire = await open_wire_to_one(cluster)
        request = codec.build(
            codec.request_class(API_VERSIONS, 4),
            client_software_name="x",
            client_software_version="1",
        )
        answered_as = wire.expect(API_VERSIONS, 0)
        wire.send(codec.encode_request(API_VERSIONS, 4, answered_as, "x", request))
        _, answer = await wire.answer()
        await wire.close()
        (own_row,) = answer.api_keys
        return int(answer.error_code), own_row.min_version, own_row.max_version

    answer = run_cluster(story, as_version=("3.6",), brokers=1)
    assert answer == (ErrorCode.unsupported_version, 0, 3)


@pytest.mark.parametrize(
    ("name", "api_key", "api_version", "values"),
    [
        ("2.8", DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ()}),
        ("2.8", LIST_TRANSACTIONS, 0, ANY_STATE),
        ("3.6", LIST_TRANSACTIONS, 1, {**ANY_STATE, "duration_filter": -1}),
        ("3.9", END_TXN, 5, ENDED),
        ("3.9", PRODUCE, 12, NOTHING),
        ("4.0", PRODUCE, 13, NOTHING),
    ],
)
def test_what_a_release_does_not_have_closes_the_connection(
    name: str, api_key: int, api_version: int, values: dict[str, object]
) -> None:
    async def closes_connection(cluster: VirtualCluster) -> bool:
        wire = await open_wire_to_one(cluster)
        message = codec.build(codec.request_class(api_key, api_version), **values)
        wire.send(wire.frame(api_key, api_version, message))
        is_closed = await wire.is_closed_by_broker()
        wire.writer.close()
        return is_closed

    assert run_cluster(closes_connection, as_version=(name,), brokers=1)
    assert not run_cluster(closes_connection, as_version=([*RELEASES][-1],), brokers=1)


@pytest.mark.parametrize(("api_version", "is_closed"), [(1, False), (2, True)])
def test_a_version_that_the_controller_does_not_know_closes_the_connection(
    api_version: int, is_closed: bool
) -> None:
    """Real brokers do so: UpdateFeatures is sent to a 4.4.0 with a controller of 3.9.2."""

    async def closes_connection(cluster: VirtualCluster) -> bool:
        broker = cluster.sim.metadata.image.brokers[BrokerId(2)]
        wire = await WireClient.open(broker.host, broker.port)
        message = codec.build(
            codec.request_class(UPDATE_FEATURES, api_version), feature_updates=(), timeout=1000
        )
        wire.send(wire.frame(UPDATE_FEATURES, api_version, message))
        is_closed = await wire.is_closed_by_broker()
        wire.writer.close()
        return is_closed

    assert run_cluster(closes_connection, as_version=("3.9,2=4.4",), brokers=2) is is_closed


# The number of the reference stands in one place, and whatever can't import it agrees.


REPOSITORY: Final = Path(__file__).resolve().parents[3]
SIM: Final = REPOSITORY / "sim" / "txnsim"


def test_brokers_run_the_reference_though_a_newer_one_may_be_known() -> None:
    assert Fleet().default is REFERENCE is RELEASES[REFERENCE.name]
    assert REFERENCE.is_released, "the judge can be asked"


def test_the_judge_is_a_real_broker_of_the_reference() -> None:
    assert REFERENCE.patch_release == KAFKA_VERSION


def test_programs_say_which_release_they_are_by_asking_for_it() -> None:
    for page_text in ("README.md", "docs/serve.md", "docs/practise.md", "docs/see-it.md"):
        file_text = (REPOSITORY / page_text).read_text("utf-8")
        named_releases = set(re.findall(r"up as Apache Kafka ([\d.]+)", file_text))
        assert named_releases == {REFERENCE.patch_release}, page_text


@pytest.mark.parametrize("module_file", sorted(SIM.rglob("*.py")), ids=str)
def test_no_other_module_knows_its_number(module_file: Path) -> None:
    if SIM / "releases" not in module_file.parents:
        assert REFERENCE.patch_release not in module_file.read_text("utf-8")


# The list of changes that are no switch stands beside the list of those that are.


def test_every_row_says_what_changed_when_and_why_no_client_sees_it() -> None:
    for row in UNOBSERVED:
        assert all((row.ticket, row.since, row.change, row.why)), row


def test_what_is_a_switch_is_not_called_unobserved() -> None:
    switches = {rule.ticket for rule in Rules.documentation().values() if "KAFKA" in rule.ticket}
    assert not switches & {part for row in UNOBSERVED for part in row.ticket.split(", ")}
