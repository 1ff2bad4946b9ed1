"""Stories on a real Apache Kafka behind a fault proxy: the simulator's verdict must be that of the
real brokers. Every story on every release: ``make stage``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from typing import Final

import pytest

from tests.support.apache_kafka import ApacheKafka, ToolResult, run_kafka_tool
from tests.support.apache_listeners import logins
from tests.support.broker_api import KEYS
from tests.support.denials import GUEST, creation
from tests.support.patience import until
from tests.support.rights import ANY_ACL
from tests.support.security import acl
from txnsim.cli.main import INTERRUPTED_STATUS, main
from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.raw.connection import RawConnection
from txnsim.errors import ErrorCode
from txnsim.security.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from txnsim.server.security_demo import Authority
from txnsim_lab.cli._referee import DIFFERENT_STATUS

pytestmark = pytest.mark.real

VERSION = "4.3.1"


def test_the_referee_tells_what_a_real_release_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka 4.3 loses the marker of KAFKA-20734, which 4.2 sends again; the real one does, too."""
    what = ["--explore", "none", "--stories", "z27", "--seeds", "none", "--jobs", "1"]
    status = main(["referee", "4.3", "4.2", *what, "--real", f"apache-{VERSION}", "--json"])
    assert status == DIFFERENT_STATUS
    anomalies = json.loads(capsys.readouterr().out)["anomalies"]
    (hang,) = [line for line in anomalies if line["kind"] == "stuck-last-stable-offset"]
    assert [answer["has_it"] for answer in hang["real"]] == [True] * len(hang["real"])
    assert hang["real"]


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
    output, error_output = capfd.readouterr()
    cells = json.loads(output)
    assert [(cell["scenario"], cell["why_not"]) for cell in cells if cell["why_not"]] == []
    assert status == 0, error_output
    assert (
        sum("stuck-last-stable-offset" in c["real"]["verdict"]["observed"] for c in cells) == hangs
    )
    assert [line for cell in cells for line in cell["left"]] == []


WAYS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES: Final = "org.apache.kafka.common.security."
PASSWORDS: Final = {"admin": "admin-secret", GUEST: "guests-secret"}
UPGRADE, DOWNGRADE = 1, 2
STORYS: Final = "txnsim-"
"""The prefix of a story's names."""
RIGHTS_OF_GUEST: Final = (
    (ResourceType.TOPIC, STORYS, (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE)),
    (ResourceType.TRANSACTIONAL_ID, STORYS, (AclOperation.WRITE,)),
    (ResourceType.GROUP, STORYS, (AclOperation.READ,)),
    (ResourceType.TOPIC, "__", (AclOperation.READ,)),
)
"""Rights that suffice to play a story, and not to clean up after it."""
TOOLS: Final = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


