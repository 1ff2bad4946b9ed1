"""Stories on a real Apache Kafka behind a fault proxy: what the simulator says of them must be what
the real brokers come to. Every story on every release: ``make stage``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, default_int_handler, signal

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_listeners import plain_users
from txnsim.cli.main import INTERRUPTED_STATUS, main
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.txn_admin import TransactionAdmin

pytestmark = pytest.mark.real

VERSION = "4.3.1"


@pytest.mark.parametrize(
    ("stories", "mode", "hangs"),
    [
        (("z01", "z04", "z05-sequel", "z24"), "V-", 3),
        (("commit-without-a-leader",), "V+/4.3", 1),
    ],
)
def test_the_simulator_and_real_brokers_come_to_the_same(
    stories: tuple[str, ...], mode: str, hangs: int, capfd: pytest.CaptureFixture[str]
) -> None:
    args = ("--on", f"apache-{VERSION}", "--mode", mode, "--json")
    status = main(["scenario", "run", *stories, *args])
    out, err = capfd.readouterr()
    cells = json.loads(out)
    assert [(cell["scenario"], cell["why_not"]) for cell in cells if cell["why_not"]] == []
    assert status == 0, err
    assert (
        sum("stuck-last-stable-offset" in c["real"]["verdict"]["observed"] for c in cells) == hangs
    )
    assert [line for cell in cells for line in cell["left"]] == []


@pytest.fixture(scope="module")
def with_sasl() -> Iterator[ApacheKafka]:
    """A broker whose users log in; its plain listener is for those who look."""
    with ApacheKafka(listeners=plain_users({"narrator": "narrators-secret"})) as kafka:
        yield kafka


@pytest.fixture
def place(with_sasl: ApacheKafka, tmp_path: Path) -> tuple[str, ...]:
    """Options of a story on that broker."""
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="narrator" password="narrators-secret";\n'
    )
    there = ("--on", with_sasl.bootstrap_at("SASL"), "--yes", "--command-config", str(config))
    return ("--mode", "TV2+", "--armed", *there)


def test_a_story_on_a_cluster_that_is_there_with_sasl(
    with_sasl: ApacheKafka, place: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "run", "z24", *place, "--json"]) == 0
    (cell,) = json.loads(capfd.readouterr().out)
    assert (cell["real"]["verdict"]["observed"], cell["left"]) == (["duplicate"], [])
    assert left_behind(with_sasl, "txnsim-") == []


def test_ctrl_c_with_sasl_ends_what_is_open(with_sasl: ApacheKafka, place: tuple[str, ...]) -> None:
    words = ["scenario", "run", "z23", *place, "--quiet"]
    was = signal(SIGINT, default_int_handler)  # a shell in the background hands on that it ignores
    try:
        story = subprocess.Popen(
            [sys.executable, "-m", "txnsim", *words], stderr=subprocess.PIPE, text=True
        )
    finally:
        signal(SIGINT, was)
    assert story.stderr is not None
    prefix = story.stderr.readline().split()[-1]
    asyncio.run(until_ongoing(with_sasl, f"{prefix}app"))
    story.send_signal(SIGINT)
    _, err = story.communicate(timeout=60)
    assert story.returncode == INTERRUPTED_STATUS, err
    assert "could not be cleaned" not in err
    assert left_behind(with_sasl, prefix) == []


def left_behind(kafka: ApacheKafka, prefix: str) -> list[str]:
    """Topics of a story."""

    async def ask() -> list[str]:
        async with Cluster(kafka.bootstrap) as cluster:
            names = [topic.name for topic in await Admin(cluster).describe_topics(None)]
        return [name for name in names if name.startswith(prefix)]

    return asyncio.run(ask())


async def until_ongoing(kafka: ApacheKafka, transactional_id: str) -> None:
    """Wait for its transaction."""
    async with Cluster(kafka.bootstrap) as cluster, asyncio.timeout(60):
        admin = TransactionAdmin(cluster)
        while True:
            found = (await admin.describe_transactions((transactional_id,)))[transactional_id]
            if not isinstance(found, Exception) and found.state == "Ongoing":
                return
            await asyncio.sleep(0.05)
