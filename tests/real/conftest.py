"""The same tests against a real Apache Kafka and against the simulator.

What was only tried on ourselves may be wrong on both sides. Every test that asks for ``target``
runs at each level of ``transaction.version`` on both; ``pytest tests/real -m '' --target apache``
(or ``txnsim``) chooses, ``--level 2`` too.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from sim.client.admin import Admin
from sim.client.cluster import Cluster
from sim.client.connection import ClientSettings
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

SETTINGS = ClientSettings(retry_backoff_ms=5, retry_backoff_max_ms=100, api_timeout_ms=30_000)

APACHE_PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster under test."""

    kind: str
    """``apache`` or ``txnsim``."""
    level: int
    """Finalized level of ``transaction.version`` at start."""
    bootstrap: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--target`` and ``--level`` choose among the parameters."""
    group = parser.getgroup("txnsim")
    group.addoption("--target", choices=("apache", "txnsim"), help="only against this cluster")
    group.addoption("--level", type=int, choices=(0, 1, 2), help="only at this transaction.version")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One parameter per kind of cluster and level."""
    if "target" not in metafunc.fixturenames:
        return
    kind = metafunc.config.getoption("--target", default=None)
    level = metafunc.config.getoption("--level", default=None)
    marks = {"apache": pytest.mark.real, "txnsim": pytest.mark.slow}
    params = [
        pytest.param((k, n), id=f"{k}-tv{n}", marks=marks[k])
        for k, n in itertools.product(("apache", "txnsim"), (0, 1, 2))
        if kind in (None, k) and level in (None, n)
    ]
    metafunc.parametrize("target", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A running cluster; tests share it and take names of their own."""
    kind, level = request.param
    if kind == "apache":
        with ApacheKafka(transaction_version=level, properties=APACHE_PROPERTIES) as kafka:
            yield Target(kind=kind, level=level, bootstrap=kafka.bootstrap)
    else:
        with TxnsimServer(transaction_version=level) as server:
            yield Target(kind=kind, level=level, bootstrap=server.bootstrap)


@pytest.fixture
async def cluster(target: Target) -> AsyncIterator[Cluster]:
    """A fresh client of the target."""
    async with Cluster(target.bootstrap, settings=SETTINGS) as client:
        yield client


@pytest.fixture
async def admin(cluster: Cluster) -> Admin:
    """An admin over the same client."""
    return Admin(cluster)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and transactional ids that no other test uses."""
    return str(request.node.name).replace("[", "-").replace("]", "").replace("_", "-")
