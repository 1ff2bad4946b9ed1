"""What the principal of one request may do."""

from __future__ import annotations

from tests.support.security import acl
from txnsim.api._access import Access
from txnsim.api.request import TOPIC_OPERATIONS
from txnsim.security.acls import CLUSTER_NAME, NO_ACLS, Operation, ResourceType
from txnsim.security.authorizer import Authorizer

ACCESS = Access(
    Authorizer(),
    NO_ACLS.plus(
        [
            acl(ResourceType.TOPIC, "orders", Operation.READ, host="10.0.0.1"),
            acl(ResourceType.GROUP, "g", Operation.DELETE),
            acl(ResourceType.TRANSACTIONAL_ID, "tx", Operation.WRITE),
            acl(ResourceType.CLUSTER, CLUSTER_NAME, Operation.CREATE),
        ]
    ),
    principal="User:alice",
    host="/10.0.0.1",
)


def test_each_kind_of_resource_is_asked_for_by_its_name() -> None:
    assert ACCESS.may_topic(Operation.READ, "orders")
    assert not ACCESS.may_topic(Operation.READ, "other")
    assert ACCESS.may_group(Operation.DELETE, "g")
    assert ACCESS.may_transactional_id(Operation.WRITE, "tx")
    assert ACCESS.may_cluster(Operation.CREATE)
    assert not ACCESS.may_cluster(Operation.ALTER)
    assert ACCESS.may_some(Operation.READ, ResourceType.TOPIC)
    assert not ACCESS.may_some(Operation.WRITE, ResourceType.TOPIC)


def test_bits_are_the_operations_that_are_allowed_of_those_that_are_known() -> None:
    bits = ACCESS.bits(TOPIC_OPERATIONS, lambda one: ACCESS.may_topic(one, "orders"))
    assert bits == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert ACCESS.bits(TOPIC_OPERATIONS, lambda _: True) == TOPIC_OPERATIONS
