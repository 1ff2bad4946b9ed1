"""The program of the container image: turns environment variables into options of ``txnsim serve``,
which then replaces it.

``TXNSIM_…`` stand for options of ``serve``; ``KAFKA_…`` are properties of a broker, named as in the
image apache/kafka (``KAFKA_TRANSACTION_MAX_TIMEOUT_MS``: upper case, ``_`` for a dot, ``__`` for an
underscore, ``___`` for a hyphen; its counterpart is KafkaDockerWrapper). Arguments are passed on.
With ``--health`` it only asks the running cluster, for HEALTHCHECK.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.config import bound_everywhere
from txnsim.environment_variables import OFF, OPTIONS, is_given, words_of
from txnsim.errors import ConfigError
from txnsim.files import problem_of
from txnsim.text import unknown_word_message

KAFKA_PREFIX: Final = "KAFKA_"
BITNAMI_PREFIX: Final = "KAFKA_CFG_"
"""Prefix of properties in Bitnami's image."""
HTTP_PORT: Final = "9080"
DEFAULT_VARIABLES: Final = {
    "TXNSIM_HOST": "0.0.0.0",
    "TXNSIM_HTTP_PORT": HTTP_PORT,
}
"""Options that have another default in a container, because other containers must reach it."""
HEALTH_SECONDS: Final = 3
LISTENERS_PROPERTY: Final = "listeners"
ADVERTISED_PROPERTY: Final = "advertised.listeners"
_DEFAULT_LISTENER_RE: Final = re.compile(r"(\s*PLAINTEXT://[^,]*:9092\s*)?")
"""Matches advertised listeners that fit the default listener, which is used if no listener is
set.
"""

NON_BROKER_VARIABLES: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
    }
)
"""Variables for the start script of apache/kafka and its JVM
(KafkaDockerWrapper.ExcludeServerPropsEnv).
"""


class ContainerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command that the container runs."""

    arguments: tuple[str, ...]
    """Arguments of ``txnsim serve``."""
    properties: str = ""
    """Text of a server.properties for it; empty for none."""
    config_path: str | None = None
    """Path of a configuration file that exists already."""
    remarks: tuple[str, ...] = ()
    """What is understood in another way than it is written, for the user."""


def command_of_environment(
    process_variables: Mapping[str, str], passed_arguments: Sequence[str] = ()
) -> ContainerCommand:
    """The command that the environment asks for.

    Args:
        process_variables: Environment variables of the process.
        passed_arguments: Arguments of the container, which are passed on.

    Raises:
        ConfigError: A variable of txnsim is unknown or wrong, or two contradict each other.
    """
    own_variables = {
        **DEFAULT_VARIABLES,
        **{
            variable: value_text
            for variable, value_text in process_variables.items()
            if is_given(variable, value_text)
        },
    }
    unknown_variables = sorted(own_variables.keys() - OPTIONS.keys())
    if unknown_variables:
        raise ConfigError(
            "\n".join(unknown_word_message("variable", name, OPTIONS) for name in unknown_variables)
        )
    properties, remarks = _broker_properties(
        process_variables, has_file="TXNSIM_CONFIG" in process_variables
    )
    if "listeners" in properties and "TXNSIM_HOST" not in process_variables:
        del own_variables["TXNSIM_HOST"]  # these variables choose the listening address
    config = own_variables.pop("TXNSIM_CONFIG", None)
    if config is not None and properties and not config.endswith(".properties"):
        raise ConfigError(
            f"TXNSIM_CONFIG={config}: {KAFKA_PREFIX}… only go with a .properties file"
        )
    try:
        arguments = words_of(own_variables, ())
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if "--http" in arguments:
        arguments += ["--http-host", DEFAULT_VARIABLES["TXNSIM_HOST"]]
    return ContainerCommand(
        arguments=(*arguments, *passed_arguments),
        properties="".join(
            f"{name}={_escape_value(value)}\n" for name, value in properties.items()
        ),
        config_path=config,
        remarks=remarks,
    )


def _broker_properties(
    process_variables: Mapping[str, str], *, has_file: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The properties that the environment sets, by name, and remarks on them."""
    variables = {
        name: value
        for name, value in sorted(process_variables.items())
        if is_given(name, value, KAFKA_PREFIX) and name not in NON_BROKER_VARIABLES
    }
    bitnami_names = {
        name: KAFKA_PREFIX + name.removeprefix(BITNAMI_PREFIX)
        for name in variables
        if _has_bitnami_prefix(name)
    }
    properties = {
        property_name(kafka_name): variables[name] for name, kafka_name in bitnami_names.items()
    }
    properties |= {
        property_name(name): value for name, value in variables.items() if name not in bitnami_names
    }
    remarks = []
    if bitnami_names:
        remarks.append(
            f"{BITNAMI_PREFIX} is the prefix of Bitnami's image, and taken for {KAFKA_PREFIX} "
            f"here; write {', '.join(bitnami_names.values())}"
        )
    advertised_listeners = properties.get(ADVERTISED_PROPERTY, "")
    if (
        LISTENERS_PROPERTY not in properties
        and not has_file
        and not _DEFAULT_LISTENER_RE.fullmatch(advertised_listeners)
    ):
        properties[LISTENERS_PROPERTY] = bound_everywhere(advertised_listeners)
        remarks.append(
            f"{KAFKA_PREFIX}LISTENERS is not set: taken for {properties[LISTENERS_PROPERTY]}, what "
            f"{KAFKA_PREFIX}ADVERTISED_LISTENERS names, as Confluent's image does"
        )
    return dict(sorted(properties.items())), tuple(remarks)


