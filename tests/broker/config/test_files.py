"""Files to settings: what a file means, and how precisely a wrong one is refused."""

from __future__ import annotations

import subprocess
import sys
import time  # noqa: TID251 - measures the CPU time of a pure function
import tracemalloc
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.support.yaml_bombs import BOMBS
from txnsim.config import Configuration, load, settings_of, yaml_bounds
from txnsim.config._files import PROBLEMS_MAX
from txnsim.config._model import ClusterFile, settings_model
from txnsim.config.complaints import (
    in_words,
    members_of,
    place_of,
    problems_in,
    without_other_kinds,
)
from txnsim.config.json_schema import cluster_schema
from txnsim.config.yaml_bounds import DEPTH_MAX, read_mapping
from txnsim.errors import ConfigError
from txnsim.replica.read_replicas import RACK_SELECTOR
from txnsim.server.options import ClusterOptions
from txnsim.settings import DEFAULTS, documentation, values_without_effect

# Files to settings: what a file means, and how precisely a wrong one is refused.


def write(folder: Path, file_name: str, text: str) -> Path:
    path = folder / file_name
    path.write_text(text, "utf-8")
    return path


def problems(path: Path) -> list[str]:
    """The complaints of ``load`` about a file, without the folder's path."""
    with pytest.raises(ConfigError) as error_info:
        load(path)
    return [line.removeprefix(f"{path.parent}/") for line in str(error_info.value).splitlines()]


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
    config = load(path)
    assert (config.brokers, config.host, config.port) == (5, "0.0.0.0", 19092)
    assert (config.advertised_host, config.http_port) == ("kafka.test", 9090)
    assert config.topics == (("orders", 3), ("payments", 1))
    assert config.settings.transaction_max_timeout_ms == 60_000
    assert config.settings.transaction_partition_verification_enable is False
    assert config.settings.transaction_version == 0
    assert config.settings.message_timestamp_type == "LogAppendTime"
    assert config.settings.segment_bytes == DEFAULTS.segment_bytes
    assert config.warnings == ()


