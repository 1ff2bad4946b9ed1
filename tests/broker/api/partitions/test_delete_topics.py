"""DeleteTopics v1 to v6: a refusal; the casebook has its answers."""

from __future__ import annotations

from tests.support.broker_api import NO_SUCH_ID, Api
from txnsim.errors import ErrorCode


async def test_refusing_names_every_topic(api: Api) -> None:
    error = ErrorCode.request_timed_out
    old_answer = api.refuse("DeleteTopics", 3, error, topic_names=["a", "b"])
    assert [(response.name, response.error_code) for response in old_answer.responses] == [
        ("a", error),
        ("b", error),
    ]
    new_answer = api.refuse(
        "DeleteTopics", 6, error, topics=[{"name": None, "topic_id": NO_SUCH_ID}]
    )
    assert (new_answer.responses[0].topic_id, new_answer.responses[0].error_code) == (
        NO_SUCH_ID,
        error,
    )
