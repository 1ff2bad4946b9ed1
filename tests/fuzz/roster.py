"""Every target, by name; made when asked for, as each imports what it fuzzes."""

from __future__ import annotations

import importlib
from typing import Final

from tests.fuzz.target import Target

TARGETS: Final[dict[str, tuple[str, str]]] = {
    "framing": ("frames", "the byte stream of a connection, cut anywhere"),
    "requests": ("frames", "headers and bodies of every API and version"),
    "apis": ("connections", "requests through a connection; a neighbour's transactions beside it"),
    "administration": ("connections", "requests that change the cluster, through a connection"),
    "batches": ("batches", "record batches: headers, records, validation, append"),
    "compression": ("batches", "compressed records of all codecs"),
    "sasl": ("logins", "SASL exchanges in Kafka's frames and raw"),
    "bearer-tokens": ("logins", "tokens of OAUTHBEARER"),
    "tls": ("tls", "TLS handshakes that stop or go wrong"),
    "segments": ("disks", "segments, indexes, snapshots and checkpoints of a replica"),
    "indexes": ("disks", "each of the small files of a log directory"),
    "metadata-log": ("disks", "the metadata log of `serve --load`"),
    "coordinator-logs": ("disks", "records of the internal topics"),
    "groups": ("groups", "members of a group of the consumer protocol, in any order"),
    "classic-groups": ("groups", "members of a classic group, in any order"),
    "share-groups": ("shares", "members of a share group, in any order, and topics that change"),
    "share-partitions": ("shares", "records that members of a share group acquire and acknowledge"),
    "share-states": ("shares", "requests to the share coordinator, and the log that they make"),
    "share-logs": ("shares", "records of __share_group_state"),
    "streams-groups": ("streams", "members of a streams group, in any order"),
    "topologies": ("streams", "topologies held against topics"),
    "scenarios": ("files", "scenario files"),
    "configs": ("files", "configuration files, YAML and properties"),
    "histories": ("files", "histories, read and judged"),
    "fault-rules": ("files", "fault rules and plans"),
    "http": ("http", "the control port's application, without a socket"),
}
"""Name -> (module in ``targets``, what is fuzzed)."""


def load(name: str) -> Target:
    """Return the fuzz target of this name."""
    module = importlib.import_module(f"tests.fuzz.targets.{TARGETS[name][0]}")
    targets: dict[str, Target] = module.TARGETS
    return targets[name]
