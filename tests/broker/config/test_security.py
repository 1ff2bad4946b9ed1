"""Listeners and security of brokers and clients, as files have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.client.authentication import ClientSecurity
from txnsim.client.connection import ClientSettings
from txnsim.config._broker_security import FileSecurity, read_security
from txnsim.config._client_security import read_client_security
from txnsim.config._listeners import Listeners, bound_everywhere, read_listeners
from txnsim.config.client_settings import read_client_settings, settings_of_options
from txnsim.config.lookup import WrongPropertyError
from txnsim.config.properties import Property, parse_properties
from txnsim.errors import BadInputError
from txnsim.security.login import Bearer, Password
from txnsim.security.options import (
    ClientAuth,
    ClientTls,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsPem,
)
from txnsim.security.sasl import BearerRules
from txnsim.server.security_demo import Authority

# Listeners of a container.


def test_what_is_advertised_is_bound_on_every_interface() -> None:
    assert bound_everywhere("A://kafka.test:1, B://[::1]:2") == "A://0.0.0.0:1,B://0.0.0.0:2"
    assert bound_everywhere("nothing") == "nothing"


# Properties that a program gives.


def test_properties_of_a_program_are_read_as_those_of_a_file() -> None:
    options = {
        "bootstrap.servers": "a:1",
        "client.id": "me",
        "request.timeout.ms": "7",
        "acks": "1",
    }
    read = settings_of_options(options, defaults=ClientSettings(), option_flag="kafka.")
    assert (read.bootstrap, read.settings.client_id) == ("a:1", "me")
    with pytest.raises(BadInputError, match=r"^kafka\.request\.timeout\.ms: milliseconds"):
        settings_of_options(
            {"request.timeout.ms": "soon"}, defaults=ClientSettings(), option_flag="kafka."
        )


# Security in a broker's properties.


NOW_MS = 1_800_000_000_000
SASL = "listeners=SASL_PLAINTEXT://:1\n"
MINE = "listener.name.sasl_plaintext."
BEARER = (
    f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER\n{MINE}oauthbearer.sasl.jaas.config=a.B required"
)


class Stores:
    """A broker's certificates, in the files and texts that properties can name."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, now_ms=NOW_MS)
        pair = authority.issue("broker")
        (directory / "store.pem").write_text(pair.key.read_text() + pair.certificate.read_text())
        self.pem = TlsPem(
            certificate=pair.certificate.read_text(),
            key=pair.key.read_text(),
            authority=authority.certificate.read_text(),
        )
        self.keystore = f"ssl.keystore.type=PEM\nssl.keystore.location={directory}/store.pem\n"
        self.truststore = (
            f"ssl.truststore.type=PEM\nssl.truststore.location={authority.certificate}\n"
        )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def read_file_security(text: str) -> FileSecurity:
    entries = {property.name: property for property in parse_properties(text.encode(), file="f")}
    listeners = read_listeners(entries)
    assert listeners.refusals == ()
    return read_security(entries, listeners.clients)


def test_in_clear_there_is_none() -> None:
    assert read_file_security("listeners=PLAINTEXT://:1\n").options == SecurityOptions()
    assert read_file_security("").options == SecurityOptions()


def test_certificates_of_broker_and_clients(stores: Stores) -> None:
    config = read_file_security(
        "listeners=PLAINTEXT://:1,SSL://a:2\nadvertised.listeners=SSL://b:2,PLAINTEXT://b:1\n"
        "ssl.client.auth=required\nssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/\n"
        "ssl.enabled.protocols=TLSv1.3\n" + stores.keystore + stores.truststore
    )
    assert config.refusals == config.odd_remarks == ()
    (listener,) = config.options.listeners
    assert listener.tls is not None
    assert listener.tls.versions == ("TLSv1.3",)
    assert (listener.name, listener.host, listener.port) == ("SSL", "a", 2)
    assert listener.advertised_host == "b"
    assert listener.client_auth is ClientAuth.REQUIRED
    assert listener.principal_mapping_rules == "RULE:^CN=(.*)$/$1/"
    assert config.options.has_plain_listener
    assert "ssl.keystore.location" in config.used_names


