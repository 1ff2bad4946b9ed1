"""DescribeCluster v0 to v2: brokers, endpoint types, authorized operations."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from tests.support.images import B2
from txnsim.controller.registrations import fence_broker
from txnsim.errors import ErrorCode


@pytest.mark.parametrize("version", range(3))
async def test_every_version_lists_the_brokers(api_of_three: Api, version: int) -> None:
    answer = await api_of_three.ask("DescribeCluster", version, endpoint_type=1)
    assert answer.error_code is ErrorCode.none
    assert answer.cluster_id == api_of_three.broker.image.cluster_id
    assert [one.broker_id for one in answer.brokers] == [1, 2, 3]
    assert answer.controller_id in {1, 2, 3}
    assert answer.cluster_authorized_operations == -(2**31)
    if version == 2:
        assert not any(one.is_fenced for one in answer.brokers)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (2, ErrorCode.mismatched_endpoint_type),
        (0, ErrorCode.unsupported_endpoint_type),
        (3, ErrorCode.unsupported_endpoint_type),
        (-1, ErrorCode.unsupported_endpoint_type),
    ],
)
async def test_other_endpoints_are_not_here(
    api: Api, version: int, kind: int, error: ErrorCode
) -> None:
    answer = await api.ask("DescribeCluster", version, endpoint_type=kind)
    assert answer.error_code is error
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ((), "", -1)
    assert answer.endpoint_type == 1, "what was reached"
    assert answer.error_message


async def test_operations_are_answered_when_asked_for(api: Api) -> None:
    wanted = {"include_cluster_authorized_operations": True}
    answer = await api.ask("DescribeCluster", 0, **wanted)
    assert answer.cluster_authorized_operations == 8096


async def test_refusing_says_nothing_of_the_cluster(api: Api) -> None:
    answer = api.refuse("DescribeCluster", 1, ErrorCode.request_timed_out)
    assert (answer.error_code, answer.brokers) == (ErrorCode.request_timed_out, ())


@pytest.mark.parametrize(("asked", "listed"), [(False, [1, 3]), (True, [1, 2, 3])])
async def test_fenced_brokers_are_answered_when_asked_for(
    api_of_three: Api, asked: bool, listed: list[int]
) -> None:
    metadata = api_of_three.cluster.metadata
    metadata.publish(fence_broker(metadata.image, B2, metadata.settings))
    wanted = {"endpoint_type": 1, "include_fenced_brokers": asked}
    answer = await api_of_three.ask("DescribeCluster", 2, **wanted)
    assert [one.broker_id for one in answer.brokers] == listed
    assert [one.broker_id for one in answer.brokers if one.is_fenced] == ([2] if asked else [])
