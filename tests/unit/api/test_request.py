"""What a handler is given."""

from __future__ import annotations

from datetime import timedelta

from tests.support.handlers import Api
from txnsim.api.request import NOBODY, nobody
from txnsim.errors import ErrorCode


async def test_an_answer_leaves_out_what_its_version_does_not_have(api: Api) -> None:
    old = api.request("EndTxn", 4)
    answer = old.answer(error_code=ErrorCode.none, producer_id=1, producer_epoch=0)
    assert not hasattr(answer, "producer_id")
    new = api.request("EndTxn", 5).answer(
        error_code=ErrorCode.none, producer_id=1, producer_epoch=0
    )
    assert (new.producer_id, new.throttle_time) == (1, timedelta(0))


async def test_a_request_is_about_nobody_unless_its_handler_says_so(api: Api) -> None:
    assert nobody(api.request("ApiVersions", 0)) is NOBODY
    assert api.subject("DescribeCluster", 0) is NOBODY


async def test_the_schema_is_that_of_the_answer(api: Api) -> None:
    assert hasattr(api.request("Metadata", 9).schema, "MetadataResponse")
