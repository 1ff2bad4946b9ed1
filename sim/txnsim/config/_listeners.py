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
PROTOCOL_MAP: Final = "listener.security.protocol.map"

_LISTENER_RE: Final = re.compile(
    r"(?P<name>[^:/\s]+)://(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:]*)):(?P<port>\d{1,5})"
)
_DEFAULT_LISTENERS: Final = Property(line=0, name="listeners", value="PLAINTEXT://:9092")

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
    controller_names: frozenset[str] = frozenset()
    closed: tuple[Remark, ...] = ()
    """Remarks on listeners of the file that are not opened, with reasons."""
    closed_names: frozenset[str] = frozenset()
    refusals: tuple[Remark, ...] = ()
    odd_remarks: tuple[Remark, ...] = ()
    """Remarks on listeners whose ports change if there are several brokers, each with its own
    ports.
    """


class _Address(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int


def bound_everywhere(advertised_listeners: str) -> str:
    """A ``listeners`` value with the same names and ports, bound to all interfaces."""
    address_texts = (address_text.strip() for address_text in advertised_listeners.split(","))
    return ",".join(
        f"{match['name']}://{ALL_INTERFACES}:{match['port']}" if match else listener_text
        for listener_text in address_texts
        for match in (_LISTENER_RE.fullmatch(listener_text),)
    )


def read_listeners(properties: Mapping[str, Property]) -> Listeners:
    """The listeners with their protocols and the hosts that clients connect to."""
    controller_names = frozenset(_name_set(properties, "controller.listener.names"))
    try:
        return _read_valid_listeners(properties, controller_names)
    except WrongPropertyError as error:
        return Listeners(
            controller_names=controller_names, refusals=((error.entry, error.message),)
        )


def _read_valid_listeners(
    properties: Mapping[str, Property], controller_names: frozenset[str]
) -> Listeners:
    protocols = _protocol_by_name(properties)
    advertised_address_by_name = _address_by_name(
        properties.get("advertised.listeners"), controller_names
    )
    if "listeners" not in properties and not advertised_address_by_name:
        return Listeners(controller_names=controller_names)
    listeners_property = properties.get("listeners", _DEFAULT_LISTENERS)
    own_addresses = _address_by_name(listeners_property, controller_names)
    unknown_names = ", ".join(sorted(advertised_address_by_name.keys() - own_addresses.keys()))
    if unknown_names:
        raise WrongPropertyError(
            properties["advertised.listeners"],
            f"there is no listener {unknown_names} among the listeners",
        )
    client_listeners = []
    for name, address in own_addresses.items():
        protocol = protocols.get(name)
        if protocol is None:
            protocol_source = PROTOCOL_MAP if PROTOCOL_MAP in properties else "its name"
            raise WrongPropertyError(
                listeners_property, f"listener {name}: {protocol_source} names no security protocol"
            )
        advertised_address = advertised_address_by_name.get(name)
        if advertised_address is not None and advertised_address.host == ALL_INTERFACES:
            raise WrongPropertyError(
                properties["advertised.listeners"], f"clients can't connect to {ALL_INTERFACES}"
            )
        client_listeners.append(
            FileListener(
                name=name,
                protocol=protocol,
                host=address.host or ALL_INTERFACES,
                port=address.port,
                advertised_host=None
                if advertised_address is None
                else advertised_address.host or None,
                advertised_port=None
                if advertised_address is None
                else _advertised_port(advertised_address.port, address.port),
                entry=listeners_property,
            )
        )
    odd_remarks = [
        (
            properties["advertised.listeners"],
            f"where there are several brokers, clients get the real port, {listener.port}",
        )
        for listener in client_listeners
        if listener.advertised_port is not None
    ]
    return Listeners(
        clients=tuple(client_listeners),
        controller_names=controller_names,
        odd_remarks=tuple(odd_remarks),
    )


def _advertised_port(advertised_port: int, own_port: int) -> int | None:
    return None if own_port in (0, advertised_port) else advertised_port


def _address_by_name(
    addresses_property: Property | None, controller_names: frozenset[str]
) -> dict[str, _Address]:
    """The listeners for clients, by name."""
    address_by_name: dict[str, _Address] = {}
    if addresses_property is None:
        return address_by_name
    for address_text in (
        address_part.strip() for address_part in addresses_property.value.split(",")
    ):
        address_match = _LISTENER_RE.fullmatch(address_text)
        if address_match is None or int(address_match["port"]) > 65535:
            raise WrongPropertyError(
                addresses_property, f"expected NAME://HOST:PORT, found {address_text!r}"
            )
        name = address_match["name"].upper()
        if name in address_by_name:
            raise WrongPropertyError(addresses_property, f"there are two listeners {name}")
        if name not in controller_names:
            host = address_match["v6"] if address_match["v6"] is not None else address_match["host"]
            address_by_name[name] = _Address(host=host, port=int(address_match["port"]))
    return address_by_name


def _name_set(properties: Mapping[str, Property], name: str) -> set[str]:
    if name not in properties:
        return set()
    return {name_part.strip().upper() for name_part in properties[name].value.split(",")}


def _protocol_by_name(properties: Mapping[str, Property]) -> dict[str, SecurityProtocol]:
    """Protocols by listener name, from ``listener.security.protocol.map``; by default a listener's
    name is its protocol.
    """
    if PROTOCOL_MAP not in properties:
        return dict(SecurityProtocol.__members__)
    protocol_by_name = {}
    for name_and_protocol in properties[PROTOCOL_MAP].value.split(","):
        name, _colon, protocol = name_and_protocol.strip().partition(":")
        if protocol.strip().upper() not in SecurityProtocol.__members__:
            raise WrongPropertyError(
                properties[PROTOCOL_MAP],
                f"expected NAME:PROTOCOL with one of {', '.join(SecurityProtocol.__members__)}, "
                f"found {name_and_protocol.strip()!r}",
            )
        protocol_by_name[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocol_by_name