class SecuredKafka:
    """A real broker at which users log in by every mechanism, with and without TLS. Tests look at
    it through its plain listener.
    """

    def __init__(self, kafka: ApacheKafka, directory: Path) -> None:
        self.kafka = kafka
        self.directory = directory

    def config(self, way: str, *, with_tls: bool = False, user_name: str = "admin") -> Path:
        """Client properties."""
        kind = "plain.Plain" if way == "PLAIN" else "scram.Scram"
        path = self.directory / f"{user_name}-{way}-{with_tls}.properties"
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={self.directory / 'ca.pem'}\n"
        path.write_text(
            f"security.protocol={'SASL_SSL' if with_tls else 'SASL_PLAINTEXT'}\n"
            f"sasl.mechanism={way}\n"
            f"{trust if with_tls else ''}sasl.jaas.config={MODULES}{kind}LoginModule required "
            f'username="{user_name}" password="{PASSWORDS[user_name]}";\n'
        )
        return path

    def story_options(
        self, way: str, *, with_tls: bool = False, user_name: str = "admin"
    ) -> tuple[str, ...]:
        """Options of a story on this broker."""
        bootstrap = self.kafka.bootstrap_at("SASL_SSL" if with_tls else "SASL")
        config = self.config(way, with_tls=with_tls, user_name=user_name)
        return ("--on", bootstrap, "--yes", "--command-config", str(config))

    def allow(self, *acls: AclBinding) -> None:
        """Add these ACLs."""
        with RawConnection(self.kafka.bootstrap) as admin_connection:
            creations = [creation(binding) for binding in acls]
            count_before = self._acls(admin_connection)
            answer = admin_connection.ask(KEYS["CreateAcls"], 3, creations=creations)
            assert {result.error_code for result in answer.results} == {ErrorCode.none}
            until(
                lambda: self._acls(admin_connection),
                lambda count: count == count_before + len(acls),
                "the ACLs are in force",
            )

    @staticmethod
    def _acls(admin_connection: RawConnection) -> int:
        return sum(
            len(resource.acls)
            for resource in admin_connection.ask(KEYS["DescribeAcls"], 3, **ANY_ACL).resources
        )

    def do(self, command: str, *, with_tls: bool = False) -> ToolResult:
        """Run a printed command as a user with all rights, and return its result."""
        script, *arguments = command.split()
        config = str(self.config("SCRAM-SHA-512", with_tls=with_tls))
        return run_kafka_tool(
            TOOLS[script],
            *(config if argument == "admin.properties" else argument for argument in arguments),
        )


