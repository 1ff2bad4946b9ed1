"""Files to settings: what a file means, and how precisely a wrong one is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from txnsim.config import Configuration, load, settings_of
from txnsim.config._files import PROBLEMS_MAX
from txnsim.errors import ConfigError
from txnsim.server.options import ClusterOptions
from txnsim.settings import DEFAULTS


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def problems(path: Path) -> list[str]:
    """What ``load`` complains of, without the folder."""
    with pytest.raises(ConfigError) as refusal:
        load(path)
    return [line.removeprefix(f"{path.parent}/") for line in str(refusal.value).splitlines()]


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert load(write(tmp_path, "empty.yaml", "# nothing\n")) == Configuration()
    assert load(write(tmp_path, "empty.properties", "# nothing\n")) == Configuration()


def test_yaml_sets_the_cluster_and_its_settings(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "cluster.yaml",
        """
brokers: 5
host: 0.0.0.0
port: 19092
advertised_host: kafka.test
http: 9090
topics:
  orders: 3
  payments: 1
settings:
  transaction_max_timeout_ms: 60000
  transaction.partition.verification.enable: false
  transaction_version: 0
  message_timestamp_type: LogAppendTime
""",
    )
    found = load(path)
    assert (found.brokers, found.host, found.port) == (5, "0.0.0.0", 19092)
    assert (found.advertised_host, found.http_port) == ("kafka.test", 9090)
    assert found.topics == (("orders", 3), ("payments", 1))
    assert found.settings.transaction_max_timeout_ms == 60_000
    assert found.settings.transaction_partition_verification_enable is False
    assert found.settings.transaction_version == 0
    assert found.settings.message_timestamp_type == "LogAppendTime"
    assert found.settings.segment_bytes == DEFAULTS.segment_bytes
    assert found.warnings == ()


def test_what_the_file_does_not_say_is_left_as_it_was(tmp_path: Path) -> None:
    before = ClusterOptions(brokers=1, port=0, topics=(("a", 1),))
    after = load(write(tmp_path, "c.yaml", "host: 0.0.0.0\ntopics: {b: 2}\n")).onto(before)
    assert after == ClusterOptions(
        brokers=1, port=0, host="0.0.0.0", topics=(("a", 1), ("b", 2)), settings=DEFAULTS
    )


def test_properties_of_a_real_broker_are_taken_and_those_without_effect_named(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path,
        "server.properties",
        """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:19092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://kafka.test:19092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/var/lib/kafka
num.partitions=6
auto.create.topics.enable=FALSE
log.segment.bytes=1048576
log.message.timestamp.type=LogAppendTime
""",
    )
    found = load(path)
    assert (found.host, found.port, found.advertised_host) == ("0.0.0.0", 19092, "kafka.test")
    assert found.settings.num_partitions == 6
    assert found.settings.auto_create_topics_enable is False
    assert found.settings.segment_bytes == 1_048_576
    assert found.settings.message_timestamp_type == "LogAppendTime"
    assert (found.brokers, found.first_broker_id) == (1, 1)
    assert found.warnings == (
        f"{path}: without effect, because partitions are kept in memory: log.dirs",
    )


def test_every_problem_is_named_with_file_line_and_field(tmp_path: Path) -> None:
    yaml = """brokers: 0
prot: 9092
topics: {"a/b": 1}
advertised_host: 7
settings:
  transaction_max_timeout_ms: 0
  transaction.state.log.num.partitions: many
  transaction_version: 3
  num_partition: 4
"""
    assert problems(write(tmp_path, "a.yaml", yaml)) == [
        "a.yaml:1: brokers: expected at least 1, found 0",
        "a.yaml:2: prot: no field 'prot'; did you mean port? there are: brokers, "
        "first_broker_id, host, port, advertised_host, http, as_version, topics, security, "
        "settings",
        "a.yaml:3: topics.a/b: expected a text of the form ^[A-Za-z0-9._-]{1,249}$, found 'a/b'",
        "a.yaml:4: advertised_host: expected a text, found 7",
        "a.yaml:6: settings.transaction_max_timeout_ms: expected at least 1, found 0",
        "a.yaml:7: settings.transaction.state.log.num.partitions: "
        "expected a whole number, found 'many'",
        "a.yaml:8: settings.transaction_version: expected at most 2, found 3",
        "a.yaml:9: settings.num_partition: no such setting here, nor property of a Kafka 4.4 "
        "broker; did you mean num_partitions?",
    ]
    settings = yaml[yaml.index("settings:") :]
    assert problems(write(tmp_path, "b.yaml", settings)) == [
        "b.yaml:2: settings.transaction_max_timeout_ms: expected at least 1, found 0",
        "b.yaml:3: settings.transaction.state.log.num.partitions: "
        "expected a whole number, found 'many'",
        "b.yaml:4: settings.transaction_version: expected at most 2, found 3",
        "b.yaml:5: settings.num_partition: no such setting here, nor property of a Kafka 4.4 "
        "broker; did you mean num_partitions?",
    ]


def test_every_problem_of_a_properties_file_is_named_too(tmp_path: Path) -> None:
    text = """num.partition=4
