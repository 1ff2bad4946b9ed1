"""Our client at a real Kafka's secured listeners, and one ``server.properties`` for both brokers.

The same files are given to both sides: a broker's properties, and those of clients.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.support.apache_kafka import ApacheKafka, Listeners, run_kafka_tool
from tests.support.clusters import begin_transaction
from tests.support.txnsim_server import TxnsimServer, installed_txnsim
from txnsim.cli.client_properties import read_client_properties
from txnsim.client.cluster import Cluster
from txnsim.server.security_demo import Authority

pytestmark = pytest.mark.real

LISTENERS: Final = {"PASSWORDS": "SASL_SSL", "CERTIFICATES": "SSL"}
JAAS: Final = "org.apache.kafka.common.security."
BEARER: Final = f"{JAAS}oauthbearer.OAuthBearerLoginModule"
WAYS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate")
REAUTH_MS: Final = 2_000
TOPIC: Final = "orders"
SCRAM_USERS: Final = tuple(
    word
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for word in ("--add-scram", f"{mechanism}=[name=scram,password=scram-secret]")
)
SUPER_USERS: Final = ("ANONYMOUS", "plain", "scram", "oauth", "client-of-certificate")


class SecurityFiles:
    """Certificates, and properties of the broker and of its clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # This file was made just now: its time is the present.
        stamp_file = directory / "stamp"
        stamp_file.touch()
        self.authority = Authority(directory, now_ms=stamp_file.stat().st_mtime_ns // 1_000_000)
        self.broker_store = self._store("broker", hosts=("127.0.0.1", "localhost"))
        self.client_store = self._store("client")

    def _store(self, common_name: str, hosts: tuple[str, ...] = ()) -> Path:
        pair = self.authority.issue(common_name, hosts=hosts)
        store_folder = self.directory / f"{common_name}.store.pem"
        store_folder.write_text(pair.key.read_text() + pair.certificate.read_text())
        return store_folder

    def of_broker(self) -> dict[str, str]:
        """The properties of both brokers."""
        listener_prefix = "listener.name.passwords."
        users = 'user_plain="plain-secret" user_admin="admin-secret"'
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker_store),
            "ssl.truststore.type": "PEM",
            # Inline, with blanks for line ends, as Kafka allows.
            "ssl.truststore.certificates": " ".join(
                self.authority.certificate.read_text().splitlines()
            ),
            "listener.name.certificates.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1-of-certificate/L,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{listener_prefix}plain.sasl.jaas.config": (
                f"{JAAS}plain.PlainLoginModule required {users};"
            ),
            f"{listener_prefix}scram-sha-256.sasl.jaas.config": self._scram(),
            f"{listener_prefix}scram-sha-512.sasl.jaas.config": self._scram(),
            f"{listener_prefix}oauthbearer.sasl.jaas.config": f"{BEARER} required "
            'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="kafka";',
            f"{listener_prefix}connections.max.reauth.ms": str(REAUTH_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{super_user_name}" for super_user_name in SUPER_USERS),
        }

    def _scram(self) -> str:
        module_name = f"{JAAS}scram.ScramLoginModule"
        return f'{module_name} required username="scram" password="scram-secret";'

    def of_client(self, way: str, *, is_broken: bool = False) -> Path:
        """A file for ``--command-config``."""
        values = {
            "security.protocol": "SSL" if way == "certificate" else "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }
        if way == "certificate":
            values |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.client_store),
            }
        else:
            values |= {"sasl.mechanism": way, "sasl.jaas.config": _login(way, is_broken=is_broken)}
        path = self.directory / f"{way}{'-broken' if is_broken else ''}.properties"
        path.write_text(
            "".join(f"{name}={property_value}\n" for name, property_value in values.items())
        )
        return path


def _login(way: str, *, is_broken: bool) -> str:
    if way == "OAUTHBEARER":
        scope = "nothing" if is_broken else "kafka"
        return (
            f'{BEARER} required unsecuredLoginStringClaim_sub="oauth" '
            f'unsecuredLoginListClaim_scope=",{scope}";'
        )
    kind, name = ("plain.Plain", "plain") if way == "PLAIN" else ("scram.Scram", "scram")
    password = "wrong" if is_broken else f"{name}-secret"
    return f'{JAAS}{kind}LoginModule required username="{name}" password="{password}";'


