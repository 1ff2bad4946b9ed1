"""The clients written for Node.js. Their versions are those of ``tests/clients/node``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from tests.clients.matrix.client import CHECKS, Client
from tests.support.package_clients import node_manifest, node_program

_NO_KIP_664: Final = {"admin": "has no API for transactions of others (KIP-664)"}

_BROKERS_VERSION: Final = "sends AddPartitionsToTxn v5, which is for brokers among themselves: "
_AT_LEVEL_0: Final = (
    _BROKERS_VERSION + "a coordinator at transaction.version 0 answers UNSUPPORTED_VERSION"
)
_WITHOUT_CLUSTER_ACTION: Final = (
    _BROKERS_VERSION + "a user without CLUSTER_ACTION gets CLUSTER_AUTHORIZATION_FAILED "
    "(what it can do as a user: platformatic-sasl, platformatic-tls)"
)
_PLATFORMATIC_LIMITS: Final = {
    **_NO_KIP_664,
    **{
        f"{check}@0": _AT_LEVEL_0
        for check in ("commit", "abort", "read-committed", "fence", "timeout", "transform")
    },
    "rebalance": "after a rebalance its stream goes on from where it was and not from the group's "
    "positions, and tells the new generation with what was fetched for the old one: inputs of "
    "an aborted transaction are left out, others are doubled",
    "sasl": _WITHOUT_CLUSTER_ACTION,
    "tls": _WITHOUT_CLUSTER_ACTION,
}


def _client(
    package: str, limits: Mapping[str, str], further_checks: tuple[str, ...] = ()
) -> Client:
    return Client(
        name=package,
        version=_version(package),
        language="Node.js",
        command=_program(_library(package)),
        checks=(*(check for check in CHECKS if check not in limits), *further_checks),
        limits=limits,
    )


def _version(package: str) -> str:
    manifest = json.loads(node_manifest(_library(package)).read_text())
    return str(manifest["dependencies"][package])


def _library(package: str) -> str:
    """The name of its driver."""
    return package.removeprefix("@").partition("/")[0]


def _program(library_name: str) -> Callable[[], list[str]]:
    return lambda: node_program(library_name)


CLIENTS: Final = (
    _client("kafkajs", _NO_KIP_664),
    _client("@confluentinc/kafka-javascript", _NO_KIP_664),
    _client("@platformatic/kafka", _PLATFORMATIC_LIMITS, ("platformatic-sasl", "platformatic-tls")),
)
