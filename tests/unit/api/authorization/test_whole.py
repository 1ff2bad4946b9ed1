"""Requests that are refused as a whole: each API, the right it asks for, its error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import KEYS
from tests.support.logs import plain
from tests.support.rights import CLUSTER, ERRORS, NAMES, TOPIC, TXN, WHOLE, WRITTEN
from tests.support.security import GuardedApi, acl
from txnsim.api.authorization.whole import CHECKS
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType


@pytest.mark.parametrize(("name", "version", "values", "needs"), WHOLE)
async def test_each_right_is_asked_for_and_enough(
    api: GuardedApi,
    name: str,
    version: int,
    values: dict[str, Any],
    needs: list[tuple[ResourceType, Operation]],
) -> None:
    for kind, operation in needs:
        assert errors_of(await api.ask(name, version, **values)) == {ERRORS[kind]}
        api.grant(acl(kind, NAMES[kind], operation))
    assert not errors_of(await api.ask(name, version, **values)) & set(ERRORS.values())


def test_the_table_has_every_row() -> None:
    tried = {KEYS[name] for name, *_ in WHOLE}
    assert tried == CHECKS.keys()


async def test_what_is_not_transactional_needs_no_transactional_id(api: GuardedApi) -> None:
    api.grant(acl(TOPIC, "orders", Operation.WRITE))
    values = {
        **WRITTEN,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": plain()}]}],
    }
    answer = await api.ask("Produce", 9, **values)
    assert errors_of(answer) == {ErrorCode.none}
    answer = await api.ask("Produce", 9, **{**values, "transactional_id": None})
    assert errors_of(answer) == {ErrorCode.none}


async def test_a_sync_that_names_no_protocol_is_no_request_at_all(api: GuardedApi) -> None:
    answer = await api.ask("SyncGroup", 5, group_id="g")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


async def test_share_coordinators_are_for_brokers(api: GuardedApi) -> None:
    values = {"key_type": 2, "coordinator_keys": ["a:b:0"]}
    (one,) = (await api.ask("FindCoordinator", 6, **values)).coordinators
    assert one.error_code is ErrorCode.cluster_authorization_failed
    assert one.error_message == "Cluster authorization failed."
    api.grant(acl(CLUSTER, NAMES[CLUSTER], Operation.CLUSTER_ACTION))
    (one,) = (await api.ask("FindCoordinator", 6, **values)).coordinators
    assert one.error_code is ErrorCode.invalid_request


async def test_who_may_write_anywhere_may_be_idempotent(api: GuardedApi) -> None:
    api.grant(acl(TOPIC, "orders", Operation.WRITE))
    answer = await api.ask("InitProducerId", 4, transactional_id=None)
    assert answer.error_code is not ErrorCode.cluster_authorization_failed


async def test_two_phase_commit_is_a_right_of_its_own(api: GuardedApi) -> None:
    api.grant(acl(TXN, "tx", Operation.WRITE))
    values = {"transactional_id": "tx", "enable2_pc": True}
    answer = await api.ask("InitProducerId", 6, **values)
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed


def errors_of(answer: Any) -> set[ErrorCode]:
    """Every error code anywhere in an answer, but for those of elements beside a failure."""
    found: set[ErrorCode] = set()
    if isinstance(answer, tuple):
        for one in answer:
            found |= errors_of(one)
    elif hasattr(answer, "__dataclass_fields__"):
        for name in answer.__dataclass_fields__:
            value = getattr(answer, name)
            if isinstance(value, ErrorCode):
                found.add(value)
            else:
                found |= errors_of(value)
    return found
