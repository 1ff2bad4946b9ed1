"""Handlers of ACLs, SCRAM users and delegation tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.broker_api import Api, read_back
from tests.support.security import GuardedApi, acl, credentials
from txnsim.api._identities import delete_acls
from txnsim.api._identities.acl_entries import describe_matching
from txnsim.api._identities.delete_acls import TOO_MANY
from txnsim.api.registry import HANDLERS
from txnsim.api.request import parse_request
from txnsim.controller.controller import RECORDS_MAX
from txnsim.errors import ErrorCode, MalformedFrameError
from txnsim.security.acls import NO_ACLS, AclFilter, AclOperation, PatternType, ResourceType
from txnsim.security.scram import ScramMechanism
from txnsim.wire import codec

# DeleteAcls: what any of the filters takes is gone.


ALL_OF_TOPICS: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


async def test_each_filter_is_answered_with_what_it_removed(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss_api.grant(
        acl(ResourceType.TOPIC, "orders", AclOperation.READ),
        acl(ResourceType.GROUP, "g", AclOperation.READ),
    )
    bad_filter = {**ALL_OF_TOPICS, "resource_type_filter": 99}
    answer = await boss_api.ask("DeleteAcls", 3, filters=[ALL_OF_TOPICS, bad_filter, ALL_OF_TOPICS])
    assert [filter_result.error_code for filter_result in answer.filter_results] == [
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]
    removed = [
        [matching_acl_rule.resource_name for matching_acl_rule in filter_result.matching_acls]
        for filter_result in answer.filter_results
    ]
    assert removed == [["orders"], [], ["orders"]]
    assert [acl_binding.name for acl_binding in api.broker.image.acls.all_bindings()] == ["g"]


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["MATCHES_MAX", "RECORDS_MAX"])
async def test_a_request_that_matches_too_much_removes_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(delete_acls, bound, 2)
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss_api.grant(
        acl(ResourceType.TOPIC, "orders", AclOperation.READ),
        acl(ResourceType.TOPIC, "orders", AclOperation.WRITE),
    )
    bad_filter = {**ALL_OF_TOPICS, "resource_type_filter": 99}
    of_groups = {**ALL_OF_TOPICS, "resource_type_filter": 3}
    # As a real 4.3.1 has it: where as many go as may go, one of these must not be matched again.
    answer = await boss_api.ask(
        "DeleteAcls", 3, filters=[bad_filter, ALL_OF_TOPICS, of_groups, ALL_OF_TOPICS]
    )
    assert {
        (filter_result.error_code, filter_result.error_message, len(filter_result.matching_acls))
        for filter_result in answer.filter_results
    } == {(ErrorCode.invalid_request, TOO_MANY.reason, 0)}
    assert len(answer.filter_results) == 4
    assert api.broker.image.acls.count == 2
    answer = await boss_api.ask("DeleteAcls", 3, filters=[bad_filter, ALL_OF_TOPICS, of_groups])
    assert [len(filter_result.matching_acls) for filter_result in answer.filter_results] == [
        0,
        2,
        0,
    ]
    assert not api.broker.image.acls.count


async def test_what_was_granted_between_the_slices_is_removed_as_well(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss_api.grant(acl(ResourceType.TOPIC, "orders", AclOperation.READ))
    other_filters = [
        {**ALL_OF_TOPICS, "resource_name_filter": f"t-{topic_number}"}
        for topic_number in range(5_000)
    ]
    asking_task = asyncio.get_running_loop().create_task(
        boss_api.ask("DeleteAcls", 3, filters=[ALL_OF_TOPICS, *other_filters])
    )
    await asyncio.sleep(0)
    assert not asking_task.done()
    boss_api.grant(acl(ResourceType.TOPIC, "payments", AclOperation.READ))
    filter_result = (await asking_task).filter_results[0]
    assert sorted(matching_acl.resource_name for matching_acl in filter_result.matching_acls) == [
        "orders",
        "payments",
    ]
    assert not api.broker.image.acls.count


async def test_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("DeleteAcls", 1, filters=[ALL_OF_TOPICS])
    assert [filter_result.error_code for filter_result in answer.filter_results] == [
        ErrorCode.security_disabled
    ]


# ``create_acls``: CreateAcls: each binding by itself, once.


RULE: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


async def test_good_ones_are_added_and_bad_ones_refused(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    bad_acl = {**RULE, "resource_type": 4}
    answer = await boss_api.ask("CreateAcls", 3, creations=[RULE, bad_acl, RULE])
    assert [result.error_code for result in answer.results] == [
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]
    offset = api.broker.image.offset
    assert api.broker.image.acls.count == 1
    await boss_api.ask("CreateAcls", 3, creations=[RULE])
    assert api.broker.image.offset == offset  # it was there already


async def test_what_only_a_filter_may_be_fails_the_whole_request(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    answer = await boss_api.ask("CreateAcls", 3, creations=[RULE, {**RULE, "operation": 1}])
    assert {result.error_code for result in answer.results} == {ErrorCode.unknown_server_error}
    assert not api.broker.image.acls.count


@pytest.mark.slow
async def test_more_new_ones_than_a_request_may_make_are_all_refused(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    many_acls = [
        {**RULE, "resource_name": f"t-{record_number}"} for record_number in range(RECORDS_MAX + 1)
    ]
    bad_acl = {**RULE, "resource_type": 4}
    answer = await boss_api.ask("CreateAcls", 3, creations=[bad_acl, *many_acls])
    assert answer.results[0].error_code is ErrorCode.invalid_request
    assert {result.error_code for result in answer.results[1:]} == {ErrorCode.policy_violation}
    assert not list(api.broker.image.acls.all_bindings())
    answer = await boss_api.ask("CreateAcls", 3, creations=[*many_acls[1:], many_acls[1]])
    assert {result.error_code for result in answer.results} == {ErrorCode.none}
    assert api.broker.image.acls.count == RECORDS_MAX


async def test_create_acls_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("CreateAcls", 1, creations=[RULE])
    assert [result.error_code for result in answer.results] == [ErrorCode.security_disabled]


# ``describe_acls``: DescribeAcls: the ACLs that a filter takes.


EVERYTHING = {**ALL_OF_TOPICS, "resource_type_filter": 1}


async def test_matching_acls_are_answered_by_resource(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss_api.grant(
        acl(ResourceType.TOPIC, "orders", AclOperation.READ),
        acl(ResourceType.TOPIC, "orders", AclOperation.WRITE),
        acl(ResourceType.GROUP, "g", AclOperation.READ, pattern=PatternType.PREFIXED),
    )
    answer = await boss_api.ask("DescribeAcls", 3, **EVERYTHING)
    assert answer.error_code is ErrorCode.none
    acls_by_resource = {
        (resource.resource_type, resource.resource_name, resource.pattern_type): resource.acls
        for resource in answer.resources
    }
    assert {resource: len(acls) for resource, acls in acls_by_resource.items()} == {
        (2, "orders", 3): 2,
        (3, "g", 4): 1,
    }
    (rule,) = acls_by_resource[3, "g", 4]
    assert (rule.principal, rule.host, rule.operation, rule.permission_type) == (
        "User:alice",
        "*",
        3,
        3,
    )
    matching = {**EVERYTHING, "resource_name_filter": "group", "pattern_type_filter": 2}
    answer = await boss_api.ask("DescribeAcls", 3, **matching)
    assert [resource.resource_name for resource in answer.resources] == ["g"]


async def test_an_unknown_kind_finds_nothing(api: Api) -> None:
    boss_api = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss_api.grant(acl(ResourceType.TOPIC, "orders", AclOperation.READ))
    answer = await boss_api.ask("DescribeAcls", 3, **{**EVERYTHING, "operation": 99})
    assert (answer.error_code, answer.resources) == (ErrorCode.none, ())


async def test_describe_acls_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("DescribeAcls", 3, **EVERYTHING)
    assert answer.error_code is ErrorCode.security_disabled
    assert answer.error_message == "No Authorizer is configured on the broker"


# ``delegation_tokens``: Delegation tokens: who may ask for one, and what each API answers.


REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    *(
        ("CreateDelegationToken", version, {"renewers": [], "max_lifetime": -1})
        for version in (1, 2, 3)
    ),
    *(("RenewDelegationToken", version, {"hmac": b"x", "renew_period": -1}) for version in (1, 2)),
    *(
        ("ExpireDelegationToken", version, {"hmac": b"x", "expiry_time_period": -1})
        for version in (1, 2)
    ),
    *(("DescribeDelegationToken", version, {"owners": None}) for version in (1, 2, 3)),
]


async def answer_to(
    api: Api, principal: str, name: str, version: int, **request_fields: Any
) -> Any:
    request = api.request(name, version, **request_fields)
    request.principal = principal
    return read_back(request, await HANDLERS[request.api_key].handle(request))


@pytest.mark.parametrize(("name", "version", "values"), REQUESTS)
async def test_an_unauthenticated_connection_may_not_ask_and_to_others_tokens_are_disabled(
    api: Api, name: str, version: int, values: dict[str, Any]
) -> None:
    answer = await answer_to(api, "User:ANONYMOUS", name, version, **values)
    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed
    answer = await answer_to(api, "User:alice", name, version, **values)
    assert answer.error_code is ErrorCode.delegation_token_auth_disabled
    if hasattr(answer, "expiry_timestamp"):
        assert answer.expiry_timestamp.timestamp() == 0


@pytest.mark.parametrize("owner_principal_name", ["alice", None])
async def test_the_answer_names_whose_token_it_would_have_been(
    api: Api, owner_principal_name: str | None
) -> None:
    owner = {
        "owner_principal_type": owner_principal_name and "User",
        "owner_principal_name": owner_principal_name,
    }
    answer = await api.ask("CreateDelegationToken", 3, renewers=[], max_lifetime=-1, **owner)
    assert (answer.principal_type, answer.principal_name) == (
        "User",
        owner_principal_name or "ANONYMOUS",
    )
    assert answer.token_requester_principal_name == "ANONYMOUS"


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:alice"])
async def test_a_name_without_a_type_is_an_unknown_error_as_on_a_real_broker(
    api: Api, principal: str
) -> None:
    owner = {"owner_principal_type": None, "owner_principal_name": "bob"}
    fields = {"renewers": [], "max_lifetime": -1, **owner}
    answer = await answer_to(api, principal, "CreateDelegationToken", 3, **fields)
    assert answer.error_code is ErrorCode.unknown_server_error
    assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
    request = api.request("CreateDelegationToken", 3, **fields)
    refusal = HANDLERS[request.api_key].refuse(request, ErrorCode.illegal_sasl_state)
    assert read_back(request, refusal).error_code is ErrorCode.illegal_sasl_state


# ACLs between the wire and the core.


async def test_bindings_of_one_resource_stand_together(api: Api) -> None:
    request = api.request("DescribeAcls", 3)
    topic = ResourceType.TOPIC
    rules = (("a", AclOperation.READ), ("b", AclOperation.READ), ("a", AclOperation.WRITE))
    acls = NO_ACLS.plus(acl(topic, name, operation) for name, operation in rules)
    resources = await describe_matching(request, acls, AclFilter())
    operations = {
        resource.resource_name: [acl_rule.operation for acl_rule in resource.acls]
        for resource in resources
    }
    assert operations == {"a": [AclOperation.READ, AclOperation.WRITE], "b": [AclOperation.READ]}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("DescribeAcls", {}),
        ("DeleteAcls", {"filters": [{}]}),
        ("CreateAcls", {"creations": [{}]}),
    ],
)
def test_what_is_of_an_unknown_kind_can_not_be_read(
    api: Api, name: str, values: dict[str, Any]
) -> None:
    request = api.request(name, 3, **values)
    frame = codec.encode_request(request.api_key, 3, 1, "c", request.message)[4:]
    with pytest.raises(MalformedFrameError):
        parse_request(frame, request, request.broker)


# ``alter_user_scram_credentials``: AlterUserScramCredentials: each user by itself.


BOB = {
    "name": "bob",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"salted",
}


async def test_a_user_is_set_and_forgotten(api: Api) -> None:
    answer = await api.ask("AlterUserScramCredentials", 0, upsertions=[BOB])
    assert [(result.user, result.error_code) for result in answer.results] == [
        ("bob", ErrorCode.none)
    ]
    credential = api.broker.image.scram["bob", ScramMechanism.SCRAM_SHA_256]
    assert (credential.salt, credential.iterations) == (b"salt", 4096)
    assert b"salted" not in (credential.stored_key, credential.server_key)
    await api.ask("AlterUserScramCredentials", 0, deletions=[{"name": "bob", "mechanism": 1}])
    assert not api.broker.image.scram


async def test_what_is_refused_changes_nothing(api: Api) -> None:
    offset = api.broker.image.offset
    deletions = [{"name": "bob", "mechanism": 1}]
    answer = await api.ask("AlterUserScramCredentials", 0, deletions=deletions)
    assert answer.results[0].error_code is ErrorCode.resource_not_found
    assert api.broker.image.offset == offset


# ``describe_user_scram_credentials``: DescribeUserScramCredentials: who can log in, never with
# what.


async def test_users_are_described_by_name_or_all(api: Api) -> None:
    metadata = api.broker.metadata
    assert (await api.ask("DescribeUserScramCredentials", 0, users=None)).results == ()
    metadata.publish(metadata.image.with_scram(credentials()))
    for users in (None, [], [{"name": "alice"}]):
        answer = await api.ask("DescribeUserScramCredentials", 0, users=users)
        (result,) = answer.results
        infos = [(info.mechanism, info.iterations) for info in result.credential_infos]
        assert (result.user, infos) == ("alice", [(1, 4096), (2, 4096)])


async def test_unknown_users_and_those_named_twice_are_errors(api: Api) -> None:
    names = [{"name": name} for name in ("bob", "eve", "eve")]
    answer = await api.ask("DescribeUserScramCredentials", 0, users=names)
    assert {result.user: result.error_code for result in answer.results} == {
        "bob": ErrorCode.resource_not_found,
        "eve": ErrorCode.duplicate_resource,
    }
