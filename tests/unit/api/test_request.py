"""What a handler is given."""

from __future__ import annotations

from datetime import timedelta

from tests.support.handlers import Api
from txnsim.api.request import error_fields, no_subject
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import NO_SUBJECT


async def test_an_answer_leaves_out_what_its_version_does_not_have(api: Api) -> None:
    old = api.request("EndTxn", 4)
    answer = old.answer(error_code=ErrorCode.none, producer_id=1, producer_epoch=0)
    assert not hasattr(answer, "producer_id")
    new = api.request("EndTxn", 5).answer(
        error_code=ErrorCode.none, producer_id=1, producer_epoch=0
    )
    assert (new.producer_id, new.throttle_time) == (1, timedelta(0))


async def test_a_request_has_no_subject_unless_its_handler_names_one(api: Api) -> None:
    assert no_subject(api.request("ApiVersions", 0)) is NO_SUBJECT
    assert api.subject("DescribeCluster", 0) is NO_SUBJECT


async def test_the_schema_is_that_of_the_answer(api: Api) -> None:
    assert hasattr(api.request("Metadata", 9).schema, "MetadataResponse")


def test_a_result_tells_its_error_and_why() -> None:
    assert error_fields(None) == {"error_code": ErrorCode.none, "error_message": None}
    refused = Rejection(error=ErrorCode.invalid_request, reason="")
    assert error_fields(refused) == {"error_code": ErrorCode.invalid_request, "error_message": None}
    told = error_fields(Rejection(error=ErrorCode.invalid_request, reason="no such topic"))
    assert told["error_message"] == "no such topic"
    assert error_fields(object()) == error_fields(None)
