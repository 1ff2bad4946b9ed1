"""Finds the class of an API and version, and tells which field names exist in any version.

Importing a schema takes one to four milliseconds, all of them a quarter of a second; so each is
imported when it is first needed.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Any, Final, Literal

from kio.schema.index import schema_name_map

from txnsim.errors import UnsupportedRequestError
from txnsim.wire.apis import APIS

OWN_MODULES: Final = {
    (18, 5): "txnsim.wire.messages._api_versions_v5",
    (27, 0): "txnsim.wire.messages._write_txn_markers_v0",
    (28, 6): "txnsim.wire.messages._txn_offset_commit_v6",
    (42, 3): "txnsim.wire.messages._delete_groups_v3",
    (47, 1): "txnsim.wire.messages._offset_delete_v1",
    (65, 1): "txnsim.wire.messages._describe_transactions_v1",
    (71, 1): "txnsim.wire.messages._get_telemetry_subscriptions_v1",
    (72, 1): "txnsim.wire.messages._push_telemetry_v1",
    (88, 1): "txnsim.wire.messages._streams_group_heartbeat_v1",
    (89, 1): "txnsim.wire.messages._streams_group_describe_v1",
    (93, 0): "txnsim.wire.messages._streams_group_topology_description_update_v0",
}
"""(API key, version) -> name of our module, for messages that kio does not have."""


@cache  # called for every answer; an unknown class raises and is not cached
def load_schema(
    api_key: int, api_version: int, *, part: Literal["request", "response"]
) -> ModuleType:
    """Import the module with the classes of a request or response.

    Raises:
        UnsupportedRequestError: There is no such API key or version.
    """
    if api_key not in APIS:
        raise UnsupportedRequestError(f"API key {api_key} is unknown")
    own_module = OWN_MODULES.get((api_key, api_version))
    if own_module is not None:
        return importlib.import_module(own_module)
    api_name = APIS[api_key][0]
    package_name = kio_package_of(api_name)
    if api_version not in schema_name_map.get(package_name, ()):
        raise UnsupportedRequestError(f"{api_name} has no version {api_version}")
    return importlib.import_module(f"kio.schema.{package_name}.v{api_version}.{part}")


def versions(api_key: int) -> tuple[int, ...]:
    """The versions of an API for which there are schemas, ascending."""
    version_numbers = set(schema_name_map.get(kio_package_of(APIS[api_key][0]), ()))
    version_numbers.update(version for key, version in OWN_MODULES if key == api_key)
    return tuple(sorted(version_numbers))


@cache
def version_range(api_key: int) -> tuple[int, int]:
    """The lowest and the highest version of an API for which there are schemas.

    Handlers and our client rely on it: nothing else says which versions they support (Kafka's
    ``validVersions``). A broker answers those that its release has.
    """
    known_versions = versions(api_key)
    return known_versions[0], known_versions[-1]


def kio_package_of(api_name: str) -> str:
    """Name of kio's package for an API: ``EndTxn`` -> ``end_txn``."""
    return "".join(
        "_" + character.lower() if character.isupper() else character for character in api_name
    ).removeprefix("_")


_known_fields: dict[Any, set[str]] = {}


def check_known(cls: Any, field_values: dict[str, object]) -> None:
    """Checks that names for which a message class has no field exist in another version of it.

    Raises:
        TypeError: A name exists in no version: it is misspelt.
    """
    known_names = _known_fields.setdefault(cls, set())
    for field_name in field_values:
        if field_name not in known_names:
            if not _some_version_has_field(cls, field_name):
                raise TypeError(f"no version of {cls.__name__} has a field {field_name!r}")
            known_names.add(field_name)


def _some_version_has_field(cls: Any, field_name: str) -> bool:
    part: Literal["request", "response"] = (
        "request" if cls.__header_schema__.__name__ == "RequestHeader" else "response"
    )
    api_key = cls.__api_key__
    lowest, *higher_versions = versions(api_key)
    # Each is an import. A field that a version lacks mostly came later, and is in the newest one,
    # or went away, and is in the first.
    return any(
        field_name in getattr(sibling, "__dataclass_fields__", ())
        for version in (*higher_versions[-1:], lowest, *reversed(higher_versions[:-1]))
        if (sibling := getattr(load_schema(api_key, version, part=part), cls.__name__, None))
    )
