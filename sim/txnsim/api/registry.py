"""The handler of each API, and the advertised versions.

Adding an API: write its module in one of the folders below (see ``api.request.Handler``), add its
test. ApiVersions lists computed ranges: our handlers' versions within the ranges of the emulated
release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from txnsim.api import configs, groups, identities, nodes, partitions, records, transactions
from txnsim.api.configs import list_config_resources
from txnsim.api.nodes import get_telemetry_subscriptions, push_telemetry
from txnsim.api.request import ApiTable, Handler, no_subject
from txnsim.metadata.image import CLIENT_LISTENER
from txnsim.releases import RELEASE_4_3, RELEASES, Release
from txnsim.wire.apis import api_name

_FOLDERS: Final = (configs, groups, identities, nodes, partitions, records, transactions)
"""Each of their modules that has a ``KEY`` is the handler of that API."""


def _handlers() -> Iterator[Handler]:
    for folder in _FOLDERS:
        for found in iter_modules(folder.__path__, f"{folder.__name__}."):
            module = import_module(found.name)
            if hasattr(module, "KEY"):
                yield Handler(
                    key=module.KEY,
                    name=api_name(module.KEY),
                    versions=module.VERSIONS,
                    handle=module.handle,
                    refuse=module.refuse,
                    subject=getattr(module, "subject", no_subject),
                    check=getattr(module, "check", None),
                )


HANDLERS: Final[Mapping[int, Handler]] = {
    handler.key: handler for handler in sorted(_handlers(), key=lambda handler: handler.key)
}


TELEMETRY: Final = (get_telemetry_subscriptions.KEY, push_telemetry.KEY)
"""API keys that a release has, but lists only where the broker takes client metrics."""


def _accepted(release: Release, *, unstable: bool, telemetry: bool) -> dict[int, tuple[int, int]]:
    """Versions that both the release and our handler of an API know, unstable ones and those of
    client metrics only if asked for.

    The lowest are ours in every release: no client needs versions that Kafka 4.0 has removed
    (KIP-896), and Kafka 3.x had them all.
    """
    ranges = {}
    if telemetry and list_config_resources.KEY in release.api_versions:
        # All of KIP-714 came with the same release.
        ranges.update({key: HANDLERS[key].versions for key in TELEMETRY})
    for key, handler in HANDLERS.items():
        if key not in release.api_versions:
            continue
        lowest = RELEASE_4_3.api_versions.get(key, release.api_versions[key])[0]
        low = max(lowest, RELEASE_4_3.refused_below.get(key, lowest), handler.versions[0])
        highest = release.api_versions[key][1]
        if unstable:
            highest = release.unstable.get(key, highest)
        high = min(highest, handler.versions[1])
        if low <= high:
            ranges[key] = (low, high)
    return ranges


def _advertised(accepted: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """As ApiVersions lists them; lower than accepted only for Produce (KAFKA-18659)."""
    return {
        key: (RELEASE_4_3.api_versions[key][0] if key in RELEASE_4_3.refused_below else low, high)
        for key, (low, high) in accepted.items()
    }


def _table(release: Release, *, unstable: bool, telemetry: bool) -> ApiTable:
    accepted = _accepted(release, unstable=unstable, telemetry=telemetry)
    return ApiTable(
        listener=CLIENT_LISTENER,
        handlers={key: HANDLERS[key] for key in accepted},
        accepted=accepted,
        advertised=_advertised(accepted),
    )


_TABLES: Final = {
    (name, unstable, telemetry): _table(release, unstable=unstable, telemetry=telemetry)
    for name, release in RELEASES.items()
    for unstable in (False, True)
    for telemetry in (False, True)
}


def shipped(release: Release, *, unstable: bool = False, telemetry: bool = False) -> ApiTable:
    """What the ordinary listener of a broker of this release speaks.

    Args:
        release: The broker's.
        unstable: With the versions that are not stable yet (``unstable.api.versions.enable``).
        telemetry: With those of client metrics: the broker takes them.
    """
    return _TABLES[release.name, unstable, telemetry]


SHIPPED: Final = shipped(RELEASE_4_3)
"""What a broker's ordinary listener speaks: what Apache Kafka ships."""
ACCEPTED: Final = SHIPPED.accepted
ADVERTISED: Final = SHIPPED.advertised
