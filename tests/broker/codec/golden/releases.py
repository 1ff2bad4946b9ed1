"""Records what each Kafka release speaks: `python -m tests.broker.codec.golden.releases`.

The message specifications lie as JSON in the jar of every ``kafka-clients``, so no Java runs; Maven
fetches the jars. The result, ``releases.json``, is committed and held against
``sim/txnsim/releases``: of each line what differs from the one before, null for what is gone.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.support.apache_kafka import CACHE, ApacheKafkaError, hold_lock, output_of, tool
from txnsim.releases import RELEASES

HERE: Final = Path(__file__).resolve().parent
RECORDED: Final = HERE / "releases.json"

PATCH_RELEASES: Final = {
    release.name: release.patch_release for release in RELEASES.values() if release.is_released
}
"""Release line -> its newest patch release, which is the one that is emulated."""

_ZOOKEEPER_LINES: Final = frozenset({"2.8"})
"""Lines whose transactions need ZooKeeper: KRaft brokers know them from 3.0 on."""
_SPEC: Final = re.compile(r"common/message/\w+Request\.json")
_COMMENT: Final = re.compile(r"^\s*//.*$|(?<=[,{\[\]}])\s+//.*$", re.MULTILINE)

_WHO: Final = ("broker", "controller")

ApiVersions = dict[str, list[int]]


def clients_jar(version: str) -> Path:
    """The jar of ``kafka-clients``, copied by Maven on first use.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    jar_file = CACHE / "kafka" / "clients" / f"kafka-clients-{version}.jar"
    with hold_lock(CACHE / "kafka" / "clients.lock"):
        if not jar_file.exists():
            maven = tool("mvn", "Apache Kafka's jars are fetched with Maven")
            command = [
                *(maven, "-q", "-B", "dependency:copy"),
                f"-Dartifact=org.apache.kafka:kafka-clients:{version}",
                f"-DoutputDirectory={jar_file.parent}",
            ]
            output = output_of(command, f"kafka-clients {version}")
            if not jar_file.exists():
                raise ApacheKafkaError(f"kafka-clients {version}:\n{output}")
    return jar_file


def record(line: str) -> dict[str, Any]:
    """What the brokers and controllers of a release line speak, by API key."""
    version = PATCH_RELEASES[line]
    broker_listener = "zkBroker" if line in _ZOOKEEPER_LINES else "broker"
    broker: dict[int, list[int]] = {}
    controller: dict[int, list[int]] = {}
    with zipfile.ZipFile(clients_jar(version)) as jar_archive:
        for name in jar_archive.namelist():
            if _SPEC.fullmatch(name) is None:
                continue
            spec = _read(jar_archive.read(name).decode())
            versions = _versions(spec)
            if versions is None:
                continue
            listeners = spec.get("listeners", [])
            if broker_listener in listeners:
                broker[spec["apiKey"]] = versions
            if "controller" in listeners:
                controller[spec["apiKey"]] = versions
    return {"version": version, "broker": _by_key(broker), "controller": _by_key(controller)}


def record_all() -> dict[str, Any]:
    """The versions that brokers and controllers of each release line speak."""
    return {line: record(line) for line in PATCH_RELEASES}


def as_differences(versions_by_line: Mapping[str, Any]) -> dict[str, Any]:
    """Return, for each release line, what differs from the line before it."""
    lines: dict[str, Any] = {}
    last_versions: dict[str, ApiVersions] = {api_side: {} for api_side in _WHO}
    for line, recorded_versions in versions_by_line.items():
        lines[line] = {"version": recorded_versions["version"]}
        for api_side in _WHO:
            removed_apis = dict.fromkeys(
                last_versions[api_side].keys() - recorded_versions[api_side].keys()
            )
            changed_apis = {
                key: versions
                for key, versions in recorded_versions[api_side].items()
                if last_versions[api_side].get(key) != versions
            }
            lines[line][api_side] = {
                key: (changed_apis | removed_apis)[key]
                for key in sorted(changed_apis | removed_apis, key=int)
            }
            last_versions[api_side] = recorded_versions[api_side]
    return lines


def read() -> dict[str, Any]:
    """The recorded versions of every release line, with the differences merged."""
    lines: dict[str, Any] = {}
    last_versions: dict[str, ApiVersions] = {api_side: {} for api_side in _WHO}
    for line, recorded_versions in json.loads(RECORDED.read_text()).items():
        for api_side in _WHO:
            merged_versions = {**last_versions[api_side], **recorded_versions[api_side]}
            last_versions[api_side] = {
                key: [*merged_versions[key]]
                for key in sorted(merged_versions, key=int)
                if merged_versions[key]
            }
        lines[line] = {"version": recorded_versions["version"], **last_versions}
    return lines


def _read(text: str) -> dict[str, Any]:
    # 2.8's DescribeProducersRequest.json closes one bracket too many, which Jackson overlooks.
    spec, _ = json.JSONDecoder().raw_decode(_COMMENT.sub("", text).lstrip())
    assert isinstance(spec, dict)
    return spec


def _versions(spec: dict[str, Any]) -> list[int] | None:
    """Lowest and highest stable version (ApiKeys.toApiVersion); None where there is none."""
    if spec["validVersions"] == "none":
        return None
    lowest, _, highest = spec["validVersions"].partition("-")
    version_range = [int(lowest), int(highest or lowest)]
    if spec.get("latestVersionUnstable", False):
        version_range[1] -= 1
    return version_range if version_range[0] <= version_range[1] else None


def _by_key(ranges_by_key: dict[int, list[int]]) -> ApiVersions:
    return {str(range_key): ranges_by_key[range_key] for range_key in sorted(ranges_by_key)}


def as_text(recorded: dict[str, Any]) -> str:
    """The text of the file; each API has its version range on one line."""
    lines = json.dumps(recorded, indent=2)
    return re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", lines) + "\n"


def main() -> int:
    """Write the recorded file anew."""
    RECORDED.write_text(as_text(as_differences(record_all())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
