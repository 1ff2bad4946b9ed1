"""The clients written for Python. Their versions are those of the project's group ``clients``."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from typing import Final

from tests.clients.matrix.client import CHECKS, NO_LIMITS, Client
from tests.support.apache_kafka import REPOSITORY
from tests.support.foreign_clients import ForeignClientError

NO_KIP_664: Final = {"admin": "has no API for transactions of others (KIP-664)"}


def _client(name: str, limits: Mapping[str, str] = NO_LIMITS) -> Client:
    library_name = name.replace("-", "_")
    return Client(
        name=name,
        version=_version(name),
        language="Python",
        command=lambda: [_python(), "-m", "tests.clients.python", library_name],
        checks=tuple(check for check in CHECKS if check not in limits),
        limits=limits,
    )


def _version(name: str) -> str:
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    pins = [pin.partition("==") for pin in groups["clients"]]
    (version,) = [version for package, _, version in pins if package.partition("[")[0] == name]
    return str(version)


def _python() -> str:
    own_python_program = REPOSITORY / ".venv" / "bin" / "python"
    if own_python_program.exists():
        return str(own_python_program)
    if sys.prefix == sys.base_prefix:
        raise ForeignClientError("no .venv: make it with `make test`")
    return sys.executable


CLIENTS: Final = (
    _client("aiokafka", NO_KIP_664),
    _client("confluent-kafka", NO_KIP_664),
    _client("kafka-python"),
)
