"""The metadata that a cluster starts with."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from txnsim.api.registry import shipped
from txnsim.metadata.image import BrokerImage, ClusterImage, TopicImage
from txnsim.releases import Fleet, release_named
from txnsim.runtime.real import host_name
from txnsim.security.options import NO_SECURITY, SecurityOptions
from txnsim.server._listener import Door
from txnsim.server.cluster import first_image, registered
from txnsim.server.loading import LoadedCluster
from txnsim.server.options import ClusterOptions
from txnsim.settings import Settings
from txnsim.types import BrokerId, ProducerId

APIS = shipped(release_named("4.3"), unstable=False, telemetry=False)
SETTINGS = Settings(cluster_id="abc", transaction_version=1)


def image_of(
    *ids: int, loaded: LoadedCluster | None = None, security: SecurityOptions = NO_SECURITY
) -> ClusterImage:
    return first_image(
        [BrokerImage(broker_id=BrokerId(one), epoch=one, host="h", port=9) for one in ids],
        settings=SETTINGS,
        security=security,
        fleet=Fleet(),
        salt=bytes,
        loaded=loaded,
    )


def disk_of(*ids: int, image: ClusterImage | None = None) -> LoadedCluster:
    return LoadedCluster(
        image=image or ClusterImage(cluster_id="abc"),
        logs={BrokerId(one): () for one in ids},
        first_producer_id=ProducerId(0),
        size=0,
        losses=(),
        left_out=(),
    )


def door(host: str, port: int, listener: str = "PLAINTEXT") -> Door:
    return Door(host=host, port=port, apis=msgspec.structs.replace(APIS, listener=listener))


def test_a_cluster_is_formatted_unless_there_are_disks() -> None:
    image = image_of(1, 2)
    assert (image.cluster_id, list(image.brokers)) == ("abc", [1, 2])
    assert image.features["transaction.version"] == 1
    assert image.topics == {}


def test_users_have_credentials_from_the_beginning() -> None:
    image = image_of(1, security=SecurityOptions(scram_users={"ann": "secret"}))
    assert {user for user, _ in image.scram} == {"ann"}


def test_brokers_register_with_what_the_disks_say() -> None:
    topic = TopicImage(name="t", topic_id=uuid.UUID(int=1), partitions=())
    stored = ClusterImage(cluster_id="disk", offset=500, features={"transaction.version": 2})
    image = image_of(0, 7, loaded=disk_of(0, 7, image=stored.with_topic(topic)))
    assert (image.cluster_id, list(image.topics), image.features) == (
        "disk",
        ["t"],
        {"transaction.version": 2},
    )
    assert [broker.epoch for broker in image.brokers.values()] == [502, 503]
    assert image.offset == 503


def test_brokers_are_told_by_their_ids_and_all_their_doors() -> None:
    options = ClusterOptions(brokers=2, loaded=disk_of(0, 7))
    doors = [(door("127.0.0.1", 1), door("127.0.0.1", 2, "TLS")), (door("127.0.0.1", 3),)]
    first, second = registered(options, doors)
    assert (first.broker_id, first.host, first.port) == (0, "127.0.0.1", 1)
    assert first.addresses == {"TLS": ("127.0.0.1", 2)}
    assert (second.broker_id, second.port, second.addresses) == (7, 3, {})


def test_what_is_advertised_is_told() -> None:
    options = ClusterOptions(brokers=1, advertised=(("kafka.test", 99),))
    (broker,) = registered(options, [(door("127.0.0.1", 1), door("127.0.0.1", 2, "TLS"))])
    assert broker.address("PLAINTEXT") == ("kafka.test", 99)
    assert broker.address("TLS") == ("127.0.0.1", 2)
    options = ClusterOptions(brokers=1, advertised_host="box")
    assert registered(options, [(door("127.0.0.1", 1),)])[0].host == "box"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_clients_are_told_this_machines_name_where_it_listens_everywhere(host: str) -> None:
    assert registered(ClusterOptions(brokers=1), [(door(host, 1),)])[0].host == host_name()


def test_the_port_that_is_advertised_is_that_of_one_broker() -> None:
    for brokers, ports in ((1, [19_092]), (2, [9_092, 9_093])):
        options = ClusterOptions(brokers=brokers, advertised_host="h", advertised_port=19_092)
        doors = [(door("", 9_092 + number),) for number in range(brokers)]
        assert [broker.port for broker in registered(options, doors)] == ports
