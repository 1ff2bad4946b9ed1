"""The same tests against a real Apache Kafka and against the simulator.

What was only tried on ourselves may be wrong on both sides. Every test that asks for ``target``
runs at each level of ``transaction.version`` on both, and on both as Kafka 3.9, which has no such
feature; ``pytest tests/real -m '' --target apache`` (or ``txnsim``) chooses, ``--level 2`` and
``--release 3.9`` too.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec
import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.releases import RELEASES, Fleet

SETTINGS = ClientSettings(retry_backoff_ms=5, retry_backoff_max_ms=100, api_timeout_ms=30_000)

APACHE_PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}


LASTING_MS: Final = 600_000
"""Timeout of a transaction that is open while programs are started, which may take minutes."""

NEWEST: Final = Fleet().default.name
"""The default release line of brokers."""
OLDER: Final = "3.9"
"""The release line that is tested besides the newest: the last of those that many clusters run."""


class ClusterUnderTest(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster under test."""

    kind: str
    """``apache`` or ``txnsim``."""
    level: int
    """Finalized level of ``transaction.version`` at start."""
    bootstrap: str
    release: str = NEWEST

    @property
    def is_older(self) -> bool:
        """Whether the cluster is of the older release line."""
        return self.release == OLDER

    @property
    def patch_release(self) -> str:
        """Version of the real Kafka whose tools belong to it."""
        return RELEASES[self.release].patch_release


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--target``, ``--level`` and ``--release``, which choose parameters."""
    group = parser.getgroup("txnsim")
    group.addoption("--target", choices=("apache", "txnsim"), help="only against this cluster")
    group.addoption("--level", type=int, choices=(0, 1, 2), help="only at this transaction.version")
    group.addoption(
        "--release",
        type={"newest": NEWEST, OLDER: OLDER}.__getitem__,
        metavar=f"{{newest,{OLDER}}}",
        help="only as this release line",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One parameter per kind of cluster and level, and one per kind as the older release."""
    if "target" not in metafunc.fixturenames:
        return
    kind = metafunc.config.getoption("--target", default=None)
    level = metafunc.config.getoption("--level", default=None)
    release = metafunc.config.getoption("--release", default=None)
    marks = {"apache": pytest.mark.real, "txnsim": pytest.mark.slow}
    levels_and_releases = [(n, NEWEST, f"tv{n}") for n in (0, 1, 2)] + [(0, OLDER, OLDER)]
    params = [
        pytest.param((k, n, r), id=f"{k}-{suffix}", marks=marks[k])
        for k, (n, r, suffix) in itertools.product(("apache", "txnsim"), levels_and_releases)
        if kind in (None, k) and level in (None, n) and release in (None, r)
    ]
    metafunc.parametrize("target", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """A running cluster. Tests share it, and each uses its own names."""
    kind, level, release = request.param
    if kind == "apache":
        with ApacheKafka(
            transaction_version=level,
            properties=APACHE_PROPERTIES,
            version=RELEASES[release].patch_release,
        ) as kafka:
            yield ClusterUnderTest(
                kind=kind, level=level, bootstrap=kafka.bootstrap, release=release
            )
    else:
        release_arguments = () if release == NEWEST else ("--as-version", release)
        with TxnsimServer(transaction_version=level, arguments=release_arguments) as server:
            yield ClusterUnderTest(
                kind=kind, level=level, bootstrap=server.bootstrap, release=release
            )


@pytest.fixture
async def cluster(target: ClusterUnderTest) -> AsyncIterator[Cluster]:
    """A fresh client of the target."""
    async with Cluster(target.bootstrap, settings=SETTINGS) as client:
        yield client


@pytest.fixture
async def admin(cluster: Cluster) -> Admin:
    """An admin client on the same cluster."""
    return Admin(cluster)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and transactional ids that no other test uses."""
    return str(request.node.name).replace("[", "-").replace("]", "").replace("_", "-")
