"""Property files of nodes and clients: names, stores, presets."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from txnsim.config import _files, _kafka_names, load, settings_of
from txnsim.config._kafka_names import (
    AUTHORIZER_PROPERTIES,
    BEFORE_4,
    OF_OLD_RELEASE,
    REFERENCE_READERS,
    file_readers,
    known_properties,
    listener_properties,
    nearest,
    security_properties,
    why_without_effect,
)
from txnsim.config._providers import FROM_A_PROVIDER
from txnsim.config._stores import read_keystore, read_truststore
from txnsim.config.lookup import PropertyLookup, WrongPropertyError
from txnsim.config.presets import PRESETS, preset_named, with_preset
from txnsim.config.properties import Property, parse_properties
from txnsim.errors import ConfigError
from txnsim.metadata.configs import SECRET
from txnsim.metadata.settings_table import NO_EFFECT_REASONS, setting_rows
from txnsim.server.security_demo import Authority
from txnsim.settings import DEFAULTS, documentation, values_without_effect

# Keystores and truststores of property files: which are read, which combinations are refused.


NOW_MS = 1_800_000_000_000


class Files:
    """One set of certificates, written in each kind of store."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory, now_ms=NOW_MS)
        pair = authority.issue("alice")
        self.directory = directory
        self.authority = authority.certificate.read_text()
        self.certificate = pair.certificate.read_text()
        self.key = pair.key.read_text()
        self.write("store.pem", self.key + self.certificate)
        key: Any = load_pem_private_key(self.key.encode(), None)
        own_certificate = x509.load_pem_x509_certificate(self.certificate.encode())
        ca_certificate = x509.load_pem_x509_certificate(self.authority.encode())
        encryption = BestAvailableEncryption(b"secret")
        self.write(
            "store.p12",
            pkcs12.serialize_key_and_certificates(
                b"a", key, own_certificate, [ca_certificate], encryption
            ),
        )
        self.write(
            "trust.p12",
            pkcs12.serialize_key_and_certificates(
                None, None, None, [ca_certificate], NoEncryption()
            ),
        )
        self.write(
            "keyless.p12",
            pkcs12.serialize_key_and_certificates(None, None, None, [ca_certificate], encryption),
        )
        self.write(
            "bare.p12", pkcs12.serialize_key_and_certificates(b"a", key, None, [], encryption)
        )
        self.write("store.jks", b"\xfe\xed\xfe\xed\0\0\0\2")

    def write(self, file_name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        (self.directory / file_name).write_bytes(data)

    def path(self, file_name: str) -> str:
        return str(self.directory / file_name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("stores"))


def store_lookup(store: str = "keystore", **values: str) -> PropertyLookup:
    entries = {}
    for line, (key, property_value) in enumerate(values.items(), start=1):
        name = (
            f"ssl.{store}.{key.replace('_', '.')}" if key != "key_password" else "ssl.key.password"
        )
        entries[name] = Property(line=line, name=name, value=property_value)
    return PropertyLookup(entries)


def test_nothing_named_is_no_store() -> None:
    assert read_keystore(store_lookup()) is None
    assert read_keystore(store_lookup(location=" ", password="")) is None
    assert read_truststore(store_lookup("truststore")) is None


def test_a_pem_file_has_key_and_certificates(files: Files) -> None:
    keystore_pem = read_keystore(
        store_lookup(type="pem", location=files.path("store.pem"), key_password="secret")
    )
    assert keystore_pem is not None
    assert (keystore_pem.certificate, keystore_pem.key) == (files.certificate, files.key)
    assert keystore_pem.key_password == "secret"
    files.write("ca2.pem", files.authority * 2)
    trusted_lookup = store_lookup("truststore", type="PEM", location=files.path("ca2.pem"))
    assert read_truststore(trusted_lookup) == files.authority * 2


def test_pem_may_stand_in_the_property_with_blanks_for_line_ends(files: Files) -> None:
    keystore_pem = read_keystore(
        store_lookup(
            type="PEM",
            certificate_chain=files.certificate.replace("\n", " "),
            key=files.key.replace("\n", " \n "),
        )
    )
    assert keystore_pem is not None
    assert (keystore_pem.certificate, keystore_pem.key) == (files.certificate, files.key)
    trusted_lookup = store_lookup(
        "truststore", type="PEM", certificates=files.authority.replace("\n", " ")
    )
    assert read_truststore(trusted_lookup) == files.authority


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_is_read_under_either_name(files: Files, kind: str) -> None:
    # keytool makes PKCS12 since Java 9, and the type JKS reads both.
    keystore_pem = read_keystore(
        store_lookup(type=kind, location=files.path("store.p12"), password="secret")
    )
    assert keystore_pem is not None
    assert (keystore_pem.certificate, keystore_pem.key) == (
        files.certificate + files.authority,
        files.key,
    )
    store = store_lookup("truststore", type=kind, location=files.path("trust.p12"))
    assert read_truststore(store) == files.authority


@pytest.mark.parametrize(
    ("values", "line", "expected_reason"),
    [
        ({"key": "k"}, 1, "keystore.type has to be PEM"),
        ({"key": "k", "type": "PKCS12"}, 2, "keystore.type has to be PEM"),
        ({"type": "PEM", "key": "KEY"}, 2, "a key without"),
        ({"type": "PEM", "certificate_chain": "c"}, 2, "a certificate without"),
        ({"type": "PEM", "key": "KEY", "location": "x"}, 3, "both a location and"),
        ({"type": "PEM", "key": "KEY", "password": "x"}, 3, "PEM has no password"),
        ({"type": "PEM", "key": "KEY", "certificate_chain": "c"}, 3, "no CERTIFICATE of PEM"),
        ({"type": "PEM", "location": "STORE", "password": "x"}, 3, "PEM has no password"),
        ({"type": "PEM", "location": "/nowhere"}, 2, "/nowhere: can't be read: No such file"),
        ({"type": "PEM", "location": "CA"}, 2, "no PRIVATE KEY of PEM"),
        ({"type": "PEM", "location": "TWICE"}, 2, "one key is expected"),
        ({"password": "x"}, 1, "a password without ssl.keystore.location"),
        ({"location": "P12"}, 1, "a store without ssl.keystore.password"),
        ({"location": "P12", "password": "wrong"}, 1, "no PKCS12, or another password"),
        ({"location": "KEYLESS", "password": "secret"}, 1, "there is no key in it"),
        ({"location": "BARE", "password": "secret"}, 1, "there is no certificate in it"),
        ({"location": "JKS", "password": "x"}, 1, "keytool -importkeystore -srckeystore"),
        ({"type": "BCFKS"}, 1, "expected PEM, PKCS12, JKS, found 'BCFKS'"),
    ],
)
def test_what_is_no_keystore_is_refused(
    files: Files, values: dict[str, str], line: int, expected_reason: str
) -> None:
    files.write("ca.pem", files.authority)
    files.write("twice.pem", files.key * 2 + files.certificate)
    names = {
        "KEY": files.key,
        "STORE": files.path("store.pem"),
        "CA": files.path("ca.pem"),
        "TWICE": files.path("twice.pem"),
        "P12": files.path("store.p12"),
        "KEYLESS": files.path("keyless.p12"),
        "BARE": files.path("bare.p12"),
        "JKS": files.path("store.jks"),
    }
    lookup = store_lookup(
        **{
            name: names.get(property_value, property_value)
            for name, property_value in values.items()
        }
    )
    with pytest.raises(WrongPropertyError, match=expected_reason) as property_error:
        read_keystore(lookup)
    assert property_error.value.entry.line == line


def test_a_trusted_store_has_no_password_in_pem_and_needs_a_location(files: Files) -> None:
    with pytest.raises(WrongPropertyError, match="a password without"):
        read_truststore(store_lookup("truststore", password="x"))
    with pytest.raises(WrongPropertyError, match="PEM has no password"):
        read_truststore(
            store_lookup("truststore", type="PEM", location=files.path("store.pem"), password="x")
        )


def test_a_missing_library_is_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for module_name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, module_name, None)
    importlib.invalidate_caches()
    with pytest.raises(WrongPropertyError, match="pip install"):
        read_truststore(store_lookup("truststore", type="PKCS12", location=files.path("trust.p12")))


