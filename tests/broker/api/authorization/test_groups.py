"""Groups that may not be seen are left out; a client learns no topics from groups."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.interbroker.share_state import ShareKey
from txnsim.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from txnsim.types import uuid_text

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ALL_TOPICS = acl(TOPIC, "*", AclOperation.READ)


async def test_positions_of_a_group_that_is_gone_are_not_deleted_by_topic(api: GuardedApi) -> None:
    api.grant(acl(ResourceType.GROUP, "none", AclOperation.DELETE), ALL_TOPICS)
    answer = await api.ask(
        "OffsetDelete", 0, group_id="none", topics=[{"name": "orders", "partitions": []}]
    )
    assert answer.error_code is not ErrorCode.none
    assert answer.topics == ()


# Streams groups


async def streams_heartbeat(api: GuardedApi, *names: str) -> Any:
    """A member of a streams group with a state store joins."""
    log = {"name": "log", "partitions": 0, "replication_factor": 0, "topic_configs": []}
    return await api.ask(
        "StreamsGroupHeartbeat",
        1,
        group_id="g",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout=timedelta(seconds=1),
        topology={
            "epoch": 0,
            "subtopologies": [
                {
                    "subtopology_id": "0",
                    "source_topics": names,
                    "source_topic_regex": (),
                    "state_changelog_topics": [log],
                    "repartition_sink_topics": (),
                    "repartition_source_topics": [],
                    "copartition_groups": [],
                }
            ],
        },
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
    )


async def test_a_streams_group_needs_rights_on_all_of_its_topics(api: GuardedApi) -> None:
    await await_coordinators(api)
    assert (await streams_heartbeat(api, "orders")).error_code is NO_GROUP
    api.grant(acl(GROUP, "g", AclOperation.READ), acl(TOPIC, "orders", AclOperation.DESCRIBE))
    refused_answer = await streams_heartbeat(api, "orders")
    assert (refused_answer.error_code, refused_answer.error_message) == (FORBIDDEN, None)
    api.grant(acl(TOPIC, "log", AclOperation.DESCRIBE))
    join_reply = await streams_heartbeat(api, "orders")
    assert join_reply.error_code is ErrorCode.none
    (missing,) = (status for status in join_reply.status if status.status_code == 3)
    assert missing.status_detail == (
        "Internal topics are missing: log; Unauthorized to CREATE on topics log."
    )
    assert "log" not in api.api.broker.image.topics
    api.grant(acl(TOPIC, "log", AclOperation.CREATE))
    await streams_heartbeat(api, "orders")
    assert "log" in api.api.broker.image.topics


async def test_a_streams_group_is_described_with_topics_that_may_be(api: GuardedApi) -> None:
    await await_coordinators(api)
    member = (acl(GROUP, "g", AclOperation.READ), acl(TOPIC, "orders", AclOperation.DESCRIBE))
    api.grant(*member, acl(TOPIC, "log", AclOperation.DESCRIBE))
    api.grant(acl(CLUSTER, CLUSTER_NAME, AclOperation.CREATE))
    await streams_heartbeat(api, "orders")

    async def describe_group() -> Any:
        answer = await api.ask(
            "StreamsGroupDescribe",
            1,
            group_ids=["g", "none"],
            include_authorized_operations=True,
            include_topology_description=False,
        )
        return answer.groups[0]

    description = await describe_group()
    assert (description.error_code, len(description.members)) == (ErrorCode.none, 1)
    assert description.authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
    api.revoke_all()
    api.grant(*member)
    hidden_description = await describe_group()
    assert (
        hidden_description.error_code,
        hidden_description.members,
        hidden_description.topology,
    ) == (FORBIDDEN, (), None)
    assert hidden_description.error_message == (
        "The described group uses topics that the client is not authorized to describe."
    )


# Share groups


FORBIDDEN = ErrorCode.topic_authorization_failed
NO_GROUP = ErrorCode.group_authorization_failed
GROUP = ResourceType.GROUP
NAMES = ("orders", "hidden")


async def heartbeat(api: GuardedApi, *names: str, group_id: str = "g") -> Any:
    return await api.ask(
        "ShareGroupHeartbeat",
        1,
        group_id=group_id,
        member_id="m",
        member_epoch=0,
        rack_id=None,
        subscribed_topic_names=names,
    )


async def await_coordinators(api: GuardedApi) -> None:
    """Wait until the group and its share partitions have their coordinators."""
    for key_type, coordinator_key in (
        (0, "g"),
        *(
            (2, ShareKey("g", uuid_text(api.api.topic_id(topic_name)), 0).coordinator_key)
            for topic_name in NAMES
        ),
    ):
        await api.api.until(
            lambda answer: answer.coordinators[0].error_code is ErrorCode.none,
            "FindCoordinator",
            6,
            key_type=key_type,
            coordinator_keys=[coordinator_key],
        )


async def make_members_and_offsets(api: GuardedApi) -> None:
    """A share group of all topics, whose first member has a partition of each."""
    all_acls = (
        acl(GROUP, "g", AclOperation.READ),
        acl(TOPIC, "*", AclOperation.DESCRIBE),
    )
    api.grant(*all_acls)
    await await_coordinators(api)
    for _ in range(5_000):
        answer = await heartbeat(api, *NAMES)
        if answer.assignment is not None and len(answer.assignment.topic_partitions) == 2:
            break
        await asyncio.sleep(0.001)
    else:
        raise AssertionError(answer)
    api.revoke_all()


async def test_a_share_group_is_joined_for_topics_that_may_be_described(api: GuardedApi) -> None:
    api.grant(acl(GROUP, "g", AclOperation.READ), acl(TOPIC, "orders", AclOperation.DESCRIBE))
    refused_answer = await heartbeat(api, *NAMES)
    assert (refused_answer.error_code, refused_answer.error_message) == (FORBIDDEN, None)
    assert (await heartbeat(api, "orders")).error_code not in (FORBIDDEN, NO_GROUP)


async def test_a_share_group_is_described_with_topics_that_may_be(api: GuardedApi) -> None:
    await make_members_and_offsets(api)

    async def describe_group() -> Any:
        answer = await api.ask(
            "ShareGroupDescribe", 1, group_ids=["g"], include_authorized_operations=True
        )
        return answer.groups[0]

    refusal_answer = await describe_group()
    assert (refusal_answer.error_code, refusal_answer.error_message) == (NO_GROUP, None)
    api.grant(acl(GROUP, "g", AclOperation.DESCRIBE), acl(TOPIC, "orders", AclOperation.DESCRIBE))
    refusal_answer = await describe_group()
    assert (refusal_answer.error_code, refusal_answer.members) == (FORBIDDEN, ())
    assert refusal_answer.error_message == (
        "The group has described topic(s) that the client is not authorized to describe."
    )
    api.grant(acl(TOPIC, "hidden", AclOperation.DESCRIBE))
    group = await describe_group()
    assert (group.error_code, len(group.members)) == (ErrorCode.none, 1)
    assert group.authorized_operations == 1 << AclOperation.DESCRIBE


async def test_offsets_of_share_groups_are_those_of_topics_that_may_be_described(
    api: GuardedApi,
) -> None:
    await make_members_and_offsets(api)
    named_topics = [{"topic_name": topic_name, "partitions": (0,)} for topic_name in NAMES]

    async def groups() -> list[tuple[ErrorCode, dict[str, ErrorCode]]]:
        answer = await api.ask(
            "DescribeShareGroupOffsets",
            1,
            groups=[
                {"group_id": group_id, "topics": topics}
                for group_id, topics in (("other", None), ("g", named_topics), ("g", None))
            ],
        )
        return [
            (
                group.error_code,
                {topic.topic_name: topic.partitions[0].error_code for topic in group.topics},
            )
            for group in answer.groups
        ]

    assert await groups() == [(NO_GROUP, {})] * 3
    api.grant(acl(GROUP, "g", AclOperation.DESCRIBE), acl(TOPIC, "orders", AclOperation.DESCRIBE))
    no_error = ErrorCode.none
    assert await groups() == [
        (NO_GROUP, {}),
        (no_error, {"orders": no_error, "hidden": FORBIDDEN}),
        (no_error, {"orders": no_error}),
    ]


async def test_offsets_of_a_share_group_elsewhere_name_no_topics(api: GuardedApi) -> None:
    api.grant(acl(GROUP, "g", AclOperation.DESCRIBE))
    answer = await api.ask(
        "DescribeShareGroupOffsets", 1, groups=[{"group_id": "g", "topics": None}]
    )
    assert answer.groups[0].error_code in (
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )


async def test_offsets_of_a_share_group_are_altered_by_who_may_read(api: GuardedApi) -> None:
    api.grant(acl(GROUP, "g", AclOperation.READ), acl(TOPIC, "orders", AclOperation.DESCRIBE))
    await await_coordinators(api)

    async def alter_offsets() -> Any:
        partitions = [{"partition_index": 0, "start_offset": 3}]
        return await api.ask(
            "AlterShareGroupOffsets",
            0,
            group_id="g",
            topics=[{"topic_name": topic_name, "partitions": partitions} for topic_name in NAMES],
        )

    answer = await alter_offsets()
    assert [topic.partitions[0].error_code for topic in answer.responses] == [FORBIDDEN] * 2
    api.grant(acl(TOPIC, "orders", AclOperation.READ))
    answer = await alter_offsets()
    errors = {topic.topic_name: topic.partitions[0].error_code for topic in answer.responses}
    assert errors == {"orders": ErrorCode.none, "hidden": FORBIDDEN}
    api.api.broker.groups.is_running = False
    assert (await alter_offsets()).responses == ()


async def test_offsets_of_a_share_group_are_deleted_by_who_may_read(api: GuardedApi) -> None:
    await await_coordinators(api)

    async def delete_offsets() -> Any:
        topics = [{"topic_name": topic_name} for topic_name in NAMES]
        return await api.ask("DeleteShareGroupOffsets", 0, group_id="g", topics=topics)

    api.grant(acl(GROUP, "g", AclOperation.DELETE))
    answer = await delete_offsets()
    assert (answer.error_code, answer.responses) == (ErrorCode.group_id_not_found, ())
    api.grant(acl(GROUP, "g", AclOperation.READ), ALL_TOPICS)
    partitions = [{"partition_index": 0, "start_offset": 3}]
    topics = [{"topic_name": "orders", "partitions": partitions}]
    await api.ask("AlterShareGroupOffsets", 0, group_id="g", topics=topics)
    api.revoke_all()
    api.grant(acl(GROUP, "g", AclOperation.DELETE), acl(TOPIC, "orders", AclOperation.READ))
    answer = await delete_offsets()
    assert answer.error_code is ErrorCode.none
    assert {topic.topic_name: topic.error_code for topic in answer.responses} == {
        "orders": ErrorCode.none,
        "hidden": FORBIDDEN,
    }
