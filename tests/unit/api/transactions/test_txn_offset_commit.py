"""TxnOffsetCommit v0 to v5: pending until the marker; who may, and in whose words it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi, commit_values
from txnsim.errors import ErrorCode

E = ErrorCode
Identity = tuple[int, int]


def values(groups: GroupApi, identity: Identity, offset: int = 7, **more: Any) -> dict[str, Any]:
    mine = {
        "transactional_id": "id",
        "producer_id": identity[0],
        "producer_epoch": identity[1],
    }
    return commit_values(groups.api, offset, **{**mine, **more})


async def commit(
    groups: GroupApi, identity: Identity, *, version: int, offset: int = 7, **more: Any
) -> ErrorCode:
    """TxnOffsetCommit; the error of its one position."""
    told = values(groups, identity, offset, **more)
    answer = await groups.api.until(
        lambda answer: one(answer) is not E.concurrent_transactions,
        "TxnOffsetCommit",
        version,
        **told,
    )
    return one(answer)


def one(answer: Any) -> ErrorCode:
    found: ErrorCode = answer.topics[0].partitions[0].error_code
    return found


async def begun(groups: GroupApi, *, version: int) -> Identity:
    """An identity whose transaction may commit positions."""
    pid, epoch = await groups.api.producer("id")
    if version < 5:
        added = {
            "transactional_id": "id",
            "producer_id": pid,
            "producer_epoch": epoch,
            "group_id": GROUP,
        }
        answer = await groups.api.ask("AddOffsetsToTxn", 3, **added)
        assert answer.error_code is E.none
    return pid, epoch


async def end(groups: GroupApi, identity: Identity, *, version: int, committed: bool) -> None:
    """EndTxn, and the markers."""
    answer = await groups.api.ask(
        "EndTxn",
        5 if version >= 5 else 3,
        transactional_id="id",
        producer_id=identity[0],
        producer_epoch=identity[1],
        committed=committed,
    )
    assert answer.error_code is E.none
    await groups.api.state("id", "CompleteCommit" if committed else "CompleteAbort")


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
async def test_positions_are_pending_until_the_marker(
    groups: GroupApi, version: int, committed: bool
) -> None:
    await groups.commit(3)
    identity = await begun(groups, version=version)
    assert await commit(groups, identity, version=version) is E.none
    assert await groups.committed() == (3, E.none)
    assert await groups.committed(require_stable=True) == (-1, E.unstable_offset_commit)
    await end(groups, identity, version=version, committed=committed)
    assert await groups.committed(require_stable=True) == (7 if committed else 3, E.none)


@pytest.mark.parametrize("version", [3, 5])
async def test_members_are_judged_by_their_generation(groups: GroupApi, version: int) -> None:
    member = await groups.stable(instance="i")
    identity = await begun(groups, version=version)
    mine: dict[str, Any] = {"member_id": member.id, "generation_id": 1, "group_instance_id": "i"}
    for told, error in (
        (mine, E.none),
        ({}, E.none),
        ({**mine, "generation_id": 2}, E.illegal_generation),
        ({**mine, "member_id": "nobody"}, E.fenced_instance_id),
        ({"member_id": "nobody", "generation_id": 1}, E.unknown_member_id),
    ):
        assert await commit(groups, identity, version=version, **told) is error


@pytest.mark.parametrize("version", [3, 5])
async def test_members_of_the_consumer_protocol_by_their_epoch(
    groups: GroupApi, version: int
) -> None:
    epoch = (await groups.consume("a")).member_epoch
    identity = await begun(groups, version=version)
    for told, error in (
        ({"member_id": "a", "generation_id": epoch}, E.none),
        ({}, E.none),
        ({"member_id": "a", "generation_id": epoch + 1}, E.illegal_generation),
        ({"member_id": "b", "generation_id": epoch}, E.unknown_member_id),
    ):
        assert await commit(groups, identity, version=version, **told) is error


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, E.invalid_txn_state),
        (3, E.invalid_txn_state),
        (4, E.transaction_abortable),
        (5, E.none),
    ],
)
async def test_what_was_not_added_is_refused_but_by_v5(
    groups: GroupApi, version: int, error: ErrorCode
) -> None:
    identity = await groups.api.producer("id")
    assert await commit(groups, identity, version=version) is error


@pytest.mark.parametrize("version", [3, 5])
async def test_refusals(groups: GroupApi, version: int) -> None:
    pid, epoch = await begun(groups, version=version)
    for told, error in (
        ({"group_id": ""}, E.invalid_group_id),
        ({"producer_epoch": epoch - 1}, E.invalid_producer_epoch),
        ({"producer_id": pid + 9}, E.invalid_producer_id_mapping),
        ({"name": "missing"}, E.unknown_topic_or_partition),
        ({"metadata": "x" * 4_097}, E.offset_metadata_too_large),
        ({"generation_id": 1, "member_id": "m"}, E.illegal_generation),
    ):
        assert await commit(groups, (pid, epoch), version=version, **told) is error


async def test_versions_that_do_not_know_loading_get_another_error(
    groups: GroupApi,
) -> None:
    told = values(groups, (1, 0))
    for version, error in ((1, E.coordinator_not_available), (2, E.coordinator_load_in_progress)):
        refused = groups.api.refuse(
            "TxnOffsetCommit", version, E.coordinator_load_in_progress, **told
        )
        assert one(refused) is error
    plain = groups.api.refuse("TxnOffsetCommit", 1, E.not_coordinator, **told)
    assert one(plain) is E.not_coordinator
    about = groups.api.subject("TxnOffsetCommit", 3, **told)
    assert (about.transactional_id, about.producer_id) == ("id", 1)