def test_what_the_file_does_not_say_is_left_as_it_was(tmp_path: Path) -> None:
    options_before = ClusterOptions(brokers=1, port=0, topics=(("a", 1),))
    options_after = load(write(tmp_path, "c.yaml", "host: 0.0.0.0\ntopics: {b: 2}\n")).onto(
        options_before
    )
    assert options_after == ClusterOptions(
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
    config = load(path)
    assert (config.host, config.port, config.advertised_host) == ("0.0.0.0", 19092, "kafka.test")
    assert config.settings.num_partitions == 6
    assert config.settings.auto_create_topics_enable is False
    assert config.settings.segment_bytes == 1_048_576
    assert config.settings.message_timestamp_type == "LogAppendTime"
    assert (config.brokers, config.first_broker_id) == (1, 1)
    assert config.warnings == (
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
        "first_broker_id, racks, host, port, advertised_host, http, as_version, topics, security, "
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


WARMUPS: Final = "group.streams.num.warmup.replicas"
"""A setting since 4.4."""


@pytest.mark.parametrize(
    ("file_name", "text"),
    [
        ("s.properties", f"{WARMUPS}=1\nnum.partitions=3\n"),
        ("kafka.yaml", f"settings: {{{WARMUPS}: 1, num.partitions: 3}}\n"),
        ("ours.yaml", f"settings: {{{WARMUPS.replace('.', '_')}: 1, num_partitions: 3}}\n"),
    ],
)
def test_a_setting_that_the_release_does_not_have_is_ignored_with_a_warning(
    file_name: str, text: str, tmp_path: Path
) -> None:
    path = write(tmp_path, file_name, text)
    config = load(path, as_version=("4.3",))
    assert config.warnings == (
        f"{path}: without effect, because a broker of Apache Kafka 4.3 has no such property: "
        f"{WARMUPS}",
    )
    assert config.settings.group_streams_num_warmup_replicas == (
        DEFAULTS.group_streams_num_warmup_replicas
    )
    assert config.settings.num_partitions == 3
    assert values_without_effect(config.settings) == {WARMUPS: "1"}
    for as_version in ((), ("4.4",), ("4.3,2=4.4",), ("2=4.3",), ("4.3", "4.5")):
        config = load(path, as_version=as_version)
        assert config.warnings == (), as_version
        assert config.settings.group_streams_num_warmup_replicas == 1, as_version


def test_the_release_that_a_file_names_reads_it_unless_the_command_line_names_another(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a.yaml", f"as_version: '4.3'\nsettings: {{{WARMUPS}: 1}}\n")
    assert "Apache Kafka 4.3 has no such" in load(path).warnings[0]
    assert load(path, as_version=("4.4",)).warnings == ()
    assert load(path, as_version=("2=4.4",)).warnings == ()
    path = write(tmp_path, "b.yaml", "brokers: 1\nas_version: '4.7'\n")
    (problem_text,) = problems(path)
    assert problem_text.startswith("b.yaml:2: as_version: there is no release '4.7' here, only ")


def test_the_bounds_of_a_value_are_those_of_the_release(tmp_path: Path) -> None:
    path = write(tmp_path, "small.properties", "log.segment.bytes=100\n")
    complaint = "small.properties:1: log.segment.bytes: expected at least 1048576, found 100"
    assert problems(path) == [complaint]
    assert load(path, as_version=("3.9",)).settings.segment_bytes == 100
    with pytest.raises(ConfigError, match="expected at least 1048576"):
        load(path, as_version=("3.9,2=4.0",))
    # A definition without bounds (2.8) is no leave for any value: LogConfig refuses it there.
    path = write(tmp_path, "ratio.properties", "log.cleaner.min.cleanable.ratio=.25\n")
    assert load(path, as_version=("2.8",)).settings.log_cleaner_min_cleanable_ratio == 0.25
    path = write(tmp_path, "ratio.properties", "log.cleaner.min.cleanable.ratio=1.5\n")
    with pytest.raises(ConfigError, match=r"expected at most 1, found 1\.5"):
        load(path, as_version=("2.8",))
    path = write(tmp_path, "threads.properties", "remote.log.manager.copier.thread.pool.size=-1\n")
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        load(path)
    assert load(path, as_version=("3.9",)).brokers is None


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
    config = load(write(tmp_path, "c.yaml", "settings: {log.preallocate: true}\n"))
    assert len(config.warnings) == 1
    assert "log.preallocate" in config.warnings[0]


def test_hours_minutes_and_fractions_are_read(tmp_path: Path) -> None:
    properties_text = "log.retention.hours=24\nlog.roll.ms=7\nlog.cleaner.min.cleanable.ratio=.25\n"
    section_text = (
        "{log.retention.hours: 24, log.roll.ms: 7, log.cleaner.min.cleanable.ratio: 0.25}"
    )
    for path in (
        write(tmp_path, "h.properties", properties_text),
        write(tmp_path, "h.yaml", f"settings: {section_text}\n"),
    ):
        config = load(path)
        assert config.warnings == ()
        assert config.settings.log_retention_hours == 24
        assert config.settings.log_retention_minutes is None
        assert config.settings.log_roll_ms == 7
        assert config.settings.log_cleaner_min_cleanable_ratio == 0.25


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("log.cleaner.min.cleanable.ratio=half", "expected a number, found 'half'"),
        ("log.cleaner.min.cleanable.ratio=1.5", "expected at most 1, found 1.5"),
        ("log.retention.minutes=soon", "expected a whole number, found 'soon'"),
        ("log.retention.ms=0", "must not be 0"),
        ("compression.gzip.level=0", "must not be 0"),
    ],
)
def test_numbers_that_a_broker_would_refuse_are_refused(
    tmp_path: Path, line: str, reason: str
) -> None:
    name = line.partition("=")[0]
    assert problems(write(tmp_path, "n.properties", line + "\n")) == [
        f"n.properties:1: {name}: {reason}"
    ]


def test_of_a_repeated_property_the_last_one_wins_as_in_java(tmp_path: Path) -> None:
    path = write(tmp_path, "r.properties", "num.partitions=2\nnum.partitions=3\n")
    config = load(path)
    assert config.settings.num_partitions == 3
    assert config.warnings == (f"{path}:1: num.partitions: repeated further down, which wins",)


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
    config = load(path)
    assert config.security is None
    prefix = f"{path}: without effect, because"
    assert config.warnings == (
        f"{prefix} no listener has a use for it: ssl.keystore.type, "
        "listener.name.plaintext.ssl.keystore.type, super.users",
        f"{prefix} it needs listener and mechanism: listener.name.NAME.plain.sasl.jaas.config: "
        "listener.name.plaintext.plain.sasl.jaas.config",
        f"{prefix} OpenSSL decides on that: listener.name.plaintext.ssl.provider",
        f"{prefix} brokers and controller share one process; brokers are numbered from 1: "
        "listener.name.controller.ssl.keystore.type, inter.broker.listener.name",
        f"{prefix} Kerberos is not spoken: sasl.kerberos.service.name",
    )


def test_a_listener_may_have_security_of_its_own(tmp_path: Path) -> None:
    text = """listeners=OUTSIDE://:9093
listener.security.protocol.map=OUTSIDE:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.outside.plain.sasl.jaas.config=a.P required user_alice="secret";
"""
    config = load(write(tmp_path, "s.properties", text))
    assert config.warnings == ()
    assert (config.host, config.port) == ("0.0.0.0", 9093)
    options = config.onto(ClusterOptions())
    assert not options.security.has_plain_listener
    assert options.security.listeners[0].plain_users == {"alice": "secret"}


def test_yaml_has_a_section_for_it(tmp_path: Path) -> None:
    text = """security:
  listeners: {SASL_PLAINTEXT: {port: 9392}}
  plain_users: {alice: secret}
"""
    config = load(write(tmp_path, "s.yaml", text))
    assert config.security is not None
    assert config.security.plain_users == {"alice": "secret"}
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
        "cluster.toml: neither NAME=VALUE, as in a broker's properties, nor NAME: VALUE, as in our"
        " YAML, is in it"
    ]
    assert problems(tmp_path / "absent.yaml") == [
        "absent.yaml: can't be read: No such file or directory; check how it is spelt, and the"
        " folder that you are in"
    ]


