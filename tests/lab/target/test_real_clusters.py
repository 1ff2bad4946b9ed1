"""Clusters for stories, with a program in place of ``java``, and with a simulated one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.clusters import options
from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.runtime.real_world import real_environment
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim_lab.target.apache import ApacheOptions
from txnsim_lab.target.real_clusters import apache_cluster, running_cluster

JAVA = """#!/bin/sh
case "$*" in *kafka.Kafka*) echo "bad setting"; exit 3;; esac
"""


async def test_a_broker_that_does_not_come_up_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "java").write_text(JAVA)
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    apache_options = ApacheOptions(
        version="4.3.1", libs=tmp_path, brokers=1, transaction_version=2, properties={}
    )
    environment = real_environment()
    try:
        with pytest.raises(ConfigError, match=r"4\.3\.1: .* exited with 3:\nbad setting"):
            async with asyncio.timeout(60), apache_cluster(environment, apache_options):
                pass
    finally:
        await environment.tasks.close()


def test_a_cluster_that_is_there_gets_a_proxy_without_listeners_between_brokers() -> None:
    async def main(env: VirtualEnvironment) -> None:
        sim = SimCluster(env, options(brokers=2))
        await sim.start()
        settings = ClientSettings(client_id="me")
        async with running_cluster(env, sim.bootstrap, settings) as cluster:
            assert len(list(cluster.proxy.clients)) == 2
            assert list(cluster.proxy.peers) == []
            assert cluster.brokers is None
        await sim.stop()

    run_virtual(main, seed=1)