num.partitions=four
transaction.max.timeout.ms=0
delete.topic.enable=yes
listeners=SASL_SSL://:9092
transaction_version=1
plain.sasl.jaas.config=a.B required;
listener.name.sasl_ssl.ssl.nothing=1
listener.name.other.ssl.keystore.type=PEM
"""
    assert problems(write(tmp_path, "s.properties", text)) == [
        "s.properties:1: num.partition: no such setting here, nor property of a Kafka 4.4 broker; "
        "did you mean num.partitions?",
        "s.properties:2: num.partitions: expected a whole number, found 'four'",
        "s.properties:3: transaction.max.timeout.ms: expected at least 1, found 0",
        "s.properties:4: delete.topic.enable: expected true or false, found 'yes'",
        "s.properties:5: listeners: listener SASL_SSL: SASL_SSL needs ssl.keystore.location, or "
        "ssl.keystore.key and ssl.keystore.certificate.chain",
        "s.properties:6: transaction_version: no such setting here, nor property of a Kafka 4.4 "
        "broker",
        "s.properties:7: plain.sasl.jaas.config: it needs its listener in front: "
        "listener.name.LISTENER.plain.sasl.jaas.config",
        "s.properties:8: listener.name.sasl_ssl.ssl.nothing: no such setting here, nor property of "
        "a Kafka 4.4 broker",
        "s.properties:9: listener.name.other.ssl.keystore.type: there is no listener other, only "
        "sasl_ssl",
    ]


def test_a_setting_of_no_scalar_type_is_refused(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "n.yaml", "settings:\n  num_partitions: [1]\n")) == [
        "n.yaml:2: settings.num_partitions: expected a whole number, found [1]",
    ]


def test_a_setting_given_under_both_names_is_refused(tmp_path: Path) -> None:
    text = "settings:\n  num_partitions: 1\n  num.partitions: 2\n"
    assert problems(write(tmp_path, "twice.yaml", text)) == [
        "twice.yaml:3: settings.num.partitions: given twice, under our name and under Kafka's"
    ]


def test_a_property_without_effect_is_known_in_yaml_too(tmp_path: Path) -> None:
    found = load(write(tmp_path, "c.yaml", "settings: {log.preallocate: true}\n"))
    assert len(found.warnings) == 1
    assert "log.preallocate" in found.warnings[0]


def test_hours_minutes_and_fractions_are_read(tmp_path: Path) -> None:
    properties = "log.retention.hours=24\nlog.roll.ms=7\nlog.cleaner.min.cleanable.ratio=.25\n"
    section = "{log.retention.hours: 24, log.roll.ms: 7, log.cleaner.min.cleanable.ratio: 0.25}"
    for path in (
        write(tmp_path, "h.properties", properties),
        write(tmp_path, "h.yaml", f"settings: {section}\n"),
    ):
        found = load(path)
        assert found.warnings == ()
        assert found.settings.log_retention_hours == 24
        assert found.settings.log_retention_minutes is None
        assert found.settings.log_roll_ms == 7
        assert found.settings.log_cleaner_min_cleanable_ratio == 0.25


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("log.cleaner.min.cleanable.ratio=half", "expected a number, found 'half'"),
        ("log.cleaner.min.cleanable.ratio=1.5", "expected at most 1, found 1.5"),
        ("log.retention.minutes=soon", "expected a whole number, found 'soon'"),
        ("log.retention.ms=0", "must not be 0"),
        ("compression.gzip.level=0", "must not be 0"),
    ],
)
def test_numbers_that_a_broker_would_refuse_are_refused(
    tmp_path: Path, line: str, why: str
) -> None:
    name = line.partition("=")[0]
    assert problems(write(tmp_path, "n.properties", line + "\n")) == [
        f"n.properties:1: {name}: {why}"
    ]


def test_of_a_repeated_property_the_last_one_wins_as_in_java(tmp_path: Path) -> None:
    path = write(tmp_path, "r.properties", "num.partitions=2\nnum.partitions=3\n")
    found = load(path)
    assert found.settings.num_partitions == 3
    assert found.warnings == (f"{path}:1: num.partitions: repeated further down, which wins",)


def test_a_listener_that_is_taken_oddly_is_warned_about(tmp_path: Path) -> None:
    text = "advertised.listeners=PLAINTEXT://a:1\n"
    path = write(tmp_path, "l.properties", text)
    assert load(path).warnings == (
        f"{path}:1: advertised.listeners: where there are several brokers, clients get the real "
        "port, 9092",
    )


def test_security_without_a_use_is_named(tmp_path: Path) -> None:
    text = """listeners=PLAINTEXT://a:1,CONTROLLER://b:2
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
listener.name.plaintext.plain.sasl.jaas.config=x
listener.name.plaintext.ssl.keystore.type=PEM
listener.name.plaintext.ssl.provider=x
listener.name.controller.ssl.keystore.type=PEM
sasl.kerberos.service.name=kafka
inter.broker.listener.name=PLAINTEXT
super.users=User:admin
"""
    path = write(tmp_path, "s.properties", text)
    found = load(path)
    assert found.security is None
    front = f"{path}: without effect, because"
    assert found.warnings == (
        f"{front} no listener has a use for it: ssl.keystore.type, "
        "listener.name.plaintext.ssl.keystore.type, super.users",
        f"{front} it needs listener and mechanism: listener.name.NAME.plain.sasl.jaas.config: "
        "listener.name.plaintext.plain.sasl.jaas.config",
        f"{front} OpenSSL decides on that: listener.name.plaintext.ssl.provider",
        f"{front} brokers and controller share one process; brokers are numbered from 1: "
        "listener.name.controller.ssl.keystore.type, inter.broker.listener.name",
        f"{front} Kerberos is not spoken: sasl.kerberos.service.name",
    )


def test_a_listener_may_have_security_of_its_own(tmp_path: Path) -> None:
    text = """listeners=OUTSIDE://:9093
