"""ConsumerGroupDescribe (key 69): groups of the consumer protocol and their members (KIP-848).

Versions: 1 has the protocol of each member. A group of another type is GROUP_ID_NOT_FOUND.
Kafka's counterpart: KafkaApis.handleConsumerGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from txnsim.api._error_texts import reason_of
from txnsim.api._groups.consumer_group_heartbeat import is_enabled
from txnsim.api._groups.groups_of_type import GroupsOfType
from txnsim.api.request import Request
from txnsim.group.assignors import UNIFORM
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember
from txnsim.group.consumer_records import TopicIdPartition
from txnsim.wire.codec import build

API_KEY: Final = 69

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def _count_elements(group: ConsumerGroup, member: ConsumerMember) -> int:
    owned_count = len(member.assigned) + len(member.pending_revocation)
    return 1 + owned_count + len(group.target.get(member.member_id, ())) + len(member.topic_names)


def _member_row(request: Request, group: ConsumerGroup, member: ConsumerMember) -> Any:
    # A member owns a partition until it has given it up (KAFKA-20431).
    shows_both = request.broker.release.rules.what_is_given_up_is_described
    owned_partitions = (*member.assigned, *(member.pending_revocation if shows_both else ()))
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
        assignment=assignment_of(request, owned_partitions),
        target_assignment=assignment_of(request, group.target.get(member.member_id, ())),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def assignment_of(request: Request, partitions: Iterable[TopicIdPartition]) -> Any:
    """Partitions grouped by topic, without those of deleted topics."""
    schema = request.schema
    image = request.broker.image
    topics = []
    for topic_id, ids_and_indexes in groupby(
        sorted(partitions), key=lambda id_and_index: id_and_index[0]
    ):
        topic_name = image.topic_names.get(topic_id)
        if topic_name is not None:
            partition_indexes = tuple(index for _, index in ids_and_indexes)
            topics.append(
                schema.TopicPartitions(
                    topic_id=topic_id, topic_name=topic_name, partitions=partition_indexes
                )
            )
    return schema.Assignment(topic_partitions=tuple(topics))


def _extra_fields(_request: Request, group: ConsumerGroup) -> dict[str, object]:
    return {"assignor_name": group.preferred_assignor() or UNIFORM}


_CONSUMER_GROUPS: Final = GroupsOfType(
    group_class=ConsumerGroup,
    type_name="consumer",
    is_enabled=is_enabled,
    reason_of_rejection=reason_of,
    members_of=lambda group: tuple(group.members.values()),
    build_member=_member_row,
    count_elements=_count_elements,
    build_extra_fields=_extra_fields,
)
handle, refuse = _CONSUMER_GROUPS.handle, _CONSUMER_GROUPS.refuse