def test_a_listener_has_stores_of_its_own(stores: Stores) -> None:
    own_store_lines = stores.keystore.replace("ssl.", "listener.name.two.ssl.")
    config = read_file_security(
        "listeners=ONE://:1,TWO://:2\n"
        "listener.security.protocol.map=ONE:SASL_SSL,TWO:SSL\nssl.client.auth=requested\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-512\n"
        "listener.name.one.scram-sha-512.sasl.jaas.config=a.Scram required;\n"
        + own_store_lines
        + stores.truststore
    )
    ((property, message),) = config.refusals
    assert (property.name, message[:21]) == ("listeners", "listener ONE: SASL_SS")
    (second_listener,) = config.options.listeners
    assert second_listener.client_auth is ClientAuth.REQUESTED
    assert not config.options.has_plain_listener


def test_with_sasl_only_a_listeners_own_wish_for_certificates_counts(stores: Stores) -> None:
    # KIP-684
    text = (
        "listeners=SASL_SSL://:1\nsasl.enabled.mechanisms=SCRAM-SHA-512\nssl.client.auth=required\n"
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=a.Scram required;\n"
        + stores.keystore
        + stores.truststore
    )
    assert read_file_security(text).options.listeners[0].client_auth is ClientAuth.NONE
    assert "ssl.client.auth" not in read_file_security(text).used_names
    own_security = read_file_security(text + "listener.name.sasl_ssl.ssl.client.auth=required\n")
    assert own_security.options.listeners[0].client_auth is ClientAuth.REQUIRED


def test_users_and_limits_of_each_mechanism() -> None:
    config = read_file_security(
        f"""{SASL}
sasl.enabled.mechanisms=PLAIN, SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
{MINE}plain.sasl.jaas.config=a.P required username="b" password="x" user_alice="a" user_bob="b";
{MINE}scram-sha-256.sasl.jaas.config=a.S required username="broker" password="y";
{MINE}scram-sha-512.sasl.jaas.config=a.S required user_carol="c";
{MINE}oauthbearer.sasl.jaas.config=a.O required unsecuredValidatorRequiredScope="r w" \\
  unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorScopeClaimName="may" \\
  unsecuredValidatorAllowableClockSkewMs="500" unsecuredLoginStringClaim_sub="b";
sasl.server.callback.handler.class=
connections.max.reauth.ms=1000
connection.failed.authentication.delay.ms=0
"""
    )
    assert config.refusals == ()
    assert config.options == SecurityOptions(
        listeners=(
            SecureListener(
                name="SASL_PLAINTEXT",
                protocol=SecurityProtocol.SASL_PLAINTEXT,
                host="0.0.0.0",
                port=1,
                mechanisms=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
                plain_users={"alice": "a", "bob": "b"},
                bearer=BearerRules(
                    principal_claim="name",
                    scope_claim="may",
                    required_scope=("r", "w"),
                    clock_skew_ms=500,
                ),
            ),
        ),
        has_plain_listener=False,
        scram_users_by_mechanism={
            "SCRAM-SHA-256": {"broker": "y"},
            "SCRAM-SHA-512": {"carol": "c"},
        },
        max_reauth_ms=1_000,
        failure_delay_ms=0,
    )
    ((property, message),) = config.odd_remarks
    assert property.name == f"{MINE}scram-sha-512.sasl.jaas.config"
    assert message.endswith("kafka-configs.sh: carol")


def test_an_error_names_what_apache_kafka_wants_too() -> None:
    config = read_file_security(SASL + "sasl.enabled.mechanisms=OAUTHBEARER\n")
    ((_, message),) = config.odd_remarks
    assert message.startswith(f"Apache Kafka wants {MINE}oauthbearer.sasl.jaas.config too")
    assert config.options.listeners[0].mechanisms == ("OAUTHBEARER",)


@pytest.mark.parametrize(
    ("lines", "limit_ms"),
    [
        ("", None),
        (f"{MINE}connections.max.reauth.ms=5", 5),
        (f"{MINE}oauthbearer.connections.max.reauth.ms=6", 6),
    ],
)
def test_a_listener_has_a_limit_of_its_own(lines: str, limit_ms: int | None) -> None:
    config = read_file_security(f"{BEARER};\nconnections.max.reauth.ms=7\n{lines}\n")
    assert config.options.listeners[0].max_reauth_ms == limit_ms
    assert config.options.max_reauth_ms == 7