@pytest.mark.slow
def test_pydantic_is_imported_only_when_a_file_is_read() -> None:
    program = (
        "import sys, txnsim.config; sys.exit('pydantic' in sys.modules or 'yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_settings_of_a_program_go_by_both_names_and_are_judged_like_a_file() -> None:
    settings, warnings = settings_of(
        {
            "transaction.max.timeout.ms": 60_000,
            "transaction_partition_verification_enable": False,
            "log.dirs": "somewhere",
        },
        source_name="SimulatedKafka",
    )
    assert settings.transaction_max_timeout_ms == 60_000
    assert settings.transaction_partition_verification_enable is False
    (warning,) = warnings
    assert warning.startswith("SimulatedKafka: without effect, because ")
    assert warning.endswith(": log.dirs")


def test_settings_of_a_program_are_read_as_the_releases_read_them() -> None:
    named_values = {WARMUPS: 1, "log.segment.bytes": 100}
    settings, warnings = settings_of(named_values, source_name="here", as_version=("3.9",))
    assert warnings == (
        "here: without effect, because a broker of Apache Kafka 3.9 has no such property: "
        f"{WARMUPS}",
    )
    assert settings.segment_bytes == 100
    with pytest.raises(ConfigError, match=r"log\.segment\.bytes: expected at least 1048576"):
        settings_of(named_values, source_name="here")


def test_names_of_nobody_do_not_pass_in_a_program_which_is_copied_from_no_broker() -> None:
    with pytest.raises(ConfigError, match=r"settings\.jmx\.port: no such setting here"):
        settings_of({"jmx.port": 1}, source_name="SimulatedKafka")


def test_wrong_settings_of_a_program_are_named_without_a_line() -> None:
    with pytest.raises(ConfigError) as error_info:
        settings_of(
            {
                "transaction.max.timeout": 1,
                "transaction_version": "2",
                "ssl.keystore.location": "keys",
            },
            source_name="SimulatedKafka",
        )
    assert str(error_info.value).splitlines() == [
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
    with pytest.raises(ConfigError) as error_info:
        load(file)
    *problems, last_line = str(error_info.value).splitlines()
    assert len(problems) == PROBLEMS_MAX
    assert last_line == f"{file}: 100 problems; more are not looked for"


def test_a_factor_that_is_set_counts_as_set_by_every_way_also_at_kafkas_default(
    tmp_path: Path,
) -> None:
    """A variable ``KAFKA_…`` becomes a properties file, ``@pytest.mark.txnsim`` a mapping."""
    name = "transaction.state.log.replication.factor"
    assert DEFAULTS.transaction_state_log_replication_factor is None
    through = (
        load(write(tmp_path, "a.properties", f"{name}=3\n")).settings,
        load(write(tmp_path, "a.yaml", f"settings: {{{name}: 3}}\n")).settings,
        load(write(tmp_path, "b.yaml", f"settings: {{{name.replace('.', '_')}: 3}}\n")).settings,
        settings_of({name: 3}, source_name="test")[0],
    )
    assert [settings.transaction_state_log_replication_factor for settings in through] == [
        3,
        3,
        3,
        3,
    ]


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
    many_settings = "".join(
        f"  no.such.name.{problem_number}: 1\n" for problem_number in range(PROBLEMS_MAX + 1)
    )
    assert (
        len(problems(write(tmp_path, "c.yaml", f"settings:\n{many_settings}"))) == PROBLEMS_MAX + 1
    )


@pytest.mark.parametrize(
    ("properties_text", "answer_text"),
    [
        tuple(line.split(" -> "))
        for line in Path(__file__).with_name("group_settings_of_4_4.txt").read_text().splitlines()
    ],
)
def test_settings_of_groups_are_refused_where_a_real_broker_does_not_start(
    properties_text: str, answer_text: str, tmp_path: Path
) -> None:
    """The words are those of KafkaConfig of 4.4.0; where one value alone is out of bounds, ours."""
    file = write(tmp_path, "server.properties", properties_text.replace(" ", "\n"))
    if answer_text == "ok":
        assert not load(file).warnings
        return
    (line,) = problems(file)
    assert (
        "expected at " in line
        if answer_text == "out of bounds"
        else line.endswith(f": {answer_text}")
    )


def test_a_program_is_told_that_settings_of_groups_do_not_agree() -> None:
    with pytest.raises(ConfigError) as error_info:
        settings_of({"group_share_min_session_timeout_ms": 60_001}, source_name="here")
    assert str(error_info.value) == (
        "here: settings.group_share_min_session_timeout_ms: group.share.max.session.timeout.ms "
        "must be greater than or equal to group.share.min.session.timeout.ms"
    )


# YAML that means more than it says: refused with file, line and the bound.


SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


@pytest.mark.parametrize("bomb_name", BOMBS)
def test_it_is_refused_at_once_and_in_little_memory(bomb_name: str) -> None:
    text, message = BOMBS[bomb_name]
    began = time.process_time()
    with pytest.raises(ConfigError):
        read_mapping(text.encode(), file="f")
    assert time.process_time() - began < 10
    tracemalloc.start()
    with pytest.raises(ConfigError) as error_info:
        read_mapping(text.encode(), file="f")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(error_info.value).startswith(message)
    assert peak < 64 << 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 2001-99-99", "f:1: '2001-99-99' is no timestamp"),
        ("a: 1\nb: !!int ''", "f:2: '' is no int"),
        ("a: !!bool maybe", "f:1: 'maybe' is no bool"),
        ("a: !!timestamp now", "f:1: 'now' is no timestamp"),
        ("a: !!float x", "f:1: 'x' is no float"),
    ],
)
def test_a_value_that_is_none_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error_info:
        read_mapping(text.encode(), file="f")
    assert str(error_info.value) == message


