"""The listeners of a broker's properties: names, protocols, addresses.

Kafka's counterpart: SocketServerConfigs.listenerListToEndPoints, AbstractKafkaConfig's checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.config.lookup import WrongPropertyError
from txnsim.config.properties import Property
from txnsim.security.options import SecurityProtocol

ALL_INTERFACES: Final = "0.0.0.0"
"""The address that a listener without a host binds (SocketServer)."""
MAP: Final = "listener.security.protocol.map"

_LISTENER_RE: Final = re.compile(
    r"(?P<name>[^:/\s]+)://(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:]*)):(?P<port>\d{1,5})"
)
_DEFAULT: Final = Property(line=0, name="listeners", value="PLAINTEXT://:9092")

Remark = tuple[Property, str]


class FileListener(msgspec.Struct, frozen=True, kw_only=True):
    """A listener for clients."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    """Set if it differs from the port, because something in between translates ports."""
    entry: Property


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners in a file's properties."""

    clients: tuple[FileListener, ...] = ()
    """In the order of the file; empty if the file has none."""
    controllers: frozenset[str] = frozenset()
    closed: tuple[Remark, ...] = ()
    """Remarks on listeners of the file that are not opened, with reasons."""
    closed_names: frozenset[str] = frozenset()
    refused: tuple[Remark, ...] = ()
    odd: tuple[Remark, ...] = ()
    """Remarks on listeners whose ports change if there are several brokers, each with its own
    ports.
    """


class _Address(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int


def bound_everywhere(advertised: str) -> str:
    """A ``listeners`` value with the same names and ports, bound to all interfaces."""
    texts = (part.strip() for part in advertised.split(","))
    return ",".join(
        f"{match['name']}://{ALL_INTERFACES}:{match['port']}" if match else text
        for text in texts
        for match in (_LISTENER_RE.fullmatch(text),)
    )


def read_listeners(properties: Mapping[str, Property]) -> Listeners:
    """The listeners with their protocols and the hosts that clients connect to."""
    controllers = frozenset(_names(properties, "controller.listener.names"))
    try:
        return _read(properties, controllers)
    except WrongPropertyError as error:
        return Listeners(controllers=controllers, refused=((error.entry, error.message),))


def _read(properties: Mapping[str, Property], controllers: frozenset[str]) -> Listeners:
    protocols = _protocols(properties)
    advertised = _addresses(properties.get("advertised.listeners"), controllers)
    if "listeners" not in properties and not advertised:
        return Listeners(controllers=controllers)
    entry = properties.get("listeners", _DEFAULT)
    own = _addresses(entry, controllers)
    unknown = ", ".join(sorted(advertised.keys() - own.keys()))
    if unknown:
        raise WrongPropertyError(
            properties["advertised.listeners"],
            f"there is no listener {unknown} among the listeners",
        )
    clients = []
    for name, address in own.items():
        protocol = protocols.get(name)
        if protocol is None:
            where = MAP if MAP in properties else "its name"
            raise WrongPropertyError(entry, f"listener {name}: {where} names no security protocol")
        outside = advertised.get(name)
        if outside is not None and outside.host == ALL_INTERFACES:
            raise WrongPropertyError(
                properties["advertised.listeners"], f"clients can't connect to {ALL_INTERFACES}"
            )
        clients.append(
            FileListener(
                name=name,
                protocol=protocol,
                host=address.host or ALL_INTERFACES,
                port=address.port,
                advertised_host=None if outside is None else outside.host or None,
                advertised_port=None if outside is None else _other(outside.port, address.port),
                entry=entry,
            )
        )
    odd = [
        (
            properties["advertised.listeners"],
            f"where there are several brokers, clients get the real port, {listener.port}",
        )
        for listener in clients
        if listener.advertised_port is not None
    ]
    return Listeners(clients=tuple(clients), controllers=controllers, odd=tuple(odd))


def _other(outside: int, own: int) -> int | None:
    return None if own in (0, outside) else outside


def _addresses(entry: Property | None, controllers: frozenset[str]) -> dict[str, _Address]:
    """The listeners for clients, by name."""
    by_name: dict[str, _Address] = {}
    if entry is None:
        return by_name
    for text in (part.strip() for part in entry.value.split(",")):
        match = _LISTENER_RE.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise WrongPropertyError(entry, f"expected NAME://HOST:PORT, found {text!r}")
        name = match["name"].upper()
        if name in by_name:
            raise WrongPropertyError(entry, f"there are two listeners {name}")
        if name not in controllers:
            host = match["v6"] if match["v6"] is not None else match["host"]
            by_name[name] = _Address(host=host, port=int(match["port"]))
    return by_name


def _names(properties: Mapping[str, Property], name: str) -> set[str]:
    if name not in properties:
        return set()
    return {part.strip().upper() for part in properties[name].value.split(",")}


def _protocols(properties: Mapping[str, Property]) -> dict[str, SecurityProtocol]:
    """Protocols by listener name, from ``listener.security.protocol.map``; by default a listener's
    name is its protocol.
    """
    if MAP not in properties:
        return dict(SecurityProtocol.__members__)
    by_name = {}
    for pair in properties[MAP].value.split(","):
        name, _colon, protocol = pair.strip().partition(":")
        if protocol.strip().upper() not in SecurityProtocol.__members__:
            raise WrongPropertyError(
                properties[MAP],
                f"expected NAME:PROTOCOL with one of {', '.join(SecurityProtocol.__members__)}, "
                f"found {pair.strip()!r}",
            )
        by_name[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return by_name