# Which properties of a real broker change nothing here.


TRANSCRIPT = (
    Path(__file__).parents[2] / "conformance" / "transcripts" / "describe_broker_configs.jsonl"
)
"""What a real broker answers when it is asked for its configs."""
SETTINGS = {setting.kafka for setting in documentation().values() if setting.kafka}


def test_a_real_broker_describes_every_property_but_internal_ones() -> None:
    transcript = TRANSCRIPT.read_text()
    answered_names = set(re.findall(r'"name":"([^"]+)"', transcript))
    assert answered_names <= known_properties()
    rows = setting_rows("broker")
    unlisted_names = {name for name in known_properties() if f'"{name}"' not in transcript}
    assert unlisted_names == {
        name
        for name in known_properties()
        if rows[name].internal and name != "log.initial.task.delay.ms"
    }, "the recording sets log.initial.task.delay.ms"


def test_every_property_is_a_setting_or_a_listener_or_has_a_reason() -> None:
    has_effect = SETTINGS | listener_properties() | security_properties()
    for property_name in known_properties() | AUTHORIZER_PROPERTIES:
        assert bool(why_without_effect(property_name)) is (property_name not in has_effect), (
            property_name
        )


@pytest.mark.parametrize(
    "property_name",
    ["zookeeper.connect", "zookeeper.session.timeout.ms", "inter.broker.protocol.version"],
)
def test_a_property_of_before_kafka_4_is_taken_and_has_a_reason(property_name: str) -> None:
    assert why_without_effect(property_name) == BEFORE_4
    assert property_name not in known_properties()


