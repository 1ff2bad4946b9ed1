"""FindCoordinator v0 to v6: who it is, refusals, the subject; the casebook has the rest."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode

NOWHERE = (-1, "", -1)


def keys(*names: str) -> dict[str, object]:
    return {"key": names[0], "coordinator_keys": names}


async def test_the_first_question_creates_the_log_of_transactions(api: Api) -> None:
    first = await api.ask("FindCoordinator", 1, key="id", key_type=1)
    assert first.error_code is ErrorCode.coordinator_not_available
    assert first.error_message == "The coordinator is not available."
    assert "__transaction_state" in api.broker.image.topics
    second = await api.ask("FindCoordinator", 1, key="id", key_type=1)
    assert second.error_code is ErrorCode.none


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_up_to_v3_one_key_is_answered_at_the_top(api_of_three: Api, version: int) -> None:
    api = api_of_three
    await api.producer("id")
    answer = await api.ask("FindCoordinator", version, key_type=1, **keys("id"))
    node = api.broker.transaction_coordinator_of("id")  # type: ignore[arg-type]
    assert node is not None
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, "NONE")
    assert (answer.node_id, answer.port) == (node, api.broker.image.brokers[node].port)


@pytest.mark.parametrize("version", range(7))
async def test_groups_have_no_coordinator_yet(api: Api, version: int) -> None:
    answer = await api.ask("FindCoordinator", version, key_type=0, **keys("group"))
    one = answer.coordinators[0] if version >= 4 else answer
    assert one.error_code is ErrorCode.coordinator_not_available
    assert (one.node_id, one.host, one.port) == NOWHERE


async def test_refusals_and_the_subject(api: Api) -> None:
    error = ErrorCode.request_timed_out
    assert api.refuse("FindCoordinator", 0, error, key="a").error_code is error
    both = api.refuse("FindCoordinator", 4, error, key_type=1, coordinator_keys=["a", "b"])
    assert [one.error_code for one in both.coordinators] == [error, error]
    subject = api.subject
    assert subject("FindCoordinator", 4, key_type=1, coordinator_keys=["a"]).transactional_id == "a"
    several = subject("FindCoordinator", 4, key_type=1, coordinator_keys=["a", "b"])
    assert [one.transactional_id for one in several.others] == ["b"]
    assert subject("FindCoordinator", 4, key_type=1).transactional_id is None
    assert subject("FindCoordinator", 1, key_type=1, key="b").transactional_id == "b"
    assert subject("FindCoordinator", 0, key="g").transactional_id is None


@pytest.mark.usefixtures("all_levels")
async def test_a_factor_above_the_number_of_brokers_leaves_no_coordinator() -> None:
    """A real 4.4.0 with one broker; clients' initTransactions times out there."""
    settings = {
        "transaction_state_log_replication_factor": 3,
        "offsets_topic_replication_factor": 3,
        "default_replication_factor": 3,
    }
    async with handlers(**settings) as api:
        with capture_logs() as lines:
            for _ in range(3):
                for key_type in (0, 1):
                    answer = await api.ask("FindCoordinator", 4, key_type=key_type, **keys("x"))
                    (found,) = answer.coordinators
                    assert found.error_code is ErrorCode.coordinator_not_available
                asked = {"topics": [{"topic_id": None, "name": "auto"}]}
                answer = await api.ask("Metadata", 9, allow_auto_topic_creation=True, **asked)
                assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
        assert not api.broker.image.topics.keys() & {"__transaction_state", "auto"}
    refused = [line for line in lines if line["event"] == "topic.creation.refused"]
    assert [line["topic"] for line in refused] == [
        "__consumer_offsets",
        "__transaction_state",
        "auto",
    ]
    assert "only 1 broker(s) are registered" in refused[0]["reason"]