@pytest.fixture(scope="module")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """The broker, with a guest who may play stories and may not clean up."""
    directory = tmp_path_factory.mktemp("secured")
    stamp_file = directory / "stamp"
    stamp_file.touch()  # its time is the present
    authority = Authority(directory, now_ms=stamp_file.stat().st_mtime_ns // 1_000_000)
    authority.issue("broker", hosts=("127.0.0.1",))
    with ApacheKafka(listeners=logins(directory, PASSWORDS)) as kafka:
        secured_kafka = SecuredKafka(kafka, directory)
        secured_kafka.allow(
            *(
                acl(
                    resource_type,
                    name,
                    operation,
                    principal=f"User:{GUEST}",
                    pattern=PatternType.PREFIXED,
                )
                for resource_type, name, rights in RIGHTS_OF_GUEST
                for operation in rights
            )
        )
        yield secured_kafka


@pytest.mark.parametrize("with_tls", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_story_on_a_cluster_that_is_there_with_sasl(
    secured_kafka: SecuredKafka, way: str, *, with_tls: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    story_options = secured_kafka.story_options(way, with_tls=with_tls)
    assert (
        main(["scenario", "run", "z24", "--mode", "TV2+", "--armed", *story_options, "--json"]) == 0
    )
    (cell,) = json.loads(capfd.readouterr().out)
    assert (cell["real"]["verdict"]["observed"], cell["left"]) == (["duplicate"], [])
    assert leftover_topics(secured_kafka.kafka, STORYS) == []


@pytest.mark.parametrize(("way", "with_tls"), [("PLAIN", False), ("SCRAM-SHA-512", True)])
def test_ctrl_c_with_sasl_ends_what_is_open(
    secured_kafka: SecuredKafka, way: str, *, with_tls: bool
) -> None:
    with interrupted_once_open(
        secured_kafka, *secured_kafka.story_options(way, with_tls=with_tls), "--quiet"
    ) as story:
        pass
    assert story.status == INTERRUPTED_STATUS, story.err
    assert "could not be cleaned" not in story.err
    assert leftover_topics(secured_kafka.kafka, story.prefix) == []


def test_a_login_that_is_refused_leaves_nothing(
    secured_kafka: SecuredKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    story_options = secured_kafka.story_options("SCRAM-SHA-256")
    Path(story_options[-1]).write_text(
        Path(story_options[-1]).read_text().replace("admin-secret", "wrong")
    )
    assert main(["scenario", "run", "z24", "--mode", "TV2+", "--armed", *story_options]) == 1
    assert "invalid credentials" in capfd.readouterr().err


@pytest.fixture
def without_verification(secured_kafka: SecuredKafka) -> Iterator[None]:
    """Turn verification off, as on brokers before 3.6, on which late records make
    transactions hang.
    """

    async def switch(transaction_version: int, verifies: str | None, *, upgrade_type: int) -> None:
        async with Cluster(secured_kafka.kafka.bootstrap) as cluster:
            admin = Admin(cluster)
            transaction_versions = {"transaction.version": transaction_version}
            await admin.update_features(transaction_versions, upgrade_type=upgrade_type)
            await admin.set_broker_default("transaction.partition.verification.enable", verifies)

    asyncio.run(switch(0, "false", upgrade_type=DOWNGRADE))
    yield
    asyncio.run(switch(2, None, upgrade_type=UPGRADE))


@pytest.mark.usefixtures("without_verification")
def test_what_may_not_be_cleaned_is_listed_with_the_commands_that_take_it_away(
    secured_kafka: SecuredKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    """The guest may neither abort what hangs, nor delete topics and groups."""
    story_options = secured_kafka.story_options("SCRAM-SHA-256", user_name=GUEST)
    stories = ("partition-never-added", "zombie-member")
    assert (
        main(["scenario", "run", *stories, "--mode", "V-", "--armed", *story_options, "--json"])
        == 1
    )
    output, error_output = capfd.readouterr()
    cells = {cell["scenario"]: cell for cell in json.loads(output)}
    ghost, zombie = (cells[cell_name] for cell_name in stories)
    assert zombie["real"]["verdict"]["observed"] == ["duplicate"]
    assert "CLUSTER_AUTHORIZATION_FAILED" in "".join(ghost["real"]["cured"]["because"])
    prefix = ghost["left"][0]["name"].removesuffix("t")
    assert [
        (leftover["kind"], leftover["name"], leftover["why"]) for leftover in ghost["left"]
    ] == [
        ("topic", f"{prefix}t", "TOPIC_AUTHORIZATION_FAILED, it takes DELETE on the topic"),
        (
            "hanging transaction",
            f"{prefix}t-1",
            "open since offset 0, may not be aborted: CLUSTER_AUTHORIZATION_FAILED, it takes"
            " ALTER on the cluster",
        ),
    ]
    assert {(leftover["kind"], leftover["name"][len(prefix) :]) for leftover in zombie["left"]} == {
        ("topic", "in"),
        ("topic", "out"),
        ("group", "billing"),
    }
    leftovers = [*reversed(ghost["left"]), *zombie["left"]]
    assert all(leftover["command"] in error_output for leftover in leftovers)
    take_away(secured_kafka, leftovers)
    assert leftover_topics(secured_kafka.kafka, STORYS) == []


def test_after_ctrl_c_a_transaction_that_may_not_be_ended_is_listed(
    secured_kafka: SecuredKafka,
) -> None:
    """The guest loses its right in the middle of the story."""
    story_options = secured_kafka.story_options("SCRAM-SHA-512", with_tls=True, user_name=GUEST)
    with interrupted_once_open(secured_kafka, *story_options, "--json") as story:
        name = f"{story.prefix}app"
        secured_kafka.allow(
            acl(ResourceType.TRANSACTIONAL_ID, name, AclOperation.WRITE, principal=f"User:{GUEST}",
                permission=Permission.DENY)
        )  # fmt: skip
    assert story.status == INTERRUPTED_STATUS, story.err
    (cell,) = json.loads(story.out)
    assert (cell["why_not"], cell["real"]) == ("it was broken off", None)
    transaction, *topics = cell["left"]
    assert (transaction["kind"], transaction["name"]) == ("transaction", name)
    assert transaction["why"] == (
        "Ongoing, and may not be ended: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, it takes WRITE on"
        " the transactional id; its coordinator aborts it 20 s after it began"
    )
    assert [topic["kind"] for topic in topics] == ["topic"]
    assert f"could not be cleaned: transaction {name}: Ongoing" in story.err
    take_away(secured_kafka, cell["left"], with_tls=True)
    assert leftover_topics(secured_kafka.kafka, story.prefix) == []
    assert asyncio.run(state_of(secured_kafka.kafka, name)) != "Ongoing"


def take_away(
    secured_kafka: SecuredKafka, leftovers: Sequence[Mapping[str, str]], *, with_tls: bool = False
) -> None:
    """Run the printed commands, one of each kind, as each starts a JVM. The other topics are
    deleted by our client.
    """
    name_by_kind: dict[str, str] = {}
    topic_names: list[str] = []
    for leftover in leftovers:
        if name_by_kind.setdefault(leftover["kind"], leftover["name"]) != leftover["name"]:
            assert leftover["kind"] == "topic"
            topic_names.append(leftover["name"])
            continue
        result = secured_kafka.do(leftover["command"], with_tls=with_tls)
        assert result.code == 0, (leftover, result)

    async def delete() -> None:
        async with Cluster(secured_kafka.kafka.bootstrap) as cluster:
            assert set((await Admin(cluster).delete_topics(topic_names)).values()) <= {None}

    asyncio.run(delete())


class InterruptedStory:
    """A story that Ctrl-C has ended."""

    prefix = ""
    status = 0
    out = ""
    err = ""


@contextlib.contextmanager
def interrupted_once_open(secured_kafka: SecuredKafka, *options: str) -> Iterator[InterruptedStory]:
    """Play a story until its transaction is open, run the block, and end the story by Ctrl-C."""
    arguments = ["scenario", "run", "z23", "--mode", "TV2+", "--armed", *options]
    function_before = signal(
        SIGINT, default_int_handler
    )  # a shell in the background hands on that it ignores
    try:
        story = subprocess.Popen(
            [sys.executable, "-m", "txnsim", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal(SIGINT, function_before)
    assert story.stderr is not None
    interrupted = InterruptedStory()
    try:
        interrupted.prefix = story.stderr.readline().split()[-1]
        asyncio.run(until_ongoing(secured_kafka.kafka, f"{interrupted.prefix}app"))
        yield interrupted
        story.send_signal(SIGINT)
        interrupted.out, interrupted.err = story.communicate(timeout=60)
    finally:
        story.kill()
        story.wait()
    interrupted.status = story.returncode


def leftover_topics(kafka: ApacheKafka, prefix: str) -> list[str]:
    """Topics of a story that a broker still names some time after they were deleted."""

    async def ask() -> list[str]:
        async with Cluster(kafka.bootstrap) as cluster:
            deadline = cluster.deadline(20_000)
            while True:
                names = [topic.name for topic in await Admin(cluster).describe_topics(None)]
                names_left = [name for name in names if name.startswith(prefix)]
                if not names_left or deadline.has_passed:
                    return names_left
                await asyncio.sleep(0.05)

    return asyncio.run(ask())


async def until_ongoing(kafka: ApacheKafka, transactional_id: str) -> None:
    """Wait until the transactional id has an open transaction."""
    async with Cluster(kafka.bootstrap) as cluster, asyncio.timeout(60):
        admin = TransactionAdmin(cluster)
        while True:
            description = (await admin.describe_transactions((transactional_id,)))[transactional_id]
            if not isinstance(description, Exception) and description.state == "Ongoing":
                return
            await asyncio.sleep(0.05)


async def state_of(kafka: ApacheKafka, transactional_id: str) -> str:
    async with Cluster(kafka.bootstrap) as cluster:
        admin = TransactionAdmin(cluster)
        description = (await admin.describe_transactions((transactional_id,)))[transactional_id]
        assert not isinstance(description, Exception)
        return description.state