def test_a_property_of_before_kafka_4_has_no_use_in_its_own_release_either() -> None:
    readers = file_readers(("3.9",))
    assert why_without_effect("zookeeper.connect", readers) == OF_OLD_RELEASE
    assert why_without_effect("auto.include.jmx.reporter", file_readers(("2.8",))) == (
        "a broker of Apache Kafka 2.8 has no such property"
    )
    assert "zookeeper.connect" in known_properties(readers)
    assert "zookeeper.connect" in known_properties(file_readers(("1=3.9",)))


@pytest.mark.parametrize("reader", ["", "settings"])
def test_a_property_of_a_newer_release_is_read_by_that_release_alone(
    reader: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newer_setting = msgspec.structs.replace(
        setting_rows("broker")["num.io.threads"], name="num.new.threads", since="4.5"
    )
    newer_setting = msgspec.structs.replace(
        newer_setting, read_by=reader, no_effect="" if reader else "event-loop"
    )
    rows = {**setting_rows("broker"), newer_setting.name: newer_setting}
    monkeypatch.setattr(_kafka_names, "setting_rows", lambda _scope: rows)
    # The names are kept for the process, and this one must not be.
    monkeypatch.setattr(_kafka_names, "known_properties", known_properties.__wrapped__)
    monkeypatch.setattr(_files, "known_properties", known_properties.__wrapped__)
    unknown_text = "a broker of Apache Kafka 4.4 has no such property"
    assert why_without_effect(newer_setting.name) == REFERENCE_READERS.without_it == unknown_text
    file = tmp_path / "server.properties"
    file.write_text("num.new.threads=3\n")
    ignored = f"{file}: without effect, because {unknown_text}: num.new.threads"
    assert load(file).warnings == load(file, as_version=("4.4",)).warnings == (ignored,)
    idle_warning = (
        f"{file}: without effect, because {NO_EFFECT_REASONS['event-loop']}: num.new.threads"
    )
    for as_version in (("4.5",), ("1=4.5",), ("4.4", "4.5"), ("4.4,2=4.5",)):
        warnings = load(file, as_version=as_version).warnings
        assert warnings == (() if reader else (idle_warning,)), as_version


def test_an_unknown_property_has_no_reason() -> None:
    assert why_without_effect("num.partition") is None


@pytest.mark.parametrize(
    ("property_name", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("replicas.min.insync", "min.insync.replicas"),
        ("max_message_bytes", "message.max.bytes"),
        ("transaction.state.log.replication", "transaction.state.log.replication.factor"),
        ("offsets.topic", None),
        ("jmx.port", None),
    ],
)
def test_a_property_is_meant_by_a_slip_by_its_words_in_another_order_and_by_its_beginning(
    property_name: str, meant: str | None
) -> None:
    assert nearest(property_name) == meant


# What a broker tells of its file (DescribeConfigs).


def test_what_has_no_effect_is_told_as_it_stands_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    lines = (
        "num.io.threads=16",
        "num.partitions=3",
        "jmx.port=5",
        "ssl.key.password=secret",
        "zookeeper.connect=a:2181",
    )
    file.write_text("\n".join(lines))
    settings = load(file).settings
    assert settings.num_partitions == 3
    assert values_without_effect(settings) == {
        "num.io.threads": "16",
        "jmx.port": SECRET,
        "ssl.key.password": SECRET,
        "zookeeper.connect": "a:2181",
    }, "what a release before 4.0 tells of its file"
    assert "secret" not in repr(settings)
    settings, _ = settings_of({"log.preallocate": True, "num.partitions": 3}, source_name="here")
    assert values_without_effect(settings) == {"log.preallocate": "true"}
    assert not values_without_effect(DEFAULTS)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("num.io.threads=many", "Not a number of type INT"),
        ("num.io.threads=0", "Value must be at least 1"),
        ("log.preallocate=yes", "Expected value to be either true or false"),
        ("connections.max.reauth.ms=x", "Not a number of type LONG"),
    ],
)
def test_a_number_that_a_real_broker_refuses_is_refused_without_an_effect_too(
    line: str, complaint: str, tmp_path: Path
) -> None:
    name, _, value = line.partition("=")
    file = tmp_path / "server.properties"
    file.write_text(f"num.partitions=3\n{line}\n")
    problem_text = f"{name}: Invalid value {value} for configuration {name}: {complaint}"
    with pytest.raises(ConfigError, match=re.escape(f"server.properties:2: {problem_text}")):
        load(file)
    if not name.startswith("connections"):
        with pytest.raises(ConfigError, match=re.escape(problem_text)):
            settings_of({name: value}, source_name="here")


