"""Real clusters, each behind a fault proxy: brokers that are started for a target, or running
ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from txnsim.client.backoff import pause
from txnsim.client.connection import ClientSettings
from txnsim.errors import ConfigError
from txnsim.runtime.environment import Environment
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions
from txnsim_lab.target.apache import ApacheBrokers, ApacheOptions
from txnsim_lab.target.log_care import CLEANER_PAUSE_MS

SHORT_SETTINGS: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": str(CLEANER_PAUSE_MS),
    "group.share.min.record.lock.duration.ms": "1000",
}
"""Settings by which real brokers check timeouts more often, and allow short locks of share groups.
Releases that do not know a setting ignore it.
"""
START_LIMIT_MS: Final = 120_000
POLL_MS: Final = 100


class RealCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Real brokers, and the proxy in front of them."""

    proxy: FaultProxy
    brokers: ApacheBrokers | None = None
    """The processes of the brokers, if they are ours."""


@contextlib.asynccontextmanager
async def apache_cluster(
    environment: Environment, options: ApacheOptions
) -> AsyncIterator[RealCluster]:
    """Starts brokers and their proxy, and stops them afterwards.

    Raises:
        ConfigError: A broker did not start; the message has the end of its log.
        ClientError: A broker does not answer.
    """
    brokers = ApacheBrokers(options)
    proxy = FaultProxy(
        environment,
        ProxyOptions(
            bootstrap=brokers.bootstrap,
            port=0,
            peers=brokers.peers,
            peer_port=0,
            wait_ms=START_LIMIT_MS,
        ),
    )
    try:
        # Brokers advertise the listeners of the proxy, so these are there before the brokers.
        await proxy.peers.learn(brokers.peers)
        await brokers.start({listener.node_id: listener.port for listener in proxy.peers})
        proxy_start_task = environment.tasks.spawn(
            proxy.start(), name="the proxy in front of brokers"
        )
        while not proxy_start_task.done():
            if exit_report := brokers.exit_report():
                proxy_start_task.cancel()
                raise ConfigError(f"Apache Kafka {options.version}: {exit_report}")
            await asyncio.wait([proxy_start_task], timeout=POLL_MS / 1000)
        proxy_start_task.result()
        while len(list(proxy.clients)) < options.brokers:
            if exit_report := brokers.exit_report():
                raise ConfigError(f"Apache Kafka {options.version}: {exit_report}")
            await pause(environment.clock, POLL_MS)
            await proxy.look_up_brokers()
        yield RealCluster(proxy=proxy, brokers=brokers)
    finally:
        await proxy.stop()
        await brokers.stop()


@contextlib.asynccontextmanager
async def running_cluster(
    environment: Environment, bootstrap: str, settings: ClientSettings
) -> AsyncIterator[RealCluster]:
    """Put a proxy in front of a running cluster.

    Raises:
        ClientError: No broker answers, or one refuses the login.
        ConfigError: An address is wrong.
    """
    proxy = FaultProxy(environment, ProxyOptions(bootstrap=bootstrap, port=0, settings=settings))
    await proxy.start()
    try:
        yield RealCluster(proxy=proxy)
    finally:
        await proxy.stop()
