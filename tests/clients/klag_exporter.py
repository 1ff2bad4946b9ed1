"""klag-exporter, an exporter of lag in Rust: built by cargo on first use, and asked as Prometheus
asks it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from tests.support.apache_kafka import CACHE, free_ports, make_once, output_of
from tests.support.debian import unpack_packages
from tests.support.foreign_clients import ForeignClientError, toolchain

HEADER: Final = Path("usr", "include", "sasl", "sasl.h")
LIBRARIES: Final = Path("usr", "lib", "x86_64-linux-gnu")
LAG: Final = re.compile(r'kafka_consumergroup_group_lag\{.*?topic="([^"]+)".*?\} (\d+)')
CONFIG: Final = """
[exporter]
poll_interval = "1s"
http_port = {port}
http_host = "127.0.0.1"
granularity = "partition"
[exporter.timestamp_sampling]
enabled = false
[[clusters]]
name = "exam"
bootstrap_servers = "{bootstrap}"
[clusters.consumer_properties]
"isolation.level" = "read_committed"
"""
PAUSE_S: Final = 0.5


def klag_exporter(version: str) -> Path:
    """Path of the program; what Debian's libsasl2 brings is below ``.cache/``.

    Raises:
        DebianError: libsasl2 can't be had.
        ForeignClientError: It can't be built.
    """

    def build(new_folder: Path) -> None:
        cargo = toolchain("cargo", "Rust 1.95 with cargo")
        sasl_file = unpack_packages("libsasl2-dev", "libsasl2-2", has=HEADER)
        install = [cargo, "install", "klag-exporter", "--version", version, "--locked", "--debug"]
        # An installed libcurl is not asked for, nor an allocator that takes minutes.
        install += ["--no-default-features", "--features", "curl-static", "--root", str(new_folder)]
        sasl_paths = [
            f"SASL2_LIB_DIR={sasl_file / LIBRARIES}",
            f"SASL2_INCLUDE_DIR={sasl_file / 'usr/include'}",
        ]
        include = f"C_INCLUDE_PATH={sasl_file / 'usr/include'}"
        command = ["env", *sasl_paths, include, "SASL2_STATIC=0", *install]
        output_of(command, "cargo failed", ForeignClientError)

    folder = CACHE / "rust" / f"klag-exporter-{version}"
    make_once(folder, build, lock_file=CACHE / "rust" / "klag-exporter.lock")
    return folder / "bin" / "klag-exporter"


@asynccontextmanager
async def run_exporter(program_file: Path, bootstrap: str, folder: Path) -> AsyncIterator[str]:
    """The exporter, running; the address of its metrics."""
    (port,) = free_ports(1)
    config = folder / "klag.toml"
    config.write_text(CONFIG.format(port=port, bootstrap=bootstrap), "utf-8")
    sasl_file = unpack_packages("libsasl2-dev", "libsasl2-2", has=HEADER)
    process = await asyncio.create_subprocess_exec(
        program_file,
        "--config",
        config,
        env={**os.environ, "LD_LIBRARY_PATH": str(sasl_file / LIBRARIES)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        process.kill()
        await process.wait()


async def lags(address: str, *, topic_count: int) -> dict[str, int]:
    """The lag of each topic, once the exporter shows ``topics`` topics."""
    async with asyncio.timeout(60), httpx.AsyncClient() as client:
        while True:
            try:
                metrics_text = (await client.get(address)).text
            except httpx.TransportError:
                metrics_text = ""  # it does not listen yet
            by_topic = {topic: int(lag) for topic, lag in LAG.findall(metrics_text)}
            if len(by_topic) >= topic_count:
                return by_topic
            await asyncio.sleep(PAUSE_S)
