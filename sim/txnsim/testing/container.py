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

KAFKA: Final = "KAFKA_"
BITNAMI: Final = "KAFKA_CFG_"
"""Prefix of properties in Bitnami's image."""
HTTP_PORT: Final = "9080"
DEFAULTS: Final = {
    "TXNSIM_HOST": "0.0.0.0",
    "TXNSIM_HTTP_PORT": HTTP_PORT,
}
"""Options that have another default in a container, because other containers must reach it."""
HEALTH_SECONDS: Final = 3
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
_OF_DEFAULT_RE: Final = re.compile(r"(\s*PLAINTEXT://[^,]*:9092\s*)?")
"""Matches advertised listeners that fit the default listener, which is used if no listener is
set.
"""

NOT_FOR_BROKERS: Final = frozenset(
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
    config: str | None = None
    """Path of a configuration file that exists already."""
    remarks: tuple[str, ...] = ()
    """What is understood in another way than it is written, for the user."""


def start_of(environment: Mapping[str, str], more: Sequence[str] = ()) -> ContainerCommand:
    """The command that the environment asks for.

    Args:
        environment: Environment variables of the process.
        more: Arguments of the container, which are passed on.

    Raises:
        ConfigError: A variable of txnsim is unknown or wrong, or two contradict each other.
    """
    own_variables = {**DEFAULTS, **{k: v for k, v in environment.items() if is_given(k, v)}}
    strangers = sorted(own_variables.keys() - OPTIONS.keys())
    if strangers:
        raise ConfigError(
            "\n".join(unknown_word_message("variable", name, OPTIONS) for name in strangers)
        )
    properties, remarks = _properties(environment, has_file="TXNSIM_CONFIG" in environment)
    if "listeners" in properties and "TXNSIM_HOST" not in environment:
        del own_variables["TXNSIM_HOST"]  # these variables choose the listening address
    config = own_variables.pop("TXNSIM_CONFIG", None)
    if config is not None and properties and not config.endswith(".properties"):
        raise ConfigError(f"TXNSIM_CONFIG={config}: {KAFKA}… only go with a .properties file")
    try:
        arguments = words_of(own_variables, ())
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if "--http" in arguments:
        arguments += ["--http-host", DEFAULTS["TXNSIM_HOST"]]
    return ContainerCommand(
        arguments=(*arguments, *more),
        properties="".join(
            f"{name}={_escape_value(value)}\n" for name, value in properties.items()
        ),
        config=config,
        remarks=remarks,
    )


def _properties(
    environment: Mapping[str, str], *, has_file: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The properties that the environment sets, by name, and remarks on them."""
    variables = {
        name: value
        for name, value in sorted(environment.items())
        if is_given(name, value, KAFKA) and name not in NOT_FOR_BROKERS
    }
    foreign = {name: KAFKA + name.removeprefix(BITNAMI) for name in variables if _is_bitnamis(name)}
    properties = {property_name(own_name): variables[name] for name, own_name in foreign.items()}
    properties |= {
        property_name(name): value for name, value in variables.items() if name not in foreign
    }
    remarks = []
    if foreign:
        remarks.append(
            f"{BITNAMI} is the prefix of Bitnami's image, and taken for {KAFKA} here; "
            f"write {', '.join(foreign.values())}"
        )
    advertised = properties.get(ADVERTISED, "")
    if LISTENERS not in properties and not has_file and not _OF_DEFAULT_RE.fullmatch(advertised):
        properties[LISTENERS] = bound_everywhere(advertised)
        remarks.append(
            f"{KAFKA}LISTENERS is not set: taken for {properties[LISTENERS]}, what "
            f"{KAFKA}ADVERTISED_LISTENERS names, as Confluent's image does"
        )
    return dict(sorted(properties.items())), tuple(remarks)


def _is_bitnamis(name: str) -> bool:
    return name.startswith(BITNAMI) and len(name) > len(BITNAMI)


def property_name(variable: str) -> str:
    """The property that an environment variable sets."""
    name = variable.removeprefix(KAFKA).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def main() -> int:
    """Replace this process by the cluster, or check the running cluster's health."""
    if sys.argv[1:] == ["--health"]:
        return health(os.environ)
    try:
        start = start_of(os.environ, sys.argv[1:])
        arguments = [*_config(start), *start.arguments]
        for remark in start.remarks:
            sys.stderr.write(f"txnsim: {remark}\n")
    except ConfigError as error:
        sys.stderr.write(f"txnsim: {error}\n")
        return 2
    command = [sys.executable, "-m", "txnsim.cli.main", "serve", *arguments]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def health(environment: Mapping[str, str]) -> int:
    """Exit status: 0 if the control port reports a running cluster, or is switched off."""
    port = environment.get("TXNSIM_HTTP_PORT", HTTP_PORT)
    if port == OFF:
        return 0
    url = f"http://127.0.0.1:{port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=HEALTH_SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except (OSError, ValueError, urllib.error.URLError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return 1


def _config(start: ContainerCommand) -> list[str]:
    """The option for the configuration file, which is written first if it has to be combined."""
    if not start.properties:
        return [] if start.config is None else ["--config", start.config]
    file_text = ""
    if start.config is not None:
        try:
            file_text = Path(start.config).read_text("latin-1").rstrip("\n") + "\n"
        except OSError as error:
            raise ConfigError(f"TXNSIM_CONFIG={start.config}: {problem_of(error)}") from None
    file = Path(tempfile.mkdtemp(prefix="txnsim-")) / "server.properties"
    file.write_text(file_text + start.properties, "latin-1")
    return ["--config", str(file)]


# Variables


def _escape_value(value: str) -> str:
    """Escape a value for java.util.Properties."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if text.startswith((" ", "\t", "\f")):
        text = "\\" + text
    return "".join(character if ord(character) < 256 else _utf16(character) for character in text)


def _utf16(character: str) -> str:
    """Escape a character beyond Latin-1 by its UTF-16 units."""
    units = character.encode("utf-16-be")
    return "".join(
        f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2)
    )


if __name__ == "__main__":
    sys.exit(main())