# ``nodes``: Whose file it is: how many brokers it makes, which number the first one has.


@pytest.mark.parametrize(
    ("text", "brokers", "broker_id"),
    [
        ("process.roles=broker,controller\nnode.id=5\ncontroller.quorum.voters=5@a:1\n", 1, 5),
        ("process.roles = controller, broker\nnode.id=5\n", 1, 5),
        ("process.roles=broker,controller\ncontroller.quorum.bootstrap.servers=a:1\n", 1, None),
        (
            "process.roles=broker,controller\nnode.id=2\n"
            "controller.quorum.voters=1@a:1,2@b:1,3@c:1\n",
            None,
            None,
        ),
        ("process.roles=broker\nnode.id=2\ncontroller.quorum.voters=1@a:9093\n", None, None),
        ("zookeeper.connect=a:2181\nbroker.id=0\n", 1, 0),
        ("zookeeper.connect=a:2181\nbroker.id=-1\n", 1, None),
        ("zookeeper.connect=a:2181\n", 1, None),
        ("node.id=3\n", None, None),
        ("node.id=3\ncontroller.quorum.voters=3@kafka:9093\n", 1, 3),
    ],
)
def test_a_file_of_one_node_is_a_cluster_of_one_broker(
    text: str, brokers: int | None, broker_id: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    config = load(file)
    assert (config.brokers, config.first_broker_id) == (brokers, broker_id)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("process.roles=controller\n", "this node is a controller alone, which no client connects"),
        ("process.roles=broker,worker\n", "a role is broker or controller, not worker"),
        (
            "process.roles=broker,controller\nnode.id=one\n",
            "server.properties:2: node.id: expected a whole number from 0, found 'one'",
        ),
    ],
)
def test_a_node_that_can_not_be_started_alone_is_refused_with_what_to_write(
    text: str, complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)
    with pytest.raises(ConfigError) as error_info:
        load(file)
    assert complaint in str(error_info.value)


# Files of production: composed as operators and images write them.

OPERATOR = """\
node.id=0
broker.rack=${env:RACK}
process.roles=broker
controller.listener.names=CONTROL-9090
controller.quorum.voters=3@c-3.svc:9090,4@c-4.svc:9090
listener.name.control-9090.ssl.truststore.certificates=${secrets:ca:*.crt}
listener.name.replication-9091.ssl.client.auth=required
listener.name.replication-9091.ssl.keystore.type=PEM
listener.name.replication-9091.ssl.keystore.certificate.chain=${secrets:b0:b0.crt}
listener.name.replication-9091.ssl.keystore.key=${secrets:b0:b0.key}
listeners=REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://0.0.0.0:9092
advertised.listeners=REPLICATION-9091://b-0.svc:9091,PLAIN-9092://b-0.svc:9092
listener.security.protocol.map=CONTROL-9090:SSL,REPLICATION-9091:SSL,PLAIN-9092:PLAINTEXT
inter.broker.listener.name=REPLICATION-9091
config.providers=env,secrets
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
min.insync.replicas=2
"""
SERVER = """\
process.roles=broker
node.id=11
controller.quorum.bootstrap.servers=c1:9093,c2:9093
controller.listener.names=CONTROLLER
listeners=BROKER://:9091,EXTERNAL://:9092
listener.security.protocol.map=CONTROLLER:SSL,BROKER:SSL,EXTERNAL:SASL_PLAINTEXT
ssl.keystore.location=/mnt/certs/keystore.jks
ssl.keystore.password=${file:/mnt/certs/password.txt:password}
listener.name.external.sasl.enabled.mechanisms=PLAIN
listener.name.external.plain.sasl.jaas.config=a.Plain required user_app="secret";
confluent.license.topic.replication.factor=3
config.providers=file
"""
OLD_BROKER = """\
# of 2.8
broker.id=3
zookeeper.connect=zk-1:2181,zk-2:2181/kafka
zookeeper.set.acl=true
listeners=PLAINTEXT://0.0.0.0:9092
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
super.users=User:admin
inter.broker.protocol.version=2.8
log.dirs=/data1,/data2
num.partitions=6
"""


