"""ShareGroupDescribe (key 77): share groups and their members (KIP-932).

Only version 1. A group of another type is GROUP_ID_NOT_FOUND. Kafka's counterpart:
KafkaApis.handleShareGroupDescribe.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._error_texts import reason_of, text_of
from txnsim.api._groups.consumer_group_describe import assignment_of
from txnsim.api._groups.groups_of_type import GroupsOfType
from txnsim.api._groups.share_group_heartbeat import has_share_groups
from txnsim.api.request import Request
from txnsim.group.assignors import SIMPLE
from txnsim.group.sharing.share_group import ShareGroup, ShareGroupMember

API_KEY: Final = 77


def _count_elements(_group: ShareGroup, member: ShareGroupMember) -> int:
    return 1 + len(member.assigned) + len(member.topic_names)


def _member_row(request: Request, _group: ShareGroup, member: ShareGroupMember) -> Any:
    return request.schema.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        assignment=assignment_of(request, member.assigned),
    )


_SHARE_GROUPS: Final = GroupsOfType(
    group_class=ShareGroup,
    type_name="share",
    is_enabled=has_share_groups,
    reason_of_rejection=lambda refused: reason_of(refused) or text_of(refused.error),
    members_of=lambda group: tuple(group.members.values()),
    build_member=_member_row,
    count_elements=_count_elements,
    build_extra_fields=lambda _request, _group: {"assignor_name": SIMPLE},
)
handle, refuse = _SHARE_GROUPS.handle, _SHARE_GROUPS.refuse
