"""Host and port in one text, as clients take it: an IPv6 address stands in brackets (RFC 3986)."""

from __future__ import annotations

from typing import Final

PORT_MAX: Final = 65_535
EVERYWHERE: Final = ("", "0.0.0.0", "::")
"""Hosts to listen on that stand for every address of the machine: no client can connect to one."""


def host_and_port(host: str, port: int | str) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_host_and_port(text: str) -> tuple[str, int] | None:
    """Host and port of such a text; None where it is not of that form.

    The host is without brackets. They may be missing, as Kafka's own Utils.getHost allows.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        return None
    return host, int(port)
