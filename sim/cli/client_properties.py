"""``--command-config FILE``: the client properties that Kafka's tools read, as far as our client
has a use for them.

How brokers are reached, and as whom, is ``config.client_security``'s; what of it can't be obeyed is
refused. Kafka's counterpart is ``AdminClientConfig``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from sim.client.connection import ClientSettings
from sim.config.client_security import read_client_security
from sim.config.lookup import WrongValueError
from sim.config.properties import Property, parse_properties
from sim.errors import ConfigError

_MILLISECONDS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
}


def read_client_properties(path: Path) -> tuple[ClientSettings, str | None, tuple[str, ...]]:
    """Read a client's property file.

    Returns:
        Settings, bootstrap servers if the file names some, and the names of the properties without
        effect here.

    Raises:
        ConfigError: The file can't be read, a value is wrong, or asks for what is not spoken here.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--command-config {path}: {error.strerror}") from error
    entries = parse_properties(data, file=str(path))
    last = {entry.name: entry for entry in entries}  # java.util.Properties: the last one wins
    try:
        security, used = read_client_security(last)
    except WrongValueError as error:
        entry = error.entry
        raise ConfigError(f"{path}:{entry.line}: {entry.name}: {error.message}") from None
    values: dict[str, int] = {}
    client_id = ClientSettings().client_id
    bootstrap: str | None = None
    ignored: list[str] = []
    for entry in last.values():
        match entry.name:
            case name if name in _MILLISECONDS:
                values[_MILLISECONDS[name]] = _milliseconds(path, entry)
            case "client.id":
                client_id = entry.value
            case "bootstrap.servers":
                bootstrap = entry.value
            case name if name not in used:
                ignored.append(name)
            case _:
                pass
    settings = msgspec.structs.replace(
        ClientSettings(client_id=client_id, security=security), **values
    )
    return settings, bootstrap, tuple(ignored)


def _milliseconds(path: Path, entry: Property) -> int:
    if not (entry.value.isascii() and entry.value.isdigit()):
        raise ConfigError(
            f"{path}:{entry.line}: {entry.name}={entry.value}: milliseconds are expected"
        )
    return int(entry.value)
