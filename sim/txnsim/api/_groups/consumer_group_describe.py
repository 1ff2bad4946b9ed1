"""ConsumerGroupDescribe (key 69): groups of the consumer protocol and their members (KIP-848).

Versions: 1 has the protocol of each member. A group of another protocol does not exist here.
Kafka's counterpart: KafkaApis.handleConsumerGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any, Final

from txnsim.api._error_texts import reason_of
from txnsim.api._groups.consumer_group_heartbeat import is_enabled
from txnsim.api._groups.describe_groups import group_operations
from txnsim.api.request import NOT_ASKED, Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.assignors import UNIFORM
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember
from txnsim.group.consumer_records import TopicIdPartition
from txnsim.wire.codec import build

KEY: Final = 69

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


async def handle(request: Request) -> Reply:
    """Describe each group."""
    if not is_enabled(request):
        return refuse(request, ErrorCode.unsupported_version)
    found = await request.each_heavy(partial(_describe, request), request.message.group_ids)
    return request.answer(groups=tuple(found))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    found = [
        group_row(request, group_id, error_code=error) for group_id in request.message.group_ids
    ]
    return request.answer(groups=tuple(found))


async def _describe(request: Request, group_id: str) -> Any:
    if not group_id:
        return group_row(request, "", error_code=ErrorCode.invalid_group_id)
    group = request.broker.groups.find(group_id)
    if isinstance(group, Rejection):
        return group_row(request, group_id, error_code=group.error, error_message=reason_of(group))
    if not isinstance(group, ConsumerGroup):
        return group_row(
            request,
            group_id,
            error_code=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} is not a consumer group.",
        )
    members = tuple(group.members.values())
    weigh = partial(_elements, group)
    request.answers(sum(map(weigh, members)))
    described = await request.each(partial(_member, request, group), members, weight=weigh)
    return group_row(
        request,
        group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or UNIFORM,
        members=tuple(described),
        authorized_operations=group_operations(request)
        if request.message.include_authorized_operations
        else NOT_ASKED,
    )


def group_row(request: Request, group_id: str, **values: object) -> Any:
    """Kafka's defaults, and these values."""
    return request.schema.DescribedGroup(
        **{
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "group_state": "",
            "group_epoch": 0,
            "assignment_epoch": 0,
            "assignor_name": "",
            "members": (),
            "authorized_operations": NOT_ASKED,
            **values,
        }
    )


def _elements(group: ConsumerGroup, member: ConsumerMember) -> int:
    owned = len(member.assigned) + len(member.pending_revocation)
    return 1 + owned + len(group.target.get(member.member_id, ())) + len(member.topic_names)


def _member(request: Request, group: ConsumerGroup, member: ConsumerMember) -> Any:
    # A member owns a partition until it has given it up (KAFKA-20431).
    shows_both = request.broker.release.rules.what_is_given_up_is_described
    owned = (*member.assigned, *(member.pending_revocation if shows_both else ()))
    return build(
        request.schema.Member,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_regex or "",
        assignment=assignment_of(request, owned),
        target_assignment=assignment_of(request, group.target.get(member.member_id, ())),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def assignment_of(request: Request, partitions: Iterable[TopicIdPartition]) -> Any:
    """Partitions by topic, without those of deleted topics."""
    schema = request.schema
    image = request.broker.image
    topics = []
    for topic_id, each in groupby(sorted(partitions), key=lambda pair: pair[0]):
        name = image.topic_names.get(topic_id)
        if name is not None:
            indexes = tuple(index for _, index in each)
            topics.append(
                schema.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            )
    return schema.Assignment(topic_partitions=tuple(topics))