listener.security.protocol.map=OUTSIDE:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.outside.plain.sasl.jaas.config=a.P required user_alice="secret";
"""
    found = load(write(tmp_path, "s.properties", text))
    assert found.warnings == ()
    assert (found.host, found.port) == ("0.0.0.0", 9093)
    options = found.onto(ClusterOptions())
    assert not options.security.has_plain_listener
    assert options.security.listeners[0].plain_users == {"alice": "secret"}


def test_yaml_has_a_section_for_it(tmp_path: Path) -> None:
    text = """security:
  listeners: {SASL_PLAINTEXT: {port: 9392}}
  plain_users: {alice: secret}
"""
    found = load(write(tmp_path, "s.yaml", text))
    assert found.security is not None
    assert found.security.plain_users == {"alice": "secret"}
    assert problems(write(tmp_path, "t.yaml", "security:\n  listeners: {SSL: {}}\n")) == [
        "t.yaml:1: security: listener SSL: SSL needs TLS files"
    ]
    assert problems(write(tmp_path, "u.yaml", "settings: {super.users: 'User:a'}\n")) == [
        "u.yaml:1: settings.super.users: the section security has it"
    ]


def test_what_is_missing_is_named_with_the_line_that_it_belongs_to(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("brokers: 1\nsecurity:\n  tls:\n    certificate: a.pem\n")
    with pytest.raises(ConfigError, match=r"cluster\.yaml:3: security\.tls\.key: is missing"):
        load(file)


def test_a_wrong_type_of_value_is_not_converted_in_silence(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "t.yaml", "port: '9092'\n")) == [
        "t.yaml:1: port: expected a whole number, found '9092'"
    ]


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert problems(write(tmp_path, "cluster.toml", "")) == [
        "cluster.toml: expected .yaml, .yml or .properties, found .toml"
    ]
    assert problems(tmp_path / "absent.yaml") == [
        "absent.yaml: can't be read: No such file or directory"
    ]


@pytest.mark.slow
def test_pydantic_is_imported_only_when_a_file_is_read() -> None:
    program = (
        "import sys, txnsim.config; sys.exit('pydantic' in sys.modules or 'yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_settings_of_a_program_go_by_both_names_and_are_judged_like_a_file() -> None:
    found, warnings = settings_of(
        {
            "transaction.max.timeout.ms": 60_000,
            "transaction_partition_verification_enable": False,
            "log.dirs": "somewhere",
        },
        where="SimulatedKafka",
    )
    assert found.transaction_max_timeout_ms == 60_000
    assert found.transaction_partition_verification_enable is False
    (warning,) = warnings
    assert warning.startswith("SimulatedKafka: without effect, because ")
    assert warning.endswith(": log.dirs")


def test_names_of_nobody_do_not_pass_in_a_program_which_is_copied_from_no_broker() -> None:
    with pytest.raises(ConfigError, match=r"settings\.jmx\.port: no such setting here"):
        settings_of({"jmx.port": 1}, where="SimulatedKafka")


def test_wrong_settings_of_a_program_are_named_without_a_line() -> None:
    with pytest.raises(ConfigError) as refusal:
        settings_of(
            {
                "transaction.max.timeout": 1,
                "transaction_version": "2",
                "ssl.keystore.location": "keys",
            },
            where="SimulatedKafka",
        )
    assert str(refusal.value).splitlines() == [
        "SimulatedKafka: settings.ssl.keystore.location: the section security has it",
        "SimulatedKafka: settings.transaction.max.timeout: no such setting here, nor property of a "
        "Kafka 4.4 broker; did you mean transaction.max.timeout.ms?",
        "SimulatedKafka: settings.transaction_version: expected a whole number, found '2'",
    ]


@pytest.mark.parametrize("name", ["no.such.name", "num.partitions"])
def test_a_file_that_is_nothing_but_wrong_is_not_searched_to_its_end(
    name: str, tmp_path: Path
) -> None:
    """To find what was meant takes milliseconds for each name, whether it is near one or not."""
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}.{number}=x\n" for number in range(100_000)))
    with pytest.raises(ConfigError) as caught:
        load(file)
    *told, last = str(caught.value).splitlines()
    assert len(told) == PROBLEMS_MAX
    assert last == f"{file}: 100 problems; more are not looked for"


def test_a_factor_that_is_set_counts_as_set_through_every_door_also_at_kafkas_default(
    tmp_path: Path,
) -> None:
    """A variable ``KAFKA_…`` becomes a properties file, ``@pytest.mark.txnsim`` a mapping."""
    name = "transaction.state.log.replication.factor"
    assert DEFAULTS.transaction_state_log_replication_factor is None
    through = (
        load(write(tmp_path, "a.properties", f"{name}=3\n")).settings,
        load(write(tmp_path, "a.yaml", f"settings: {{{name}: 3}}\n")).settings,
        load(write(tmp_path, "b.yaml", f"settings: {{{name.replace('.', '_')}: 3}}\n")).settings,
        settings_of({name: 3}, where="test")[0],
    )
    assert [one.transaction_state_log_replication_factor for one in through] == [3, 3, 3, 3]


def test_in_yaml_a_name_of_kafkas_kind_that_is_near_nothing_passes_and_others_do_not(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a.yaml", "settings: {confluent.balancer.enable: true, jmx.port: 1}\n")
    (warning,) = load(path).warnings
    assert warning.endswith("has no such property: confluent.balancer.enable, jmx.port")
    path = write(tmp_path, "b.yaml", "settings: {frobnicate: 1, my.reporter.port: 1}\n")
    assert problems(path) == [
        "b.yaml:1: settings.frobnicate: no such setting here, nor property of a Kafka 4.4 broker",
    ]
    many = "".join(f"  no.such.name.{number}: 1\n" for number in range(PROBLEMS_MAX + 1))
    assert len(problems(write(tmp_path, "c.yaml", f"settings:\n{many}"))) == PROBLEMS_MAX + 1


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        tuple(line.split(" -> "))
        for line in Path(__file__).with_name("group_settings_of_4_4.txt").read_text().splitlines()
    ],
)
def test_settings_of_groups_are_refused_where_a_real_broker_does_not_start(
    given: str, answer: str, tmp_path: Path
) -> None:
    """The words are those of KafkaConfig of 4.4.0; where one value alone is out of bounds, ours."""
    file = write(tmp_path, "server.properties", given.replace(" ", "\n"))
    if answer == "ok":
        assert not load(file).warnings
        return
    (line,) = problems(file)
    assert "expected at " in line if answer == "out of bounds" else line.endswith(f": {answer}")


def test_a_program_is_told_that_settings_of_groups_do_not_agree() -> None:
    with pytest.raises(ConfigError) as refused:
        settings_of({"group_share_min_session_timeout_ms": 60_001}, where="here")
    assert str(refused.value) == (
        "here: settings.group_share_min_session_timeout_ms: group.share.max.session.timeout.ms "
        "must be greater than or equal to group.share.min.session.timeout.ms"
    )
