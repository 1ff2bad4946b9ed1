"""What a guest sees of groups and transactions whose topics it may not all describe.

Each is a play in several steps: somebody with all rights has prepared something, the guest looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.support.denials import Side
from tests.support.handlers import KEYS
from tests.support.patience import until
from tests.support.questions import DESCRIBE_ORDERS
from tests.support.security import acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType

GROUP: Final = ResourceType.GROUP
_JOINS: Final[dict[str, Any]] = {
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout": 60_000,
    "topic_partitions": [],
}


def _assigned(ask: Callable[[], Any]) -> Any:
    """The first answer to a heartbeat that joins which has partitions."""
    return until(
        ask,
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions),
        "something is assigned",
    )


def _names(side: Side, answer: Any) -> list[str]:
    ids = {value: name for name, value in side.ids.items()}
    return sorted(ids[each.topic_id] for each in answer.assignment.topic_partitions)


def _expression(side: Side, group: str, *rights: Any) -> list[str]:
    side.allow(acl(GROUP, group, Operation.READ), *rights)
    joins = {**_JOINS, "group_id": group, "subscribed_topic_regex": "orders|hidden"}
    with side.log_in("guest") as guest:
        answer = _assigned(lambda: guest.ask(KEYS["ConsumerGroupHeartbeat"], 1, **joins))
    return _names(side, answer)


def _expression_of_some(side: Side) -> Any:
    return _expression(side, "regex-1", DESCRIBE_ORDERS)


def _expression_of_all(side: Side) -> Any:
    return _expression(side, "regex-2", acl(ResourceType.TOPIC, "*", Operation.READ))


def _described_group(side: Side) -> Any:
    joins = {**_JOINS, "group_id": "shown", "subscribed_topic_names": ["orders", "hidden"]}
    _assigned(lambda: side.admin.ask(KEYS["ConsumerGroupHeartbeat"], 1, **joins))
    seen = []
    described = acl(GROUP, "shown", Operation.DESCRIBE)
    for rights in ([], [DESCRIBE_ORDERS]):
        side.allow(described, *rights)
        answer = side.guest("ConsumerGroupDescribe", 1, {"group_ids": ["shown"]})
        seen.append(side.plainly(answer, api="ConsumerGroupDescribe"))
    return seen


def _described_transaction(side: Side) -> Any:
    begun = _settled(
        lambda: side.admin.ask(
            KEYS["InitProducerId"], 4, transactional_id="ongoing", transaction_timeout=60_000
        )
    )
    topics = [{"name": name, "partitions": [0]} for name in ("orders", "hidden")]
    _settled(
        lambda: side.admin.ask(
            KEYS["AddPartitionsToTxn"],
            3,
            v3_and_below_transactional_id="ongoing",
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=topics,
        )
    )
    described = acl(ResourceType.TRANSACTIONAL_ID, "ongoing", Operation.DESCRIBE)
    seen = []
    for rights in ([], [DESCRIBE_ORDERS]):
        side.allow(described, *rights)
        for api, version, values in (
            ("DescribeTransactions", 0, {"transactional_ids": ["ongoing"]}),
            ("ListTransactions", 1, {"duration_filter": -1}),
        ):
            answer = side.plainly(side.guest(api, version, values), api=api)
            for state in answer["transaction_states"]:
                state.pop("transaction_duration_ms", None)
            seen.append(answer)
    return seen


def _settled(ask: Callable[[], Any]) -> Any:
    return until(
        ask,
        lambda answer: getattr(answer, "error_code", ErrorCode.none) is ErrorCode.none,
        "it is settled",
    )


HIDDEN: Final[dict[str, Callable[[Side], Any]]] = {
    "an expression for topics of which one may be described": _expression_of_some,
    "an expression for topics that may all be described": _expression_of_all,
    "a group with topics that may not be described": _described_group,
    "a transaction with topics that may not be described": _described_transaction,
}
"""By name: what the guest sees."""