@pytest.mark.parametrize(
    "file_name", ["server.config", "kafka.conf", "server", "server.properties.bak"]
)
def test_a_file_of_any_name_is_read_as_kafkas_tools_read_it(file_name: str, tmp_path: Path) -> None:
    file = tmp_path / file_name
    file.write_text(OLD_BROKER)
    config = load(file)
    assert (config.brokers, config.first_broker_id, config.port) == (1, 3, 9092)
    assert config.settings.num_partitions == 6
    assert config.security is not None
    assert config.security.has_authorizer
    file.write_text("# ours\n---\nbrokers: 5\n")
    assert load(file).brokers == 5
    for text in ("", "hello world\n", "\x00\x01"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="neither NAME=VALUE"):
            load(file)


@pytest.mark.parametrize(
    ("text", "closed_listener", "port"),
    [(OPERATOR, "REPLICATION-9091", 9092), (SERVER, "BROKER", 9092)],
)
def test_a_broker_with_controllers_elsewhere_is_served_without_what_providers_have(
    text: str, closed_listener: str, port: int, tmp_path: Path
) -> None:
    file = tmp_path / "server.config"
    file.write_text(text)
    config = load(file)
    assert (config.brokers, config.port) == (None, port)
    warned = "\n".join(config.warnings)
    assert f"listener {closed_listener} is not opened: {FROM_A_PROVIDER}" in warned
    names = [line.partition("=")[0] for line in text.splitlines()]
    effective = {
        "listeners", "advertised.listeners", "listener.security.protocol.map",
        "controller.listener.names", "min.insync.replicas",
        "listener.name.external.sasl.enabled.mechanisms",
        "listener.name.external.plain.sasl.jaas.config",
    }  # fmt: skip
    assert [name for name in names if name not in effective and name not in warned] == []


def test_a_listener_with_a_store_of_its_own_is_opened_and_none_left_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=SASL://:9094\nlistener.security.protocol.map=SASL:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        'listener.name.sasl.plain.sasl.jaas.config=a.P required user_a="${file:/p:a}";\n'
    )
    with pytest.raises(ConfigError, match=r"no listener is left that can be opened here: write"):
        load(file)
    file.write_text(
        "listeners=SASL://:9094\nlistener.security.protocol.map=SASL:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\nssl.keystore.password=${file:/p:a}\n"
        'listener.name.sasl.plain.sasl.jaas.config=a.P required user_a="b";\n'
    )
    security = load(file).security
    assert security is not None
    assert [listener.name for listener in security.listeners] == ["SASL"]
    # The mechanisms of the listener stand before those of all, which a provider has.
    file.write_text(
        "listeners=SASL://:9094\nlistener.security.protocol.map=SASL:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=${env:MECHANISMS}\n"
        "listener.name.sasl.sasl.enabled.mechanisms=PLAIN\n"
        'listener.name.sasl.plain.sasl.jaas.config=a.P required user_a="b";\n'
    )
    security = load(file).security
    assert security is not None
    assert [listener.name for listener in security.listeners] == ["SASL"]


# Java's property files; expectations are those of ``java.util.Properties.load``.


