from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.client._positions import committed_positions
from txnsim.client.errors import ClientError, RetriableError
from txnsim.client.producer import Producer
from txnsim.client.session import TxnProtocol
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Fail
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

P0 = TopicPartition("orders", 0)


@within(run_cluster, level=1)
async def test_positions_of_a_transaction_are_there_once_it_is_committed(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        producer = Producer(client, transactional_id="tx")
        producer_identity = await producer.init_transactions()
        identity_fields = {
            "producer_id": producer_identity.producer_id,
            "producer_epoch": producer_identity.producer_epoch,
        }
        assert producer.protocol is TxnProtocol.V1
        await client.ask(
            await client.coordinator("tx"),
            TxnRequests("tx", **identity_fields).add_offsets(group_id="g"),
        )
        answer = await client.ask_group_coordinator(
            "g",
            TxnRequests("tx", **identity_fields).commit_offsets(
                group_id="g", offsets={P0: 4}, accepted_versions=VersionRange(0, 4)
            ),
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.none
        assert await committed_positions(client, "g", (P0,)) == {P0: -1}
        with pytest.raises(ClientError) as error_info:
            await committed_positions(client, "g", (P0,), needs_stable=True)
        assert error_info.value.error == ErrorCode.unstable_offset_commit


@within(run_cluster)
async def test_a_coordinator_that_is_not_there_yet_is_asked_again_and_a_refusal_is_final(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(
        Fail(error="COORDINATOR_NOT_AVAILABLE"),
        FaultPoint.CLIENT_REQUEST,
        api="FindCoordinator",
        limit=2,
    )
    fail_action = Fail(error="GROUP_AUTHORIZATION_FAILED")
    async with cluster.client() as client:
        assert await committed_positions(client, "g", (P0,)) == {P0: -1}
        cluster.arm(fail_action, FaultPoint.CLIENT_REQUEST, "no", api="FindCoordinator")
        with pytest.raises(ClientError, match="no coordinator of group 'g': GROUP_AUTH"):
            await committed_positions(client, "g", (P0,))


@within(run_cluster)
async def test_a_missing_answer_is_reported_in_time(cluster: VirtualCluster) -> None:
    load_failure = Fail(error="COORDINATOR_LOAD_IN_PROGRESS")
    async with cluster.client(api_timeout_ms=200) as client:
        cluster.arm(load_failure, FaultPoint.CLIENT_REQUEST, api="OffsetFetch")
        with pytest.raises(RetriableError, match="OffsetFetch of group 'g': COORDINATOR_LOAD"):
            await committed_positions(client, "g", (P0,))
        cluster.arm(load_failure, FaultPoint.CLIENT_REQUEST, "l", api="FindCoordinator")
        with pytest.raises(RetriableError, match="no coordinator of group 'g'"):
            await committed_positions(client, "g", (P0,))


@within(run_cluster)
async def test_a_lost_connection_is_no_answer_and_is_asked_again(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        assert await committed_positions(client, "g", (P0,)) == {P0: -1}
        await client.disconnect()
        assert await committed_positions(client, "g", (P0,)) == {P0: -1}
        await client.disconnect(lane="nobody")