class SecuredBroker:
    """The real or the simulated broker."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses

    def address(self, way: str) -> str:
        return self._addresses["CERTIFICATES" if way == "certificate" else "PASSWORDS"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SecurityFiles:
    return SecurityFiles(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def secured_brokers(files: SecurityFiles) -> Iterator[dict[str, SecuredBroker]]:
    """A real broker and a simulated one, with the same properties."""
    properties = files.of_broker()
    listeners = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
    own_properties = {
        "listeners": ",".join(f"{listener_name}://127.0.0.1:0" for listener_name in listeners),
        "listener.security.protocol.map": ",".join(map(":".join, listeners.items())),
    }
    file = files.directory / "server.properties"
    file.write_text(
        "".join(
            f"{name}={property_value}\n"
            for name, property_value in {**own_properties, **properties}.items()
        )
    )
    with ExitStack() as stack:
        kafka = stack.enter_context(
            ApacheKafka(
                listeners=Listeners(LISTENERS, properties, SCRAM_USERS),
                jvm_options=("-Xmx512m",),
            )
        )
        server = stack.enter_context(
            TxnsimServer(brokers=1, arguments=("--config", str(file), "--topic", "orders:1"))
        )
        created_users = kafka.run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--create", "--topic", "orders", "--partitions", "1"),
        )
        assert created_users.code == 0, created_users
        real_addresses = {
            listener_name: kafka.bootstrap_at(listener_name) for listener_name in LISTENERS
        }
        yield {
            "kafka": SecuredBroker(real_addresses),
            "txnsim": SecuredBroker(server.ready["security"]["bootstrap"]),
        }


def txns(
    secured_broker: SecuredBroker, way: str, config: Path, *arguments: str
) -> tuple[int, str, str]:
    process = subprocess.run(
        [
            str(installed_txnsim()),
            *(
                "txns",
                "--bootstrap-server",
                secured_broker.address(way),
                "--command-config",
                str(config),
            ),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["kafka", "txnsim"])
async def test_our_client_transacts(
    files: SecurityFiles, secured_brokers: dict[str, SecuredBroker], name: str, way: str
) -> None:
    settings, _, ignored = read_client_properties(files.of_client(way))
    assert ignored == ()
    async with Cluster(secured_brokers[name].address(way), settings=settings) as cluster:
        producer = await begin_transaction(cluster, f"{name}-{way}")
        record_future = producer.send(TOPIC, 0, b"v")
        await producer.commit()
        assert (await record_future).offset >= 0
        await producer.close()


@pytest.mark.parametrize("way", WAYS)
def test_the_tool_says_the_same(
    files: SecurityFiles, secured_brokers: dict[str, SecuredBroker], way: str
) -> None:
    config = files.of_client(way)
    outcomes = [
        txns(secured_broker, way, config, "describe", "--transactional-id", "nobody")
        for secured_broker in secured_brokers.values()
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 1
    assert "nobody" in outcomes[0][2]


@pytest.mark.parametrize("way", WAYS[:-1])
def test_the_same_logins_fail_with_the_same_words(
    files: SecurityFiles, secured_brokers: dict[str, SecuredBroker], way: str
) -> None:
    config = files.of_client(way, is_broken=True)
    outcomes = [
        txns(secured_broker, way, config, "list") for secured_broker in secured_brokers.values()
    ]
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0][0], outcomes[0][1]) == (1, "")
    assert "SASL_AUTHENTICATION_FAILED (58)" in outcomes[0][2]


@pytest.mark.parametrize("name", ["kafka", "txnsim"])
async def test_a_client_stays_known_beyond_the_end_of_its_session(
    files: SecurityFiles, secured_brokers: dict[str, SecuredBroker], name: str
) -> None:
    settings, *_ = read_client_properties(files.of_client("SCRAM-SHA-256"))
    async with Cluster(secured_brokers[name].address("PLAIN"), settings=settings) as cluster:
        connection = await cluster.any_connection()
        loop = asyncio.get_running_loop()
        ends = loop.time() + 2 * REAUTH_MS / 1_000
        refresh_count = 0
        while loop.time() < ends:
            await cluster.refresh((TOPIC,))
            refresh_count += 1
            await asyncio.sleep(0.1)
        assert refresh_count > 1
        assert connection.is_usable
        assert await cluster.any_connection() is connection


def test_who_has_no_certificate_hears_the_same(
    files: SecurityFiles, secured_brokers: dict[str, SecuredBroker]
) -> None:
    """The TLS alert gives the reason, and Java's client gives up at once."""
    config = files.directory / "without-certificate.properties"
    lines = files.of_client("certificate").read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if "keystore" not in line))
    results = [
        run_kafka_tool(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", secured_broker.address("certificate")),
            *("--command-config", str(config), "list"),
        )
        for secured_broker in secured_brokers.values()
    ]
    assert results[0] == results[1]
    assert results[0].code == 1
    assert "post-handshake" in results[0].stdout + results[0].stderr


def test_java_and_we_are_the_same_to_them(
    files: SecurityFiles, secured_brokers: dict[str, SecuredBroker]
) -> None:
    """Kafka's own tool reads the same client properties, at both."""
    for way in ("certificate", "SCRAM-SHA-512", "OAUTHBEARER"):
        for secured_broker in secured_brokers.values():
            result = run_kafka_tool(
                "org.apache.kafka.tools.TransactionsCommand",
                *("--bootstrap-server", secured_broker.address(way)),
                *("--command-config", str(files.of_client(way)), "list"),
            )
            assert result.code == 0, (way, result)
            assert "CompleteCommit" in result.stdout or "TransactionalId" in result.stdout
