"""Share groups that an open transaction holds back (KIP-932).

With ``share.isolation.level=read_committed`` a leader acquires no record at or above the last
stable offset for a share group.
"""

from __future__ import annotations

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, NotSupportedError
from txnsim.client.inspection.groups import SHARE, list_groups, reads_committed, share_positions
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition
from txnsim.verdict.facts import ShareGroupFacts


class WaitingShareGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting share groups by name, and the errors of groups that did not answer."""

    groups: tuple[ShareGroupFacts, ...] = ()
    untold_reasons: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """Sentences for ``Explanation`` about groups that did not answer."""
        return tuple(
            f"Whether a share group waits there is not told: {reason}."
            for reason in self.untold_reasons
        )


async def waiting_share_groups(admin: Admin, partition: TopicPartition) -> WaitingShareGroups:
    """Ask each broker for its share groups, and each group for its start offset and isolation."""
    try:
        listings = await list_groups(admin, types=[SHARE])
    except NotSupportedError:  # a broker that can't list types of groups has no share groups
        return WaitingShareGroups()
    except ClientError as failure:
        return WaitingShareGroups(untold_reasons=(str(failure),))
    waiting_groups, failure_reasons = [], []
    for group_id in (listing.group_id for listing in listings):
        try:
            positions = await share_positions(admin, group_id)
            partition_positions = [
                position for position in positions if position.partition == partition
            ]
            if partition_positions and await reads_committed(admin, group_id):
                waiting_groups.append(
                    ShareGroupFacts(group_id=group_id, start_offset=partition_positions[0].offset)
                )
        except ClientError as failure:
            if failure.error != ErrorCode.group_id_not_found:  # else it has gone meanwhile
                failure_reasons.append(str(failure))
    return WaitingShareGroups(
        groups=tuple(waiting_groups), untold_reasons=tuple(failure_reasons[:1])
    )
