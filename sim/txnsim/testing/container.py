"""What the container runs: environment variables to ``txnsim serve``, which then takes its place.

``TXNSIM_…`` say what ``serve``'s options say; ``KAFKA_…`` are properties of a broker, spelled as
the image apache/kafka has it (``KAFKA_TRANSACTION_MAX_TIMEOUT_MS``: upper case, ``_`` for a dot,
``__`` for an underscore, ``___`` for a hyphen; its counterpart is KafkaDockerWrapper). Arguments
are handed on. With ``--health`` it only asks the running cluster, for HEALTHCHECK.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError

OURS: Final = "TXNSIM_"
KAFKA: Final = "KAFKA_"
HTTP_PORT: Final = "9080"
DEFAULTS: Final = {
    "TXNSIM_HOST": "0.0.0.0",
    "TXNSIM_HTTP_PORT": HTTP_PORT,
}
"""What is different in a container: others are to reach it."""
HEALTH_SECONDS: Final = 3

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
"""Of apache/kafka's own start script and its JVM (KafkaDockerWrapper.ExcludeServerPropsEnv)."""
_OF_KUBERNETES_RE: Final = re.compile(
    r"(TXNSIM|KAFKA)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)"
)
"""Set by Kubernetes in every pod beside a service that is named ``txnsim`` or ``kafka``."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run."""

    arguments: tuple[str, ...]
    """Of ``txnsim serve``."""
    properties: str = ""
    """A server.properties to go with them; empty for none."""
    config: str | None = None
    """A configuration file that is there already."""


def start_of(environment: Mapping[str, str], more: Sequence[str] = ()) -> Start:
    """What the environment asks for.

    Args:
        environment: Of the process.
        more: Arguments of the container, which are handed on.

    Raises:
        ConfigError: A variable of ours is unknown or wrong, or two contradict each other.
    """
    ours = {**DEFAULTS, **{k: v for k, v in environment.items() if _is_ours(k, v, OURS)}}
    unknown = sorted(ours.keys() - _OPTIONS.keys())
    if unknown:
        raise ConfigError("\n".join(map(_unknown, unknown)))
    properties = {
        property_name(name): value
        for name, value in sorted(environment.items())
        if _is_ours(name, value, KAFKA) and name not in NOT_FOR_BROKERS
    }
    if "listeners" in properties and "TXNSIM_HOST" not in environment:
        del ours["TXNSIM_HOST"]  # they say where to listen
    config = ours.pop("TXNSIM_CONFIG", None)
    if config is not None and properties and not config.endswith(".properties"):
        raise ConfigError(f"TXNSIM_CONFIG={config}: {KAFKA}… only go with a .properties file")
    arguments = [word for name, value in ours.items() for word in _OPTIONS[name](name, value)]
    return Start(
        arguments=(*arguments, *more),
        properties="".join(f"{name}={_escaped(value)}\n" for name, value in properties.items()),
        config=config,
    )


def property_name(variable: str) -> str:
    """The property that an environment variable stands for."""
    name = variable.removeprefix(KAFKA).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def main() -> int:
    """Start the cluster in this process's place, or ask whether it is well."""
    if sys.argv[1:] == ["--health"]:
        return health(os.environ)
    try:
        start = start_of(os.environ, sys.argv[1:])
        arguments = [*_config(start), *start.arguments]
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    command = [sys.executable, "-m", "txnsim.cli.main", "serve", *arguments]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def health(environment: Mapping[str, str]) -> int:
    """0 where the control port says that the cluster is up; without one nothing can be said."""
    port = environment.get("TXNSIM_HTTP_PORT", HTTP_PORT)
    if port == "off":
        return 0
    url = f"http://127.0.0.1:{port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=HEALTH_SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except (OSError, ValueError, urllib.error.URLError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return 1


def _config(start: Start) -> list[str]:
    """The option for the configuration file, written first where it is made of several."""
    if not start.properties:
        return [] if start.config is None else ["--config", start.config]
    before = ""
    if start.config is not None:
        try:
            before = Path(start.config).read_text("latin-1").rstrip("\n") + "\n"
        except OSError as error:
            raise ConfigError(f"TXNSIM_CONFIG={start.config}: {error.strerror}") from None
    file = Path(tempfile.mkdtemp(prefix="txnsim-")) / "server.properties"
    file.write_text(before + start.properties, "latin-1")
    return ["--config", str(file)]


# Variables


def _is_ours(name: str, value: str, prefix: str) -> bool:
    from_kubernetes = _OF_KUBERNETES_RE.fullmatch(name) or (
        name == f"{prefix}PORT" and "://" in value
    )
    return name.startswith(prefix) and not from_kubernetes


def _option(flag: str) -> Callable[[str, str], list[str]]:
    return lambda _name, value: [flag, value]


def _each(flag: str) -> Callable[[str, str], list[str]]:
    """One option for each part of a list."""
    return lambda _name, value: [
        word for part in value.split(",") if part.strip() for word in (flag, part.strip())
    ]


def _topics(_name: str, value: str) -> list[str]:
    names = [part.strip() for part in value.split(",") if part.strip()]
    return [word for name in names for word in ("--topic", name if ":" in name else f"{name}:1")]


def _http(_name: str, value: str) -> list[str]:
    return [] if value == "off" else ["--http", value, "--http-host", DEFAULTS["TXNSIM_HOST"]]


def _switch(flag: str) -> Callable[[str, str], list[str]]:
    def _words(name: str, value: str) -> list[str]:
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name}={value}: expected true or false")
        return [flag] if value.lower() == "true" else []

    return _words


def _read_elsewhere(_name: str, _value: str) -> list[str]:
    """A variable that is no option: the file is named apart, and no process list shows a token."""
    return []


_OPTIONS: Final[Mapping[str, Callable[[str, str], list[str]]]] = {
    "TXNSIM_ADVERTISED": _each("--advertised"),
    "TXNSIM_ADVERTISED_HOST": _option("--advertised-host"),
    "TXNSIM_AS_VERSION": _each("--as-version"),
    "TXNSIM_BROKERS": _option("--brokers"),
    "TXNSIM_CONFIG": _read_elsewhere,
    "TXNSIM_HOST": _option("--host"),
    "TXNSIM_HTTP_PORT": _http,
    "TXNSIM_KIP_TEXT": _switch("--kip-text"),
    "TXNSIM_PORT": _option("--port"),
    "TXNSIM_READY_FILE": _option("--ready-file"),
    "TXNSIM_TOKEN": _read_elsewhere,
    "TXNSIM_TOPICS": _topics,
    "TXNSIM_TRACE": _option("--trace"),
    "TXNSIM_TRANSACTION_VERSION": _option("--transaction-version"),
}
"""Every variable of ours, and the words that it comes to."""


def _unknown(name: str) -> str:
    similar = get_close_matches(name, _OPTIONS, n=1)
    hint = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(_OPTIONS)}"
    return f"{name}: no such variable; {hint}"


def _escaped(value: str) -> str:
    """A value as java.util.Properties reads it back."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if text.startswith((" ", "\t", "\f")):
        text = "\\" + text
    return "".join(character if ord(character) < 256 else _utf16(character) for character in text)


def _utf16(character: str) -> str:
    """Beyond Latin-1 a character is written by its UTF-16 units."""
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


if __name__ == "__main__":
    sys.exit(main())
