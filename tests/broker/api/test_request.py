"""What a handler is given."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.support.group_api import GROUP, join_values
from tests.support.handlers import KEYS, Api
from txnsim.api.registry import HANDLERS
from txnsim.api.request import Request, error_fields, no_subject
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import NO_SUBJECT
from txnsim.settings import Settings
from txnsim.wire import codec
from txnsim.wire.error_codes import errors_of

E = ErrorCode


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


# A request without time is refused whole, as a broker's forwarding does


@pytest.mark.parametrize("left_ms", [0, -1])
async def test_topics_are_neither_made_nor_grown_nor_deleted(api: Api, left_ms: int) -> None:
    new = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    created = await api.ask("CreateTopics", 7, timeout=left_ms, topics=[new, new])
    assert _told(created.topics) == [(E.request_timed_out, None)] * 2
    more = {"name": "orders", "count": 9, "assignments": None}
    grown = await api.ask("CreatePartitions", 2, timeout=left_ms, topics=[more])
    assert _told(grown.results) == [(E.request_timed_out, None)]
    deleted = await api.ask("DeleteTopics", 6, timeout=left_ms, topics=[{"name": "orders"}])
    assert _told(deleted.responses) == [(E.request_timed_out, None)]
    assert sorted(api.broker.image.topics) == ["orders"]
    assert len(api.broker.image.topics["orders"].partitions) < 9


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_election_without_time_elects_no_leader(api: Api, version: int) -> None:
    named = [{"topic": "orders", "partitions": [0]}]
    answer = await api.ask("ElectLeaders", version, timeout=0, topic_partitions=named)
    (result,) = answer.replica_election_results
    assert _told(result.partition_result) == [(E.request_timed_out, None)]
    none = await api.ask("ElectLeaders", 2, timeout=0, topic_partitions=[])
    assert none.error_code is E.none
    everything = await api.ask("ElectLeaders", 2, timeout=0, topic_partitions=None)
    assert (everything.error_code, everything.replica_election_results) == (
        E.request_timed_out,
        (),
    )


def _told(results: Any) -> list[tuple[ErrorCode, str | None]]:
    return [(result.error_code, result.error_message) for result in results]


@pytest.mark.parametrize("api_key", [1, 3])
def test_no_setting_lets_an_answer_be_larger_than_a_frame_can_say(api_key: int) -> None:
    """One of more than 2 GiB was neither sent, nor did the connection end."""
    most = 2**31 - 1
    settings = Settings(fetch_max_bytes=most, answer_max_bytes=most)
    broker = SimpleNamespace(metadata=SimpleNamespace(settings=settings))
    allowed = Request.bytes_max.fget(SimpleNamespace(api_key=api_key, broker=broker))  # type: ignore[attr-defined]
    head = codec.response_head(api_key, 12, 7, allowed)
    assert int.from_bytes(head[:4], "big", signed=True) > allowed


# Refusals

LOGIN: Final = ("SaslAuthenticate", "SaslHandshake")
NOTHING: Final[dict[str, Any]] = {}
IN_GROUP: Final = {"group_id": GROUP}
AT_THE_TOP: Final[dict[str, dict[str, Any]]] = {
    **dict.fromkeys(("DescribeClientQuotas", "DescribeCluster", "ListGroups"), NOTHING),
    **dict.fromkeys(("ListTransactions", "PushTelemetry", *LOGIN), NOTHING),
    **dict.fromkeys(("ConsumerGroupHeartbeat", "Heartbeat", "LeaveGroup", "SyncGroup"), IN_GROUP),
    "DescribeQuorum": {"topics": []},
    "JoinGroup": join_values(),
    "OffsetDelete": {**IN_GROUP, "topics": [{"name": "orders", "partitions": []}]},
    "UnregisterBroker": {"broker_id": 1},
    "UpdateFeatures": {"feature_updates": []},
}
RESOURCE: Final = {"resource_type": 2, "resource_name": "orders", "configs": []}
TOPIC: Final = {"name": "orders", "count": 4, "assignments": None}
IN_EACH: Final[dict[str, dict[str, Any]]] = {
    "AlterClientQuotas": {
        "entries": [
            {"entity": [{"entity_type": "user", "entity_name": name}], "ops": []} for name in "ab"
        ]
    },
    "AlterConfigs": {"resources": [RESOURCE] * 2},
    "ConsumerGroupDescribe": {"group_ids": ["a", "b"]},
    "CreatePartitions": {"topics": [TOPIC] * 2},
    "DeleteGroups": {"groups_names": ["a", "b"]},
    "DescribeGroups": {"groups": ["a", "b"]},
    "IncrementalAlterConfigs": {"resources": [RESOURCE] * 2},
    "OffsetCommit": {**IN_GROUP, "topics": [{"name": "orders", "partitions": [{}]}] * 2},
}


@pytest.mark.parametrize("name", [*AT_THE_TOP, *IN_EACH])
async def test_a_refusal_is_an_error_at_the_top_and_nothing_else_or_one_in_each_element(
    api: Api, name: str
) -> None:
    low, high = HANDLERS[KEYS[name]].versions
    for version in range(low, high + 1):
        answer = api.refuse(name, version, E.not_controller, **(AT_THE_TOP | IN_EACH)[name])
        found: list[int] = []
        tell = errors_of(answer.__class__)
        assert tell is not None
        tell(answer, found.append)
        assert found == [E.not_controller] * (2 if name in IN_EACH else 1)
        said = (getattr(answer, field) for field in answer.__dataclass_fields__)
        lists = [one for one in said if isinstance(one, tuple)]
        assert name in IN_EACH or not any(lists), "nothing that the broker knows"


@pytest.mark.parametrize("name", LOGIN)
async def test_a_login_does_not_belong_behind_the_login(api: Api, name: str) -> None:
    assert (await api.ask(name, 1)).error_code is E.illegal_sasl_state
