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
_ROLES: Final = frozenset({"broker", "controller"})
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
    used: frozenset[str] = frozenset()
    """The properties that have an effect."""
    refused: tuple[Remark, ...] = ()


def read_node(properties: Mapping[str, Property]) -> FileNode:
    """The node whose properties these are."""
    roles = properties.get(ROLES)
    if roles is None or not roles.value.strip():
        if any(name.startswith(ZOOKEEPER) for name in properties):
            return _alone(properties, "broker.id")
        return _alone(properties, "node.id") if len(_names(properties, VOTERS)) == 1 else FileNode()
    role_names = {role.strip() for role in roles.value.split(",")}
    if not role_names <= _ROLES:
        strange = ", ".join(sorted(role_names - _ROLES))
        return FileNode(
            refused=((roles, f"a role is broker or controller, not {strange or 'empty'}"),)
        )
    if role_names == {"controller"}:
        return FileNode(refused=((roles, _CONTROLLER_ALONE),))
    if role_names == {"broker"}:
        return FileNode()
    if len(_names(properties, VOTERS)) > 1 or len(_names(properties, CONTROLLERS)) > 1:
        return FileNode()
    return _alone(properties, "node.id" if "node.id" in properties else "broker.id")


def _alone(properties: Mapping[str, Property], name: str) -> FileNode:
    used = frozenset(properties.keys() & {ROLES, VOTERS, CONTROLLERS, name})
    entry = properties.get(name)
    if entry is None:
        return FileNode(brokers=1, used=used)
    text = entry.value.strip()
    if text == "-1" and name == "broker.id":
        return FileNode(brokers=1, used=used)  # ZooKeeper gives it one
    if not (text.isascii() and text.isdigit()):
        return FileNode(refused=((entry, f"expected a whole number from 0, found {text!r}"),))
    return FileNode(brokers=1, broker_id=int(text), used=used)


def _names(properties: Mapping[str, Property], name: str) -> list[str]:
    entry = properties.get(name)
    return [] if entry is None else [word for word in entry.value.split(",") if word.strip()]
