"""``--command-config FILE``: the client properties that Kafka's tools read, as far as our client
has a use for them.

What would change how brokers are reached and can't be obeyed is refused: connecting in clear where
TLS was asked for is no service. Kafka's counterpart is ``AdminClientConfig``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from sim.client.connection import ClientSettings
from sim.config.properties import Property, parse_properties
from sim.errors import ConfigError

_MILLISECONDS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
}
_PLAINTEXT: Final = "PLAINTEXT"


def read_client_properties(path: Path) -> tuple[ClientSettings, str | None, tuple[str, ...]]:
    """Read a client's property file.

    Returns:
        Settings, bootstrap servers if the file names some, and the names of the properties without
        effect here.

    Raises:
        ConfigError: The file can't be read, a value is wrong, or it asks for TLS or SASL.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--command-config {path}: {error.strerror}") from error
    values: dict[str, int] = {}
    client_id = ClientSettings().client_id
    bootstrap: str | None = None
    ignored: list[str] = []
    for entry in parse_properties(data, file=str(path)):
        match entry.name:
            case name if name in _MILLISECONDS:
                values[_MILLISECONDS[name]] = _milliseconds(path, entry)
            case "client.id":
                client_id = entry.value
            case "bootstrap.servers":
                bootstrap = entry.value
            case "security.protocol":
                _refuse_security(path, entry)
            case name:
                ignored.append(name)
    settings = msgspec.convert({"client_id": client_id, **values}, ClientSettings)
    return settings, bootstrap, tuple(ignored)


def _milliseconds(path: Path, entry: Property) -> int:
    if not (entry.value.isascii() and entry.value.isdigit()):
        raise ConfigError(
            f"{path}:{entry.line}: {entry.name}={entry.value}: milliseconds are expected"
        )
    return int(entry.value)


def _refuse_security(path: Path, entry: Property) -> None:
    if entry.value.upper() != _PLAINTEXT:
        raise ConfigError(
            f"{path}:{entry.line}: security.protocol={entry.value}: this client speaks PLAINTEXT"
            " only. Use Kafka's own kafka-transactions.sh with the same options, or a PLAINTEXT"
            " listener"
        )
