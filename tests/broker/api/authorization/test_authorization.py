"""Rights, request by request: what is asked of the authorizer, and what the forbidden get."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import KEYS, handlers
from tests.support.logs import plain
from tests.support.rights import OFFSETS, TOPICS
from tests.support.rights import PARTS as PART_CASES
from tests.support.security import GuardedApi, acl
from txnsim.api.authorization import _groups as groups
from txnsim.api.authorization import _topics as topics
from txnsim.api.authorization import _transactions as transactions
from txnsim.api.authorization._named_resources import PARTS, REFUSED_AT_ONCE
from txnsim.api.authorization._refusal_texts import with_texts
from txnsim.api.authorization.gate import GUARDS, guard_apis
from txnsim.api.registry import HANDLERS, SHIPPED
from txnsim.api.request import NoResponse
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from txnsim.security.authorizer import Authorizer

# Requests that name resources one by one: the forbidden ones fail alone, whether they exist or not.


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
FORBIDDEN = ErrorCode.topic_authorization_failed


@pytest.mark.parametrize(("name", "version", "values", "operation", "path", "granted"), PART_CASES)
async def test_a_forbidden_topic_fails_alone_and_does_not_show_whether_it_exists(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    operation: AclOperation,
    path: str,
    granted: list[Any],
) -> None:
    api.grant(*granted)
    await have_group(api)
    errors = errors_by_topic(await api.ask(name, version, **values), path)
    assert errors == dict.fromkeys(TOPICS, FORBIDDEN)
    api.grant(acl(TOPIC, "orders", operation))
    errors = errors_by_topic(await api.ask(name, version, **values), path)
    assert errors.pop("orders") is not FORBIDDEN
    assert errors == {"hidden": FORBIDDEN, "missing": FORBIDDEN}
    api.grant(acl(TOPIC, "*", operation))
    errors = errors_by_topic(await api.ask(name, version, **values), path)
    assert FORBIDDEN not in errors.values()


async def have_group(api: GuardedApi) -> None:
    await api.api.until(
        lambda answer: answer.error_code is ErrorCode.none, "FindCoordinator", 1, key="g"
    )
    await api.api.until(
        lambda answer: answer.topics[0].partitions[0].error_code is ErrorCode.none,
        "OffsetCommit",
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=OFFSETS[:1],
    )


def errors_by_topic(answer: Any, path: str) -> dict[str, ErrorCode]:
    field_name, _, inner = path.partition(".")
    errors = {}
    for topic in getattr(answer, field_name):
        name = next(
            getattr(topic, field_name)
            for field_name in ("name", "topic", "resource_name")
            if hasattr(topic, field_name)
        )
        error = topic if not inner else getattr(topic, inner)[0]
        errors[name] = next(
            getattr(error, field_name)
            for field_name in ("error_code", "partition_error_code")
            if hasattr(error, field_name)
        )
    return errors


@pytest.mark.parametrize(
    ("name", "version", "field_name", "answer_field", "operation"),
    [
        ("DeleteGroups", 2, "groups_names", "results", AclOperation.DELETE),
        ("DescribeGroups", 5, "groups", "groups", AclOperation.DESCRIBE),
        ("ConsumerGroupDescribe", 1, "group_ids", "groups", AclOperation.DESCRIBE),
    ],
)
async def test_a_forbidden_group_fails_alone(
    api: GuardedApi,
    name: str,
    version: int,
    field_name: str,
    answer_field: str,
    operation: AclOperation,
) -> None:
    api.grant(acl(GROUP, "g", operation))
    answer = await api.ask(name, version, **{field_name: ["g", "other"]})
    errors = {group.group_id: group.error_code for group in getattr(answer, answer_field)}
    assert errors["g"] is not ErrorCode.group_authorization_failed
    assert errors["other"] is ErrorCode.group_authorization_failed


def test_the_tables_have_every_api() -> None:
    tried_apis = {KEYS[name] for name, *_ in PART_CASES} | {42}
    assert PARTS.keys() <= tried_apis


async def test_without_acknowledgements_a_forbidden_topic_closes_the_connection(
    api: GuardedApi,
) -> None:
    values = {"transactional_id": None, "acks": 0}
    data = {"index": 0, "records": plain()}
    denied_topics = [{"name": "orders", "partition_data": [data]}]
    assert await api.ask("Produce", 9, **values, topic_data=denied_topics) is NoResponse.CLOSE
    api.grant(acl(TOPIC, "orders", AclOperation.WRITE))
    never = [
        {"name": "orders", "partition_data": [{"index": 0, "records": None}]},
        {"name": "hidden", "partition_data": [data]},
    ]
    assert await api.ask("Produce", 9, **values, topic_data=never) is NoResponse.NEVER


# What a refusal says beside its error code, as measured on a real broker.


@pytest.mark.parametrize(
    ("name", "version", "values", "field_name", "text"),
    [
        ("DescribeQuorum", 2, {}, None, "Cluster authorization failed."),
        ("DescribeUserScramCredentials", 0, {}, None, None),
        ("DescribeClientQuotas", 1, {}, None, None),
        (
            "DescribeConfigs",
            4,
            {"resources": [{"resource_type": 8, "resource_name": "1"}]},
            "results",
            "Cluster authorization failed.",
        ),
        (
            "IncrementalAlterConfigs",
            1,
            {"resources": [{"resource_type": 8, "resource_name": "1"}]},
            "responses",
            None,
        ),
        ("ConsumerGroupHeartbeat", 1, {"group_id": "g"}, None, None),
        (
            "FindCoordinator",
            3,
            {"key_type": 1, "key": "tx"},
            None,
            "Transactional Id authorization failed.",
        ),
    ],
)
async def test_some_say_what_is_missing(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    field_name: str | None,
    text: str | None,
) -> None:
    answer = await api.ask(name, version, **values)
    refusal = answer if field_name is None else getattr(answer, field_name)[0]
    assert refusal.error_message == text


@pytest.mark.parametrize(
    ("rules", "text"),
    [({}, None), ({"brokers_guard_their_configs": False}, "Cluster authorization failed.")],
)
@pytest.mark.parametrize(("name", "version"), [("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)])
async def test_a_broker_refuses_without_words_since_it_guards_its_configs(
    name: str, version: int, rules: dict[str, bool], text: str | None
) -> None:
    kinds = [(4, "1"), (4, ""), (16, "metrics")]
    resources = [
        {"resource_type": resource_type, "resource_name": resource_name}
        for resource_type, resource_name in kinds
    ]
    async with handlers(rules=rules) as api:
        answer = await GuardedApi(api).ask(name, version, resources=resources)
    messages = [response.error_message for response in answer.responses]
    assert messages == [text, text, "Cluster authorization failed."]


async def test_an_answer_without_a_message_is_left_alone(api: GuardedApi) -> None:
    request = api.api.request("Produce", 9)
    assert await with_texts(request, NoResponse.CLOSE) is NoResponse.CLOSE


@pytest.mark.parametrize(
    ("name", "version", "request_field", "answer_field"),
    [
        ("DescribeGroups", 5, "groups", "groups"),
        ("ConsumerGroupDescribe", 1, "group_ids", "groups"),
        ("DescribeTransactions", 0, "transactional_ids", "transaction_states"),
    ],
)
async def test_many_are_refused_one_by_one_and_in_order(
    api: GuardedApi, name: str, version: int, request_field: str, answer_field: str
) -> None:
    names = [f"n-{name_number}" for name_number in range(3 * REFUSED_AT_ONCE + 1)] + ["n-0"]
    results = getattr(await api.ask(name, version, **{request_field: names}), answer_field)
    assert [
        getattr(result, "group_id", None) or result.transactional_id for result in results
    ] == names
    assert {result.error_code.name.endswith("authorization_failed") for result in results} == {True}


# Topics that may not be seen are left out of lists; a client learns no names from ids, or ids from
# names.


TOPICS_TOPIC, TOPICS_CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
DESCRIBE_ORDERS = acl(TOPICS_TOPIC, "orders", AclOperation.DESCRIBE)


@pytest.mark.parametrize(("version", "every"), [(0, []), (9, None)])
async def test_all_topics_are_those_that_may_be_seen(
    api: GuardedApi, version: int, every: Any
) -> None:
    assert (await api.ask("Metadata", version, topics=every)).topics == ()
    api.grant(DESCRIBE_ORDERS)
    answer = await api.ask("Metadata", version, topics=every)
    assert [topic.name for topic in answer.topics] == ["orders"]
    assert len(answer.brokers) == 1


async def test_asking_for_a_topic_without_the_right_does_not_create_it(api: GuardedApi) -> None:
    api.grant(acl(TOPICS_TOPIC, "*", AclOperation.DESCRIBE))
    new_topics = [{"name": "new"}]
    answer = await api.ask("Metadata", 9, topics=new_topics, allow_auto_topic_creation=True)
    assert answer.topics[0].error_code is FORBIDDEN
    answer = await api.ask("Metadata", 9, topics=new_topics, allow_auto_topic_creation=False)
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    assert "new" not in api.api.broker.image.topics
    api.grant(acl(TOPICS_TOPIC, "new", AclOperation.CREATE))
    await api.ask("Metadata", 9, topics=new_topics, allow_auto_topic_creation=True)
    assert "new" in api.api.broker.image.topics


async def test_the_oldest_clients_are_not_shown_everything_where_all_they_want_is_forbidden(
    api: GuardedApi,
) -> None:
    api.grant(DESCRIBE_ORDERS)
    answer = await api.ask("Metadata", 0, topics=[{"name": "hidden"}])
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("hidden", FORBIDDEN)]
    assert len(answer.brokers) == 1


async def test_internal_topics_look_like_any_other_while_forbidden(api: GuardedApi) -> None:
    answer = await api.ask("Metadata", 9, topics=[{"name": "__consumer_offsets"}])
    assert (answer.topics[0].error_code, answer.topics[0].is_internal) == (FORBIDDEN, False)


async def test_topics_are_deleted_by_name_with_the_right_to(api: GuardedApi) -> None:
    names = ["orders", "hidden", "missing"]

    async def delete() -> dict[str, ErrorCode]:
        answer = await api.ask("DeleteTopics", 5, topic_names=names)
        return {response.name: response.error_code for response in answer.responses}

    assert await delete() == dict.fromkeys(names, FORBIDDEN)
    api.grant(DESCRIBE_ORDERS, acl(TOPICS_TOPIC, "missing", AclOperation.DESCRIBE))
    assert await delete() == {
        "orders": FORBIDDEN,
        "hidden": FORBIDDEN,
        "missing": ErrorCode.unknown_topic_or_partition,
    }
    api.grant(acl(TOPICS_TOPIC, "orders", AclOperation.DELETE))
    assert (await delete())["orders"] is ErrorCode.none
    api.grant(acl(TOPICS_CLUSTER, CLUSTER_NAME, AclOperation.DELETE))
    assert (await delete())["hidden"] is ErrorCode.none
    assert api.api.broker.image.topics.keys().isdisjoint(names)


# The gate stands only where there is an authorizer, and asks for the present ACLs.


def test_what_is_advertised_is_the_same_behind_the_gate() -> None:
    assert guard_apis(SHIPPED, Authorizer()).advertised == SHIPPED.advertised


def test_every_api_that_is_guarded_is_spoken_and_has_one_guard() -> None:
    assert GUARDS.keys() <= HANDLERS.keys()
    tables = (PARTS, groups.GUARDS, topics.GUARDS, transactions.GUARDS)
    assert len(GUARDS) == sum(map(len, tables))


async def test_rights_are_those_of_this_very_moment(api: GuardedApi) -> None:
    group = acl(ResourceType.GROUP, "g", AclOperation.READ)
    denied_error = ErrorCode.group_authorization_failed
    assert (await api.ask("Heartbeat", 3, group_id="g")).error_code is denied_error
    api.grant(group)
    assert (await api.ask("Heartbeat", 3, group_id="g")).error_code is not denied_error
    api.revoke_all()
    assert (await api.ask("Heartbeat", 3, group_id="g")).error_code is denied_error


async def test_a_super_user_passes(api: GuardedApi) -> None:
    boss_api = GuardedApi(api.api, super_users=frozenset({"User:alice"}))
    answer = await boss_api.ask("DescribeQuorum", 2)
    assert answer.error_code is not ErrorCode.cluster_authorization_failed


async def test_what_needs_no_right_is_answered(api: GuardedApi) -> None:
    assert (
        await api.ask("ApiVersions", 3)
    ).error_code is not ErrorCode.cluster_authorization_failed


# Transactional ids that may not be seen are left out; a client learns no topics from them.


DESCRIBE = acl(ResourceType.TRANSACTIONAL_ID, "tx", AclOperation.DESCRIBE)


@pytest.fixture
async def open_transaction(api: GuardedApi) -> GuardedApi:
    """The transactional id ``tx`` has an open transaction on ``orders-0``."""
    producer_id, epoch = await api.api.producer("tx")
    await api.api.ask(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[{"name": "orders", "partitions": [0]}],
    )
    return api


async def test_transactions_are_listed_with_the_right_to_see_them(
    open_transaction: GuardedApi,
) -> None:
    assert (await open_transaction.ask("ListTransactions", 1)).transaction_states == ()
    open_transaction.grant(DESCRIBE)
    answer = await open_transaction.ask("ListTransactions", 1)
    assert [state.transactional_id for state in answer.transaction_states] == ["tx"]
