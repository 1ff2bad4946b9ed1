"""What the listener properties of a broker mean for us: one address, without encryption.

Kafka's counterpart: SocketServerConfigs.listenerListToEndPoints, AbstractKafkaConfig's checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from sim.config.properties import Property

ALL_INTERFACES: Final = "0.0.0.0"
"""What a listener without a host binds (SocketServer)."""

_LISTENER_RE: Final = re.compile(
    r"(?P<name>\w+)://(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:]*)):(?P<port>\d{1,5})"
)

Remark = tuple[Property, str]
"""An entry and what is to be said of it."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients find the first broker; None where the file does not say."""

    host: str | None = None
    port: int | None = None
    advertised_host: str | None = None


class _Listener(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    host: str
    port: int


def read_listeners(given: Mapping[str, Property]) -> tuple[Address, list[Remark], list[Remark]]:
    """The address, what is wrong, and what is taken with a warning."""
    refused: list[Remark] = []
    odd: list[Remark] = []
    own = _choose(given, "listeners", refused, odd)
    advertised = _choose(given, "advertised.listeners", refused, odd)
    if own is not None and advertised is not None and own.port not in (0, advertised.port):
        odd.append((given["advertised.listeners"], f"clients are told the real port, {own.port}"))
    address = Address(
        host=None if own is None else own.host or ALL_INTERFACES,
        port=None if own is None else own.port,
        advertised_host=None if advertised is None else advertised.host or None,
    )
    return address, refused, odd


def _choose(
    given: Mapping[str, Property], name: str, refused: list[Remark], odd: list[Remark]
) -> _Listener | None:
    """The first listener that is no controller's."""
    if name not in given:
        return None
    entry = given[name]
    controllers = _names(given, "controller.listener.names")
    listeners = []
    for text in (part.strip() for part in entry.value.split(",")):
        match = _LISTENER_RE.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            refused.append((entry, f"expected NAME://HOST:PORT, found {text!r}"))
            return None
        if match["name"].upper() not in controllers:
            host = match["v6"] if match["v6"] is not None else match["host"]
            listeners.append(
                _Listener(name=match["name"].upper(), host=host, port=int(match["port"]))
            )
    if not listeners:
        return None  # a node that is a controller only
    chosen = listeners[0]
    protocol = _protocol(given, chosen.name)
    if protocol != "PLAINTEXT":
        wanted = f"listener {chosen.name} is {protocol}"
        others = "files open PLAINTEXT only (docs/security.md has the others)"
        refused.append((entry, f"{wanted}, {others}"))
    if len(listeners) > 1:
        ignored = ", ".join(listener.name for listener in listeners[1:])
        odd.append((entry, f"one listener is opened, {chosen.name}; without effect: {ignored}"))
    return chosen


def _names(given: Mapping[str, Property], name: str) -> set[str]:
    if name not in given:
        return set()
    return {part.strip().upper() for part in given[name].value.split(",")}


def _protocol(given: Mapping[str, Property], listener: str) -> str:
    """From ``listener.security.protocol.map``; by default a protocol's name is its listener's."""
    name = "listener.security.protocol.map"
    if name in given:
        for pair in given[name].value.split(","):
            key, _colon, protocol = pair.strip().partition(":")
            if key.upper() == listener:
                return protocol.upper()
    return listener