def test_rights() -> None:
    config = read_file_security(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "super.users=User:admin;User:CN=a,O=b\nallow.everyone.if.no.acl.found=TRUE\n"
        "principal.builder.class="
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder\n"
    )
    assert config.options == SecurityOptions(
        has_authorizer=True,
        super_users=frozenset({"User:admin", "User:CN=a,O=b"}),
        allow_everyone_if_no_acl_found=True,
    )
    authorizer_line = (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    )
    assert read_file_security(authorizer_line).options == SecurityOptions(has_authorizer=True)
    assert (
        read_file_security("authorizer.class.name=\nsuper.users=User:a\n").options
        == SecurityOptions()
    )


AUTHORIZED = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        ("listeners=SSL://:1", "listeners", "listener SSL: SSL needs ssl.keystore.location"),
        (SASL, "listeners", "the mechanism GSSAPI is not spoken here"),
        (
            SASL + "sasl.enabled.mechanisms=PLAIN,GSSAPI",
            "sasl.enabled.mechanisms",
            "the mechanism GSSAPI is not spoken here",
        ),
        (SASL + "sasl.enabled.mechanisms=PLAIN", "listeners", "PLAIN needs listener.name.sasl_pl"),
        (BEARER, f"{MINE}oauthbearer.sasl.jaas.config", "semicolon"),
        (
            f"{BEARER} unsecuredValidatorAllowableClockSkewMs=x;",
            f"{MINE}oauthbearer.sasl.jaas.config",
            "expected milliseconds",
        ),
        (
            f"{BEARER};\n{MINE}oauthbearer.sasl.server.callback.handler.class=a.B",
            f"{MINE}oauthbearer.sasl.server.callback.handler.class",
            "Java classes can't be loaded",
        ),
        (
            f"{BEARER};\n{MINE}connections.max.reauth.ms=x",
            f"{MINE}connections.max.reauth.ms",
            "num",
        ),
        (f"{BEARER};\nconnections.max.reauth.ms=x", "connections.max.reauth.ms", "whole number"),
        ("principal.builder.class=a.B", "principal.builder.class", "Java classes"),
        (
            "authorizer.class.name=kafka.security.AclAuthorizer",
            "authorizer.class.name",
            "only authorizer is org",
        ),
        (AUTHORIZED + "super.users=admin", "super.users", "expected TYPE:NAME"),
        (
            AUTHORIZED + "allow.everyone.if.no.acl.found=yes",
            "allow.everyone.if.no.acl.found",
            "expected true, false",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(text: str, name: str, reason: str) -> None:
    ((property, message),) = read_file_security(text + "\n").refusals
    assert property.name == name
    assert reason in message


def test_mechanisms_of_a_listener_share_one_limit() -> None:
    both_lines = (
        f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER,SCRAM-SHA-256\n"
        f"{MINE}oauthbearer.connections.max.reauth.ms=5\n"
    )
    ((property, message),) = read_file_security(both_lines).refusals
    assert property.name == f"{MINE}oauthbearer.connections.max.reauth.ms"
    assert "share one limit" in message
    same_limit = both_lines + f"{MINE}scram-sha-256.connections.max.reauth.ms=5\n"
    assert read_file_security(same_limit).options.listeners[0].max_reauth_ms == 5


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("ssl.client.auth=required", "certificates of clients need ssl.truststore.location"),
        ("ssl.principal.mapping.rules=x", "is no rule"),
        ("ssl.client.auth=perhaps", "expected none, requested, required"),
        ("ssl.enabled.protocols=SSLv3", "SSLv3 is not spoken"),
    ],
)
def test_what_a_listener_with_tls_cannot_do_is_refused(
    stores: Stores, lines: str, reason: str
) -> None:
    ((property, message),) = read_file_security(
        f"listeners=SSL://:1\n{stores.keystore}{lines}\n"
    ).refusals
    assert property.name == lines.partition("=")[0]
    assert reason in message


# How a client is told to reach brokers, in Java's words.


ALICE = 'sasl.jaas.config=a.ScramLoginModule required username="alice" password="secret";\n'


def read_of_client_security(text: str) -> tuple[ClientSecurity, set[str]]:
    properties = parse_properties(text.encode(), file="f")
    return read_client_security({property.name: property for property in properties})


def test_nothing_said_is_in_clear() -> None:
    assert read_of_client_security("client.id=x\n") == (ClientSecurity(), set())


