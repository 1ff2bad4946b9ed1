"""AddOffsetsToTxn v0 to v4: the group's partition becomes part of the transaction."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi
from txnsim.errors import ErrorCode
from txnsim.placement import partition_for

E = ErrorCode


def values(identity: tuple[int, int], *, name: str = "id") -> dict[str, Any]:
    return {
        "transactional_id": name,
        "producer_id": identity[0],
        "producer_epoch": identity[1],
        "group_id": GROUP,
    }


@pytest.mark.parametrize("version", range(5))
async def test_every_version_adds_the_partition(groups: GroupApi, version: int) -> None:
    identity = await groups.api.producer("id")
    answer = await groups.api.ask("AddOffsetsToTxn", version, **values(identity))
    assert answer.error_code is E.none
    found = await groups.api.state("id", "Ongoing")
    (topic,) = found.topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", (partition_for(GROUP, 3),))


@pytest.mark.parametrize("version", range(5))
async def test_refusals(groups: GroupApi, version: int) -> None:
    pid, epoch = await groups.api.producer("id")
    fenced = E.producer_fenced if version >= 2 else E.invalid_producer_epoch
    for wanted, error in (
        (values((pid, epoch), name=""), E.invalid_request),
        (values((pid, epoch), name="nobody"), E.invalid_producer_id_mapping),
        (values((pid + 9, epoch)), E.invalid_producer_id_mapping),
        (values((pid, epoch + 1)), fenced),
    ):
        answer = await groups.api.ask("AddOffsetsToTxn", version, **wanted)
        assert answer.error_code is error


async def test_refusal_and_subject(groups: GroupApi) -> None:
    refused = groups.api.refuse("AddOffsetsToTxn", 1, E.producer_fenced, **values((1, 0)))
    assert refused.error_code is E.invalid_producer_epoch
    about = groups.api.subject("AddOffsetsToTxn", 1, **values((1, 0)))
    assert (about.transactional_id, about.producer_id) == ("id", 1)