def test_aliases_within_the_bounds_are_read() -> None:
    content, _ = read_mapping(b"a: &a {x: [1, 2]}\nb: *a\n", file="f")
    assert content == {"a": {"x": [1, 2]}, "b": {"x": [1, 2]}}


def test_the_deepest_document_is_read() -> None:
    brackets = DEPTH_MAX - 2
    content, _ = read_mapping(b"a: " + b"[" * brackets + b"x" + b"]" * brackets, file="f")
    for _ in range(brackets):
        (content,) = content.values() if isinstance(content, dict) else content
    assert content == ["x"]


def mapping_or_complaint(text: str) -> object:
    try:
        return read_mapping(text.encode("utf-8", "surrogatepass"), file="f")
    except ConfigError as error:
        return str(error)


NO_YAML = (
    "a: [1",
    "a: b: c",
    "\ta: 1",
    "a: *b",
    "a: 'x",
    "a: \ud800",
    "a: \x01",
    "---\n---\n",
    "",
    "@",
)


@pytest.mark.slow
def test_the_same_is_read_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [path.read_text("utf-8") for path in sorted(SCENARIOS.glob("*.yaml"))]
    cut_texts = [text[: len(text) * part // 7] for text in stories[::9] for part in (2, 3, 5)]
    texts = [*stories[::2], *cut_texts, *NO_YAML]
    assert stories
    assert yaml_bounds.HAS_LIBYAML
    compiled = [mapping_or_complaint(text) for text in texts]
    monkeypatch.setattr(yaml_bounds, "HAS_LIBYAML", False)
    assert [mapping_or_complaint(text) for text in texts] == compiled


def test_a_text_that_libyaml_can_t_take_is_refused_in_words() -> None:
    assert str(mapping_or_complaint("a: \ud800")).startswith("f:1: no YAML: ")


def test_each_key_has_its_line() -> None:
    content, lines = read_mapping(b"a: 1\nb:\n  c: 2\n  d:\n  - e: 3\n", file="f")
    assert content == {"a": 1, "b": {"c": 2, "d": [{"e": 3}]}}
    assert lines == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "d"): 4,
        ("b", "d", "0", "e"): 5,
    }


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert read_mapping(b"", file="f") == ({}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\na: 2\n", "f:2: a: given twice, first on line 1"),
        (b"- a\n", "f:1: expected a mapping, found list"),
        (b"a: [1\nb: 2\n", "f:2: no YAML: expected ',' or ']', but got ':'"),
        (b"1: a\n", "f:1: 1: a key must be text; put it in quotes"),
        (b"a: !!python/name:os.system\n", "f:1: no YAML: could not determine a constructor"),
        (b"a: \x00\n", "f:1: no YAML: unacceptable character"),
    ],
)
def test_what_is_no_mapping_is_refused_with_its_place(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as error_info:
        read_mapping(text, file="f")
    assert str(error_info.value).startswith(message)


# pydantic's errors in words.


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    color: Literal["red", "green"] = "red"
    maybe: Literal["on", "off"] | None = None
    name: Annotated[str, Field(pattern="^[a-z]+$")] = "a"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    size: Annotated[float, Field(gt=0, lt=10)] = 1
    inner: Inner | None = None
    several: list[Inner] = []
    needed: bool
    raw: bytes = b""
    table: dict[str, Literal["on", "off"]] = {}


def complaints(value: object) -> list[str]:
    with pytest.raises(ValidationError) as error_info:
        Outer.model_validate(value)
    return [
        f"{'.'.join(map(str, value_path))}: {reason}"
        for value_path, reason in problems_in(error_info.value, Outer)
    ]


@pytest.mark.parametrize(
    ("value", "expected_text"),
    [
        ({}, "needed: is missing"),
        (
            {"needed": True, "table": {"x": 1}},
            "table.x: expected one of on, off, found 1",
        ),
        ({"needed": "yes"}, "needed: expected true or false, found 'yes'"),
        ({"needed": True, "size": 0}, "size: expected more than 0, found 0"),
        ({"needed": True, "size": 10}, "size: expected less than 10, found 10"),
        ({"needed": True, "inner": 3}, "inner: expected fields, as NAME: VALUE, found 3"),
        ({"needed": True, "several": 3}, "several: expected a list, found 3"),
        (
            {"needed": True, "inner": {"colour": "red"}},
            "inner.colour: no field 'colour'; did you mean color? there are: color, maybe, name",
        ),
        (
            {"needed": True, "inner": {"color": "gren"}},
            "inner.color: no value 'gren'; did you mean green? there are: red, green",
        ),
        (
            {"needed": True, "inner": {"color": 1}},
            "inner.color: expected one of red, green, found 1",
        ),
        (
            {"needed": True, "inner": {"maybe": "onn"}},
            "inner.maybe: no value 'onn'; did you mean on?",
        ),
        (
            {"needed": True, "inner": {"name": "A"}},
            "inner.name: expected a text of the form ^[a-z]+$",
        ),
        ({"needed": True, "raw": 1}, "raw: Input should be a valid bytes, not 1"),
    ],
)
def test_each_mistake_in_words(value: object, expected_text: str) -> None:
    assert complaints(value)[0].startswith(expected_text), complaints(value)


class Held(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    call: str
    again: Held | None = None


class OneOfSeveral(BaseModel):
    awaited: str | Held
    other: int = 0


def test_kinds_that_may_stand_for_one_another_are_no_part_of_a_place() -> None:
    members = members_of(OneOfSeveral)
    assert members == {"str", "Held", "NoneType"}
    with pytest.raises(ValidationError) as error_info:
        OneOfSeveral.model_validate({"awaited": {"cal": "x"}, "other": "x"})
    complaints = [
        (place_of(detail, members), in_words(detail, model=OneOfSeveral))
        for detail in error_info.value.errors()
    ]
    assert (("awaited",), "expected a text, found {'cal': 'x'}") in complaints
    assert sorted(without_other_kinds(complaints)) == [
        (("awaited", "cal"), "no field 'cal'; did you mean call? there are: call, again"),
        (("awaited", "call"), "is missing"),
        (("other",), "expected a whole number, found 'x'"),
    ]


# The bounds of what a file may say.


def test_every_setting_can_be_given_and_its_default_is_within_bounds() -> None:
    defaults = {field_name: getattr(DEFAULTS, field_name) for field_name in documentation()}
    assert settings_model().model_validate(defaults).model_dump() == defaults


@pytest.mark.parametrize(
    ("field_name", "refused_value", "accepted_value"),
    [
        ("transaction_max_timeout_ms", 0, 1),
        ("transaction_max_timeout_ms", 2**31, 2**31 - 1),
        ("transaction_state_log_replication_factor", 2**15, 2**15 - 1),
        ("message_timestamp_before_max_ms", -1, 2**63 - 1),
        ("segment_bytes", 2**20 - 1, 2**20),
        ("fetch_max_bytes", 1023, 1024),
        ("group_min_session_timeout_ms", -1, 0),  # Kafka Streams' own tests set 0
        ("transaction_version", 3, 0),
        ("cluster_id", "short", "AAAAAAAAAAAAAAAAAAAAAA"),
        ("message_timestamp_type", "Createtime", "CreateTime"),
        ("delete_topic_enable", 1, False),
        ("log_retention_minutes", 0, None),
        ("log_retention_minutes", 2**31, -5),
        ("log_cleaner_min_cleanable_ratio", 1.5, 0.0),
        ("compression_gzip_level", 0, -1),
        ("replica_selector_class", "my.Selector", RACK_SELECTOR),
    ],
)
def test_bounds_are_those_of_kafkas_own_definition(
    field_name: str, refused_value: object, accepted_value: object
) -> None:
    assert (
        getattr(settings_model().model_validate({field_name: accepted_value}), field_name)
        == accepted_value
    )
    with pytest.raises(ValidationError):
        settings_model().model_validate({field_name: refused_value})


def test_a_file_that_says_nothing_leaves_everything_open() -> None:
    assert ClusterFile().model_dump(exclude={"topics", "settings"}) == {
        "security": None,
        "brokers": None,
        "first_broker_id": None,
        "racks": None,
        "host": None,
        "port": None,
        "advertised_host": None,
        "as_version": None,
        "http": None,
    }


JUDGE = jsonschema.Draft202012Validator(cluster_schema())


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"brokers": 3, "http": 9080, "topics": {"orders": 3}, "as_version": "3.9"},
        {"settings": {"transaction_max_timeout_ms": 60000}},
        {"settings": {"transaction.max.timeout.ms": 60000, "log.dirs": "/var/lib/kafka"}},
    ],
)
def test_what_serve_takes_is_accepted(document: dict[str, Any]) -> None:
    assert list(JUDGE.iter_errors(document)) == []


@pytest.mark.parametrize(
    "document",
    [
        {"broker": 3},
        {"brokers": 0},
        {"topics": {"orders": 0}},
        {"settings": {"transaction.max.timeout.ms": "long"}},
        {"settings": {"transaction_max_timeout_ms": 0}},
        {"security": {"listener": {}}},
    ],
    ids=str,
)
def test_what_it_refuses_is_refused(document: dict[str, Any]) -> None:
    assert list(JUDGE.iter_errors(document))


def test_racks_are_one_for_each_broker(tmp_path: Path) -> None:
    config = load(write(tmp_path, "a.yaml", "brokers: 2\nracks: [east, west]\n"))
    assert config.onto(ClusterOptions()).racks == ("east", "west")
    assert problems(write(tmp_path, "b.yaml", "racks: [east, '']\n")) == [
        "b.yaml:1: racks.1: expected a text, found ''"
    ]
