"""One client's topic leaves other clients' transactions prepared, here as on a real Kafka."""

from __future__ import annotations

import pytest

from tests.real import refused_markers
from tests.real.refused_markers import CULPRIT, PRODUCERS, REFUSING, story
from tests.support.clusters import VirtualCluster, run_cluster, until_state
from tests.support.within_environment import within
from txnsim.client.admin import TOPIC_RESOURCE, Admin
from txnsim.client.requests import ConfigChange
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint


@within(run_cluster, brokers=2, topics=())
async def test_whatever_is_behind_a_refused_marker_stays_prepared(cluster: VirtualCluster) -> None:
    async def stand_still() -> None:
        cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers", limit=1)

    async def go_on() -> None:
        cluster.injector.release("f")

    async with cluster.client() as client:
        outcome = await story(client, stand_still=stand_still, go_on=go_on)
        assert len(outcome.prepared) == PRODUCERS - CULPRIT
        # A coordinator that moves sends all markers again; the topic must take them by then.
        change = ConfigChange(
            resource_type=TOPIC_RESOURCE,
            resource_name=REFUSING.topic,
            name="max.message.bytes",
            value=None,
        )
        await Admin(client).incremental_alter_configs((change,))
        for home_partition in sorted(
            {cluster.home(transactional_id) for transactional_id in outcome.names}
        ):
            cluster.move(home_partition)
        for transactional_id in outcome.names:
            await until_state(client, transactional_id, "CompleteCommit")


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.9.2", "4.4.0"])
def test_whatever_is_behind_it_stays_prepared_on_a_real_kafka(version: str) -> None:
    outcome, requests = refused_markers.play(version)
    assert outcome.culprit in outcome.prepared
    assert outcome.prepared == refused_markers.stuck_producers(outcome, requests)
