"""The clients written for Rust. Their versions are those of ``tests/clients/rust``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Final

from tests.clients.matrix.client import CHECKS, Client
from tests.support.package_clients import RUST_SOURCES, rust_program

_AT_LEVEL_0: Final = (
    "sends AddPartitionsToTxn v5, which is for brokers among themselves: a coordinator at "
    "transaction.version 0 answers UNSUPPORTED_VERSION"
)
_KRAFKA_LIMITS: Final = {
    f"{check}@0": _AT_LEVEL_0
    for check in ("commit", "abort", "read-committed", "fence", "timeout", "transform", "rebalance")
}


def _client(crate: str, limits: Mapping[str, str], further_checks: tuple[str, ...] = ()) -> Client:
    return Client(
        name=crate,
        version=_version(crate),
        language="Rust",
        command=_program(crate),
        checks=(*(check for check in CHECKS if check not in limits), *further_checks),
        limits=limits,
    )


def _version(crate: str) -> str:
    manifest = tomllib.loads((RUST_SOURCES / crate / "Cargo.toml").read_text())
    return str(manifest["dependencies"][crate]["version"]).removeprefix("=")


def _program(crate: str) -> Callable[[], list[str]]:
    return lambda: rust_program(crate)


CLIENTS: Final = (
    _client("krafka", _KRAFKA_LIMITS, ("krafka-kip848-transform",)),
    _client(
        "rdkafka", {"admin": "librdkafka's admin client has no call that is about transactions"}
    ),
)