def property_rows(text: str) -> list[tuple[int, str, str]]:
    properties = parse_properties(text.encode("latin-1"), file="f")
    return [(property.line, property.name, property.value) for property in properties]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", [(1, "a", "1")]),
        ("a = 1", [(1, "a", "1")]),
        ("a:1\nb 2", [(1, "a", "1"), (2, "b", "2")]),
        ("a\t=\t1 ", [(1, "a", "1 ")]),
        ("a==1", [(1, "a", "=1")]),
        ("a", [(1, "a", "")]),
        ("# a=1\n! b=2\n\n  c=3", [(4, "c", "3")]),
        ("a=x\\\n   y\nb=2", [(1, "a", "xy"), (3, "b", "2")]),
        ("a=x\\\n# no comment\nb=2", [(1, "a", "x# no comment"), (3, "b", "2")]),
        ("a=x\\\\\nb=2", [(1, "a", "x\\"), (2, "b", "2")]),
        ("a=x\\", [(1, "a", "x")]),
        ("a\\=b\\:c\\ d=1", [(1, "a=b:c d", "1")]),
        ("a=\\t\\n\\r\\f\\q", [(1, "a", "\t\n\r\fq")]),
        ("a=\\u00e9\u00e9", [(1, "a", "éé")]),
        ("a=1\r\nb=2\rc=3", [(1, "a", "1"), (2, "b", "2"), (3, "c", "3")]),
        ("a=1\na=2", [(1, "a", "1"), (2, "a", "2")]),
    ],
)
def test_entries_are_read_as_java_reads_them(text: str, entries: list[object]) -> None:
    assert property_rows(text) == entries


def test_a_broken_unicode_escape_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"f:2: b: \\u needs four hexadecimal digits, found '12'"):
        property_rows("a=1\nb=\\u12")


# Properties by name, a listener's own first.


def entries(**values: str) -> dict[str, Property]:
    return {
        name: Property(line=line, name=name, value=property_value)
        for line, (name, property_value) in enumerate(values.items(), start=1)
    }


def test_a_listeners_own_property_counts_before_the_common_one() -> None:
    lookup = PropertyLookup(entries(**{"p.a": "1", "a": "2", "b": "3", "c": "4"}), prefix="p.")
    assert (lookup.text("a"), lookup.text("b"), lookup.text("d")) == ("1", "3", None)
    assert lookup.own_entry("b") is None
    assert lookup.used_names == {"p.a", "a", "b"}


def test_values_of_several_kinds() -> None:
    lookup = PropertyLookup(entries(list=" a, ,b", word="Yes", number=" 7", empty=" "))
    assert lookup.names("list") == ("a", "b")
    assert lookup.names("none") == ()
    assert lookup.text("empty") is None
    assert lookup.choice("word", {"yes": 1, "no": 2}, 0) == 1
    assert lookup.choice("none", {"yes": 1}, 0) == 0
    assert (lookup.number("number", 1), lookup.number("none", 1)) == (7, 1)


def test_what_is_none_is_refused_with_its_entry() -> None:
    lookup = PropertyLookup(entries(word="perhaps", number="-1"))
    with pytest.raises(
        WrongPropertyError, match="expected yes, no, found 'perhaps'"
    ) as property_error:
        lookup.choice("word", {"yes": 1, "no": 2}, 0)
    assert property_error.value.entry.line == 1
    with pytest.raises(WrongPropertyError, match="expected a whole number from 0"):
        lookup.number("number", 0)


# A preset: one name for several settings, none of which has Apache Kafka's default.


def test_a_preset_changes_what_it_names_and_a_setting_beside_it_wins() -> None:
    settings, warnings = settings_of(
        {"broker.session.timeout.ms": 4_000, "preset": "tests"}, source_name="t"
    )
    assert warnings == ()
    assert settings.group_initial_rebalance_delay_ms == 0
    assert settings.broker_session_timeout_ms == 4_000
    settings_before = msgspec.structs.replace(DEFAULTS, broker_session_timeout_ms=4_000)
    assert with_preset(settings_before, "tests") == settings


def test_none_of_a_preset_is_kafkas_default() -> None:
    for preset in PRESETS.values():
        assert preset
        assert all(
            getattr(DEFAULTS, field_name) != property_value
            for field_name, property_value in preset.items()
        )


def test_a_preset_that_there_is_not_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no preset 'test'; did you mean tests"):
        preset_named("test")
    file = tmp_path / "cluster.yaml"
    file.write_text("settings:\n  preset: 7\n")
    with pytest.raises(ConfigError, match=r"cluster\.yaml:2: settings\.preset: no preset '7'"):
        load(file)
