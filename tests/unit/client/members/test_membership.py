from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.client.errors import ErrorCode, RetriableError
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import LANE, Coordinator, refused
from txnsim.client.members.requests import heartbeat
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint

BEAT = heartbeat("g", GroupMetadata(generation=1, member_id="m"))


@within(run_cluster)
async def test_a_coordinator_is_kept_while_it_answers_and_looked_up_where_it_has_moved(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        coordinator = Coordinator(client, "g")
        for _ in range(2):
            answer = await coordinator.ask(BEAT)
            assert answer.error_code == ErrorCode.unknown_member_id
        await client.disconnect(lane=LANE)
        cluster.arm(Fail(error="NOT_COORDINATOR"), FaultPoint.CLIENT_REQUEST, api="Heartbeat",
                    limit=3)  # fmt: skip
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id


@within(run_cluster)
async def test_a_coordinator_that_never_comes(cluster: VirtualCluster) -> None:
    cluster.arm(Fail(error="NOT_COORDINATOR"), FaultPoint.CLIENT_REQUEST, api="Heartbeat")
    async with cluster.client(api_timeout_ms=500) as client:
        with pytest.raises(RetriableError, match="HEARTBEAT of group 'g': NOT_COORDINATOR"):
            await Coordinator(client, "g").ask(BEAT)


def test_a_refusal_names_group_and_error() -> None:
    error = refused("Heartbeat", "g", ErrorCode.fenced_instance_id)
    assert str(error) == "Heartbeat of group 'g': FENCED_INSTANCE_ID"
    assert error.error is ErrorCode.fenced_instance_id
