"""Rights on transactional ids, for APIs that need more than refusing the request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from txnsim.api._access import Access
from txnsim.api.authorization._named_resources import Guard, ResourcePart, by_id, shown_parts
from txnsim.api.request import Request
from txnsim.security.acls import AclOperation, ResourceType


def _with_visible_topics(_request: Request, access: Access, state: Any) -> Any:
    """The transaction without the topics that the client may not describe."""
    topics = tuple(
        topic for topic in state.topics if access.may_topic(AclOperation.DESCRIBE, topic.topic)
    )
    return state if len(topics) == len(state.topics) else dataclasses.replace(state, topics=topics)


_DESCRIBED: Final = ResourcePart(
    request_field="transactional_ids",
    answer_field="transaction_states",
    error=by_id(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    has_entries=True,
    show_element=_with_visible_topics,
)
GUARDS: Final[Mapping[int, Guard]] = {
    65: partial(shown_parts, resource_part=_DESCRIBED),  # DescribeTransactions
}
