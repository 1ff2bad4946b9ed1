"""The rights of the principal that sent a request: the broker's authorizer applied to the current
ACLs.

Kafka's counterpart: AuthHelper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, AclOperation, Acls, ResourceType
from txnsim.security.authorizer import Authorizer

FORBIDDEN: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}
"""The error for a forbidden operation, by type of the resource."""
TEXTS: Final = {
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
}
"""Kafka's message for each of these errors (Errors), where an answer carries one."""


class Access:
    """The rights of one principal that calls from one host."""

    __slots__ = ("_acls", "_authorizer", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, acls: Acls, *, principal: str, host: str) -> None:
        """Check the rights of one client.

        Args:
            authorizer: The cluster's authorizer.
            acls: The ACLs that the broker knows.
            principal: The client's principal, such as ``User:alice``.
            host: The client's address as Kafka writes it, such as ``/10.0.0.1``.
        """
        self._authorizer = authorizer
        self._acls = acls
        self._principal = principal
        self._host = host.removeprefix("/")

    def may(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool:
        return self._authorizer.allows(
            self._acls,
            principal=self._principal,
            host=self._host,
            operation=operation,
            resource_type=resource_type,
            resource_name=resource_name,
        )

    def denial(
        self, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> ErrorCode | None:
        """The error code of a denied operation; None where the operation is allowed."""
        return (
            None if self.may(operation, resource_type, resource_name) else FORBIDDEN[resource_type]
        )

    def may_topic(self, operation: AclOperation, topic_name: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, topic_name)

    def may_group(self, operation: AclOperation, group_id: str) -> bool:
        return self.may(operation, ResourceType.GROUP, group_id)

    def may_transactional_id(self, operation: AclOperation, transactional_id: str) -> bool:
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def may_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_some(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may have the right on at least one resource of the type."""
        return self._authorizer.allows_any(
            self._acls,
            principal=self._principal,
            host=self._host,
            operation=operation,
            resource_type=resource_type,
        )

    def operation_bits(
        self, supported_bits: int, is_allowed: Callable[[AclOperation], bool]
    ) -> int:
        """Bit field of the operations that are both in ``supported_bits`` and allowed."""
        return sum(
            1 << operation
            for operation in AclOperation
            if supported_bits & 1 << operation and is_allowed(operation)
        )
