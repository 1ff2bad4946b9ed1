from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.client.errors import ErrorCode, RetriableError
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import Coordinator, refused
from txnsim.client.members.requests import heartbeat
from txnsim.faults.actions import Fail, Hold, Pass
from txnsim.faults.points import FaultPoint

BEAT = heartbeat("g", GroupMetadata(generation=1, member_id="m"))


@pytest.mark.parametrize(
    ("error", "lookups"),
    [("NOT_COORDINATOR", 1), ("COORDINATOR_NOT_AVAILABLE", 1), ("COORDINATOR_LOAD_IN_PROGRESS", 0)],
)
@within(run_cluster)
async def test_a_coordinator_is_kept_while_it_answers_and_looked_up_where_it_has_moved(
    cluster: VirtualCluster, error: str, lookups: int
) -> None:
    async with cluster.client() as client:
        coordinator = Coordinator(client, "g")
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "lookups", api="FindCoordinator")
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id
        cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api="Heartbeat", limit=1)
        with pytest.raises(RetriableError, match=f"HEARTBEAT of group 'g': {error}"):
            await coordinator.ask(BEAT)
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id
        assert cluster.injector.rules()[0].struck == lookups


@within(run_cluster)
async def test_a_coordinator_that_is_lost_is_looked_up(cluster: VirtualCluster) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, "held", api="Heartbeat", limit=1)
    async with cluster.client() as client:
        coordinator = Coordinator(client, "g")
        with pytest.raises(RetriableError, match="HEARTBEAT of group 'g': REQUEST_TIMED_OUT"):
            await coordinator.ask(BEAT, timeout_ms=500)
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id


def test_a_refusal_names_group_and_error() -> None:
    error = refused("Heartbeat", "g", ErrorCode.fenced_instance_id)
    assert str(error) == "Heartbeat of group 'g': FENCED_INSTANCE_ID"
    assert error.error is ErrorCode.fenced_instance_id