def _has_bitnami_prefix(name: str) -> bool:
    return name.startswith(BITNAMI_PREFIX) and len(name) > len(BITNAMI_PREFIX)


def property_name(variable: str) -> str:
    """The property that an environment variable sets."""
    name = variable.removeprefix(KAFKA_PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def main() -> int:
    """Replace this process by the cluster, or check the running cluster's health."""
    if sys.argv[1:] == ["--health"]:
        return health(os.environ)
    try:
        container_command = command_of_environment(os.environ, sys.argv[1:])
        arguments = [*_config_option(container_command), *container_command.arguments]
        for remark in container_command.remarks:
            sys.stderr.write(f"txnsim: {remark}\n")
    except ConfigError as error:
        sys.stderr.write(f"txnsim: {error}\n")
        return 2
    command = [sys.executable, "-m", "txnsim.cli.main", "serve", *arguments]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def health(process_variables: Mapping[str, str]) -> int:
    """Exit status: 0 if the control port reports a running cluster, or is switched off."""
    port = process_variables.get("TXNSIM_HTTP_PORT", HTTP_PORT)
    if port == OFF:
        return 0
    url = f"http://127.0.0.1:{port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=HEALTH_SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except (OSError, ValueError, urllib.error.URLError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return 1


def _config_option(container_command: ContainerCommand) -> list[str]:
    """The option that names the configuration file. Where settings of the environment are added to
    the given file, the combined file is written first."""
    if not container_command.properties:
        return (
            []
            if container_command.config_path is None
            else ["--config", container_command.config_path]
        )
    properties_text = ""
    if container_command.config_path is not None:
        try:
            properties_text = (
                Path(container_command.config_path).read_text("latin-1").rstrip("\n") + "\n"
            )
        except OSError as error:
            raise ConfigError(
                f"TXNSIM_CONFIG={container_command.config_path}: {problem_of(error)}"
            ) from None
    properties_file = Path(tempfile.mkdtemp(prefix="txnsim-")) / "server.properties"
    properties_file.write_text(properties_text + container_command.properties, "latin-1")
    return ["--config", str(properties_file)]


# Variables


def _escape_value(value: str) -> str:
    """Escape a value for java.util.Properties."""
    escaped_text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if escaped_text.startswith((" ", "\t", "\f")):
        escaped_text = "\\" + escaped_text
    return "".join(
        character if ord(character) < 256 else _escape_utf16(character)
        for character in escaped_text
    )


def _escape_utf16(character: str) -> str:
    """Escape a character beyond Latin-1 by its UTF-16 units."""
    utf16_bytes = character.encode("utf-16-be")
    return "".join(
        f"\\u{utf16_bytes[index]:02x}{utf16_bytes[index + 1]:02x}"
        for index in range(0, len(utf16_bytes), 2)
    )


if __name__ == "__main__":
    sys.exit(main())
