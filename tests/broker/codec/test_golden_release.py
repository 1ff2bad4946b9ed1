"""Release data against what the classes of the reference say (``golden/release.json``)."""

from __future__ import annotations

import json

from tests.broker.codec.golden.record import HERE
from txnsim.api.registry import shipped
from txnsim.releases import REFERENCE
from txnsim.wire import registry

GOLDEN = json.loads((HERE / "release.json").read_text())

CLIENT_METRICS = {"71", "72"}
"""Listed by a broker only with a metrics reporter that takes client metrics."""


def test_api_versions_are_those_of_a_broker() -> None:
    ours = {str(key): list(versions) for key, versions in REFERENCE.api_versions.items()}
    broker = {key: value for key, value in GOLDEN["broker"].items() if key not in CLIENT_METRICS}
    assert ours == broker
    assert list(ours) == list(broker)


def test_versions_between_the_advertised_and_the_oldest_real_one_are_refused() -> None:
    for key, (lowest, highest) in REFERENCE.api_versions.items():
        oldest = GOLDEN["oldest"][str(key)]
        accepted = [v for v in range(lowest - 1, highest + 2) if REFERENCE.accepts(key, v)]
        assert accepted == list(range(oldest, highest + 1))


def test_controller_versions_are_those_of_a_controller() -> None:
    for key, versions in REFERENCE.controller_api_versions.items():
        assert list(versions) == GOLDEN["controller"][str(key)]


def test_features_are_those_of_the_release() -> None:
    assert GOLDEN["features"] == {
        name: [feature.min_level, feature.max_level, feature.new_cluster_level]
        for name, feature in REFERENCE.features.items()
    }


def test_every_accepted_version_has_a_schema() -> None:
    for key, (lowest, highest) in shipped(REFERENCE).accepted.items():
        assert set(range(lowest, highest + 1)) <= set(registry.versions(key))