def test_a_password_over_tls() -> None:
    security, used_names = read_of_client_security(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-256\n"
        "ssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.3\n" + ALICE
    )
    assert security == ClientSecurity(
        protocol=SecurityProtocol.SASL_SSL,
        tls=ClientTls(checks_host=False, versions=("TLSv1.3",)),
        mechanism="SCRAM-SHA-256",
        credential=Password(user="alice", password="secret"),
    )
    assert used_names == {
        *("security.protocol", "sasl.mechanism", "sasl.jaas.config"),
        *("ssl.endpoint.identification.algorithm", "ssl.enabled.protocols"),
    }


def test_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, now_ms=NOW_MS)
    pair = authority.issue("alice")
    store_folder = tmp_path / "alice.keystore.pem"
    store_folder.write_text(pair.key.read_text() + pair.certificate.read_text())
    security, _ = read_of_client_security(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={store_folder}\nssl.key.password=x\n"
    )
    assert security.tls == ClientTls(
        authority=authority.certificate.read_text(),
        certificate=pair.certificate.read_text(),
        key=pair.key.read_text(),
        key_password="x",
    )


def test_a_token() -> None:
    security, _ = read_of_client_security(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        'sasl.jaas.config=a.B required unsecuredLoginStringClaim_sub="alice";\n'
    )
    assert security.credential == Bearer(claims={"sub": "alice"})
    assert not security.protocol.has_tls


@pytest.mark.parametrize(
    ("text", "name", "expected_reason"),
    [
        ("security.protocol=TLS", "security.protocol", "expected PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL", "security.protocol", "GSSAPI, the default, is not spoken"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI",
            "sasl.mechanism",
            "the mechanism GSSAPI is not spoken here",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN",
            "security.protocol",
            "needs sasl.jaas.config",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=a.B required;",
            "sasl.jaas.config",
            "username is missing",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=a.B;",
            "sasl.jaas.config",
            "a flag is expected",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.oauthbearer.token.endpoint.url=https://a",
            "sasl.oauthbearer.token.endpoint.url",
            "from sasl.jaas.config alone",
        ),
        (
            "security.protocol=SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.1",
            "ssl.enabled.protocols",
            "TLSv1.1 is not spoken here",
        ),
        (
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=ldaps",
            "ssl.endpoint.identification.algorithm",
            "expected https",
        ),
    ],
)
def test_client_security_what_cannot_be_obeyed_is_refused(
    text: str, name: str, expected_reason: str
) -> None:
    with pytest.raises(WrongPropertyError, match=expected_reason) as property_error:
        read_of_client_security(text)
    assert property_error.value.entry.name == name


# The listeners of a broker's properties.


def read_of_listeners(**fields: str) -> Listeners:
    entries = {
        name: Property(line=1, name=name, value=property_value)
        for name, property_value in (
            (key.replace("_", "."), property_value) for key, property_value in fields.items()
        )
    }
    return read_listeners(entries)


def complaint(**fields: str) -> tuple[str, str]:
    """The name of the only property that is refused, and the message about it."""
    ((property, message),) = read_of_listeners(**fields).refusals
    return property.name, message


def test_without_listeners_nothing_is_said() -> None:
    assert read_of_listeners() == Listeners()


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("PLAINTEXT://:9092", "0.0.0.0", 9092),
        ("PLAINTEXT://localhost:0", "localhost", 0),
        ("plaintext://[::1]:9092", "::1", 9092),
        ("CONTROLLER://:9093, PLAINTEXT://a:1", "a", 1),
    ],
)
def test_listeners_for_clients_and_for_controllers_differ(value: str, host: str, port: int) -> None:
    listeners = read_of_listeners(listeners=value, controller_listener_names="CONTROLLER")
    ((listener),) = listeners.clients
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", host, port)
    assert (listeners.refusals, listeners.odd_remarks) == ((), ())
    assert listeners.controller_names == {"CONTROLLER"}


def test_a_node_that_is_only_a_controller_opens_no_listener() -> None:
    listeners = read_of_listeners(
        listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER"
    )
    assert listeners.clients == ()


def test_a_listener_name_is_looked_up_in_the_protocol_map() -> None:
    protocols = "INSIDE:PLAINTEXT, outside:sasl_ssl"
    listeners = read_of_listeners(
        listeners="INSIDE://:1,OUTSIDE://:2", listener_security_protocol_map=protocols
    )
    assert [client.protocol for client in listeners.clients] == [
        SecurityProtocol.PLAINTEXT,
        SecurityProtocol.SASL_SSL,
    ]
    (listener,) = read_of_listeners(listeners="SSL://:1").clients
    assert listener.protocol is SecurityProtocol.SSL


