"""Whose file a broker's properties are: a node of a real cluster, with its roles there.

A node that is a broker and the only controller becomes a cluster of one broker with its own id. So
does a broker before Kafka 4 with its ZooKeeper, and a node that names one voter and no roles, which
container images add. A broker whose controllers are other nodes is one of several brokers, whose
number its file does not contain. A node that is only a controller serves no client. Kafka's
counterpart: KafkaConfig's checks of ``process.roles``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.config._kafka_names import ZOOKEEPER
from txnsim.config._listeners import Remark
from txnsim.config.properties import Property

ROLES: Final = "process.roles"
VOTERS: Final = "controller.quorum.voters"
CONTROLLERS: Final = "controller.quorum.bootstrap.servers"
_KNOWN_ROLES: Final = frozenset({"broker", "controller"})
_CONTROLLER_ALONE: Final = (
    "this node is a controller alone, which no client connects to: give the file of a broker, or"
    f" write {ROLES}=broker"
)


class FileNode(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says about its node."""

    brokers: int | None = None
    """1 for a file of a whole cluster; None for one of several nodes, or if the file does not
    say.
    """
    broker_id: int | None = None
    used_names: frozenset[str] = frozenset()
    """The properties that have an effect."""
    refusals: tuple[Remark, ...] = ()


def read_node(properties: Mapping[str, Property]) -> FileNode:
    """The node whose properties these are."""
    roles_property = properties.get(ROLES)
    if roles_property is None or not roles_property.value.strip():
        if any(name.startswith(ZOOKEEPER) for name in properties):
            return _node_of_role(properties, "broker.id")
        return (
            _node_of_role(properties, "node.id")
            if len(_listed_names(properties, VOTERS)) == 1
            else FileNode()
        )
    role_names = {role.strip() for role in roles_property.value.split(",")}
    if not role_names <= _KNOWN_ROLES:
        unknown_roles = ", ".join(sorted(role_names - _KNOWN_ROLES))
        return FileNode(
            refusals=(
                (roles_property, f"a role is broker or controller, not {unknown_roles or 'empty'}"),
            )
        )
    if role_names == {"controller"}:
        return FileNode(refusals=((roles_property, _CONTROLLER_ALONE),))
    if role_names == {"broker"}:
        return FileNode()
    if (
        len(_listed_names(properties, VOTERS)) > 1
        or len(_listed_names(properties, CONTROLLERS)) > 1
    ):
        return FileNode()
    return _node_of_role(properties, "node.id" if "node.id" in properties else "broker.id")


def _node_of_role(properties: Mapping[str, Property], role_property: str) -> FileNode:
    used_names = frozenset(properties.keys() & {ROLES, VOTERS, CONTROLLERS, role_property})
    file_property = properties.get(role_property)
    if file_property is None:
        return FileNode(brokers=1, used_names=used_names)
    voter_text = file_property.value.strip()
    if voter_text == "-1" and role_property == "broker.id":
        return FileNode(brokers=1, used_names=used_names)  # ZooKeeper gives it one
    if not (voter_text.isascii() and voter_text.isdigit()):
        return FileNode(
            refusals=((file_property, f"expected a whole number from 0, found {voter_text!r}"),)
        )
    return FileNode(brokers=1, broker_id=int(voter_text), used_names=used_names)


def _listed_names(properties: Mapping[str, Property], list_property: str) -> list[str]:
    file_property = properties.get(list_property)
    return (
        []
        if file_property is None
        else [listed_name for listed_name in file_property.value.split(",") if listed_name.strip()]
    )
