"""A client's properties as our settings, as far as our client uses them.

``_client_security`` reads how to connect and log in. Unsupported settings are refused. Kafka's
counterpart is ``AdminClientConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.client.connection import ClientSettings
from txnsim.config._client_security import read_client_security
from txnsim.config.lookup import WrongPropertyError
from txnsim.config.properties import Property
from txnsim.errors import BadInputError

_MILLISECONDS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
}


class ReadProperties(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in a client's properties."""

    settings: ClientSettings
    bootstrap: str | None
    """The value of ``bootstrap.servers``."""
    ignored_names: tuple[str, ...]
    """Names of the properties without effect here."""


def read_client_settings(
    property_by_name: Mapping[str, Property], *, defaults: ClientSettings | None = None
) -> ReadProperties:
    """Read a client's properties.

    Raises:
        WrongPropertyError: A value is wrong, or asks for a feature that is not supported here.
    """
    defaults = defaults if defaults is not None else ClientSettings()
    client_security, used_names = read_client_security(property_by_name)
    setting_values: dict[str, int] = {}
    client_id = defaults.client_id
    bootstrap_servers: str | None = None
    ignored_names: list[str] = []
    for file_property in property_by_name.values():
        match file_property.name:
            case name if name in _MILLISECONDS:
                setting_values[_MILLISECONDS[name]] = _milliseconds_of(file_property)
            case "client.id":
                client_id = file_property.value
            case "bootstrap.servers":
                bootstrap_servers = file_property.value
            case name if name not in used_names:
                ignored_names.append(name)
            case _:
                pass
    settings = msgspec.structs.replace(
        defaults, client_id=client_id, security=client_security, **setting_values
    )
    return ReadProperties(
        settings=settings, bootstrap=bootstrap_servers, ignored_names=tuple(ignored_names)
    )


def settings_of_options(
    options: Mapping[str, str], *, defaults: ClientSettings, option_flag: str
) -> ReadProperties:
    """Read properties that were passed to a program.

    Args:
        options: The properties by name.
        defaults: Settings that the properties don't change.
        option_flag: Prefix of a property's name in errors.

    Raises:
        BadInputError: A value is wrong.
    """
    property_by_name = {
        name: Property(line=0, name=name, value=option_text)
        for name, option_text in options.items()
    }
    try:
        return read_client_settings(property_by_name, defaults=defaults)
    except WrongPropertyError as error:
        raise BadInputError(f"{option_flag}{error.entry.name}: {error.message}") from None


def _milliseconds_of(file_property: Property) -> int:
    if not (file_property.value.isascii() and file_property.value.isdigit()):
        raise WrongPropertyError(file_property, "milliseconds are expected")
    return int(file_property.value)
