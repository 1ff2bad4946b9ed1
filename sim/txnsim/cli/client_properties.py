"""``--command-config FILE``: the file of client properties that Kafka's tools read.

``config.client_settings`` knows what the properties mean. Kafka's counterpart is the option of the
same name.
"""

from __future__ import annotations

import os
from pathlib import Path

from txnsim.client.connection import ClientSettings
from txnsim.config.client_settings import read_client_settings
from txnsim.config.lookup import WrongPropertyError
from txnsim.config.properties import Property, parse_properties
from txnsim.environment_variables import BOOTSTRAP
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given


def read_client_properties(path: Path) -> tuple[ClientSettings, str | None, tuple[str, ...]]:
    """Read a client's property file.

    Returns:
        Settings, bootstrap servers if the file names some, and the names of the properties without
        effect here.

    Raises:
        ConfigError: The file can't be read, or a value is wrong or not supported.
    """
    try:
        properties_read = read_client_settings(property_entries(path))
    except WrongPropertyError as error:
        file_property = error.entry
        raise ConfigError(
            f"{path}:{file_property.line}: {file_property.name}: {error.message}"
        ) from None
    return properties_read.settings, properties_read.bootstrap, properties_read.ignored_names


def bootstrap_of(option: str | None) -> str:
    """The bootstrap servers: from an option or a file, else from the environment.

    Raises:
        ConfigError: None of them names any.
    """
    bootstrap = option or os.environ.get(BOOTSTRAP)
    if not bootstrap:
        raise ConfigError(
            "--bootstrap-server is missing: host:port of a broker, such as localhost:9092;"
            f" {BOOTSTRAP} says it for all commands"
        )
    return bootstrap


def client_of(bootstrap: str | None, properties_path: Path | None) -> dict[str, str]:
    """Kafka's properties for a client: those of a file, and the bootstrap servers.

    Raises:
        ConfigError: The file can't be read, or no bootstrap servers are named.
    """
    client_properties = (
        {}
        if properties_path is None
        else {
            file_property.name: file_property.value
            for file_property in property_entries(properties_path).values()
        }
    )
    client_properties["bootstrap.servers"] = bootstrap_of(
        bootstrap or client_properties.get("bootstrap.servers")
    )
    return client_properties


def property_entries(path: Path) -> dict[str, Property]:
    """The entries of a property file; of a repeated name the last one counts, as in
    java.util.Properties.

    Raises:
        ConfigError: The file can't be read.
    """
    try:
        data = read_given(path)
    except OSError as error:
        raise ConfigError(f"--command-config {path}: {problem_of(error)}") from error
    return {
        file_property.name: file_property
        for file_property in parse_properties(data, file=str(path))
    }