def test_a_listener_without_a_protocol_is_refused() -> None:
    assert complaint(listeners="INSIDE://:1") == (
        "listeners",
        "listener INSIDE: its name names no security protocol",
    )
    # A map replaces the names of the protocols altogether.
    assert complaint(
        listeners="PLAINTEXT://:1", listener_security_protocol_map="INSIDE:PLAINTEXT"
    ) == (
        "listeners",
        "listener PLAINTEXT: listener.security.protocol.map names no security protocol",
    )
    name, message = complaint(listener_security_protocol_map="INSIDE:TLS", listeners="INSIDE://:1")
    assert name == "listener.security.protocol.map"
    assert message.endswith("found 'INSIDE:TLS'")


@pytest.mark.parametrize(
    "listeners_text", ["9092", "PLAINTEXT:9092", "PLAINTEXT://:x", "PLAINTEXT://:65536"]
)
def test_what_is_no_listener_is_refused(listeners_text: str) -> None:
    assert (
        complaint(listeners=listeners_text)[1]
        == f"expected NAME://HOST:PORT, found {listeners_text!r}"
    )


def test_names_are_unique() -> None:
    assert complaint(listeners="SSL://:1,ssl://:2")[1] == "there are two listeners SSL"


def test_each_listener_is_advertised_by_its_own_host() -> None:
    listeners = read_of_listeners(
        listeners="PLAINTEXT://:1,SSL://:2",
        advertised_listeners="SSL://a:2,PLAINTEXT://:1",
    )
    assert [client.advertised_host for client in listeners.clients] == [None, "a"]
    assert listeners.odd_remarks == ()
    (listener,) = read_of_listeners(advertised_listeners="PLAINTEXT://a:9092").clients
    assert (listener.port, listener.advertised_host) == (9092, "a")


def test_the_real_port_is_advertised() -> None:
    listeners = read_of_listeners(
        listeners="PLAINTEXT://:1", advertised_listeners="PLAINTEXT://a:2"
    )
    (message,) = (message for _, message in listeners.odd_remarks)
    assert message == "where there are several brokers, clients get the real port, 1"
    free_listeners = read_of_listeners(
        listeners="PLAINTEXT://:0", advertised_listeners="PLAINTEXT://a:2"
    )
    assert free_listeners.odd_remarks == ()


def test_an_address_without_a_way_to_it_is_not_advertised() -> None:
    name, message = complaint(
        listeners="PLAINTEXT://:1", advertised_listeners="PLAINTEXT://0.0.0.0:1"
    )
    assert (name, message) == ("advertised.listeners", "clients can't connect to 0.0.0.0")
    assert complaint(listeners="PLAINTEXT://:1", advertised_listeners="SSL://a:1")[1] == (
        "there is no listener SSL among the listeners"
    )


def entries(**values: str) -> dict[str, Property]:
    values_by_name = {
        name.replace("_", "."): property_value for name, property_value in values.items()
    }
    return {
        name: Property(line=line, name=name, value=property_value)
        for line, (name, property_value) in enumerate(values_by_name.items(), start=1)
    }


def test_what_is_not_said_stays_as_it_was() -> None:
    default_settings = ClientSettings(client_id="stream", api_timeout_ms=7)
    read = read_client_settings(entries(request_timeout_ms="5"), defaults=default_settings)
    assert (read.settings.client_id, read.settings.api_timeout_ms) == ("stream", 7)
    assert (read.settings.request_timeout_ms, read.bootstrap, read.ignored_names) == (5, None, ())


def test_each_property_is_used_or_named() -> None:
    read = read_client_settings(
        entries(
            security_protocol="PLAINTEXT",
            bootstrap_servers="h:1",
            client_id="me",
            metrics_num_samples="3",
        )
    )
    assert read.settings.security.protocol is SecurityProtocol.PLAINTEXT
    assert (read.bootstrap, read.settings.client_id) == ("h:1", "me")
    assert read.ignored_names == ("metrics.num.samples",)


def test_a_wrong_value_comes_with_its_property() -> None:
    with pytest.raises(WrongPropertyError, match="milliseconds are expected") as error_info:
        read_client_settings(entries(request_timeout_ms="soon"))
    assert error_info.value.entry.name == "request.timeout.ms"
