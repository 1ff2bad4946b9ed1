"""The vocabulary, its settings and errors: values that compare, hash and refuse to change."""

from __future__ import annotations

import inspect
import re
import sys
import uuid
from functools import partial
from pathlib import Path

import msgspec
import pytest

import txnsim.types
from txnsim import errors, on_demand_imports
from txnsim.errors import (
    SHOWN_MAX,
    ClientError,
    ErrorCode,
    MissingExtraError,
    PeerAnsweredError,
    Rejection,
    TxnsimError,
    in_short,
)
from txnsim.faults import interception, subjects
from txnsim.group import commands as group_commands
from txnsim.group import consumer_records, offset_commands, records
from txnsim.interbroker import lifecycle, replication, share_state, transactions
from txnsim.on_demand_imports import OnDemand
from txnsim.settings import DEFAULTS, Setting, Settings, complete_setting, documentation
from txnsim.txn import commands
from txnsim.types import (
    Decision,
    IsolationLevel,
    TopicPartition,
    TransactionVersion,
    hash_bucket,
    hash_buckets,
    java_hash,
    partition_for,
    uuid_from,
    uuid_text,
)

# The vocabulary: values that compare, hash and refuse to change.


MODULES = (
    *(txnsim.types, interception, subjects, lifecycle, replication, share_state, transactions),
    commands,
    *(group_commands, offset_commands, records, consumer_records),
)
"""What is asked, answered and stored: values without behaviour."""

IN_ORDER = {
    TopicPartition: ("topic", "partition"),
    share_state.ShareKey: ("group_id", "topic_id", "partition"),
    share_state.StateBatch: ("first_offset", "last_offset", "delivery_state", "delivery_count"),
}
"""Values that are too many to be named by keyword, and can't be mistaken."""
STRUCTS = [
    exported_class
    for module in MODULES
    for _name, exported_class in inspect.getmembers(module, inspect.isclass)
    if issubclass(exported_class, msgspec.Struct) and exported_class.__module__ == module.__name__
]


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_value_is_frozen_and_named_by_keyword(struct: type[msgspec.Struct]) -> None:
    assert struct.__struct_config__.frozen
    positional = [
        f.name for f in msgspec.structs.fields(struct) if not _keyword_only(struct, f.name)
    ]
    assert positional == list(IN_ORDER.get(struct, ()))


def _keyword_only(struct: type[msgspec.Struct], field_name: str) -> bool:
    kind = inspect.signature(struct).parameters[field_name].kind
    return kind is inspect.Parameter.KEYWORD_ONLY


def test_partitions_sort_by_topic_then_number_and_print_as_kafka_prints_them() -> None:
    partitions = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]
    assert [str(partition) for partition in sorted(partitions)] == ["a-2", "a-10", "b-0"]


def test_equal_values_are_one_key() -> None:
    assert len({TopicPartition("a", 0), TopicPartition("a", 0)}) == 1


def test_a_decision_appends_nothing_by_default() -> None:
    decision: Decision[object, str, object] = Decision(reply="ok")
    assert (decision.records, decision.effects) == ((), ())


def test_numbers_are_those_of_the_wire() -> None:
    assert [level.value for level in IsolationLevel] == [0, 1]
    assert [version.value for version in TransactionVersion] == [0, 1, 2]


def test_the_vocabulary_imports_nothing_of_ours() -> None:
    names = {
        attribute_value.__module__
        for attribute_value in vars(txnsim.types).values()
        if hasattr(attribute_value, "__module__")
    }
    assert {name for name in names if name.startswith("txnsim")} == {"txnsim.types"}


# Placement of transactional ids and groups, pinned to values of Kafka's own function


@pytest.mark.parametrize(
    ("coordinated_id", "of_50", "of_3"),
    [
        ("my-txn-id", 11, 2),
        ("txn-1", 10, 2),
        ("test-transactional-id", 40, 0),
        ("", 0, 0),
        ("a", 47, 1),
        ("polygenelubricants", 0, 0),  # hashes to the lowest int, which has no positive twin
        ("té-été", 0, 0),
        ("😀", 49, 1),  # two UTF-16 code units
    ],
)
def test_ids_go_where_java_hash_codes_send_them(coordinated_id: str, of_50: int, of_3: int) -> None:
    assert partition_for(coordinated_id, 50) == of_50
    assert partition_for(coordinated_id, 3) == of_3


@pytest.mark.parametrize(
    ("text", "expected_number"),
    [("", 0), ("a", 97), ("polygenelubricants", -(2**31)), ("my-txn-id", 1_405_732_511)],
)
def test_hash_codes_are_javas(text: str, expected_number: int) -> None:
    assert java_hash(text) == expected_number


def test_the_order_of_a_hash_set_is_javas() -> None:
    """A real 4.4.0 gives the same reasons."""
    of_3 = partial(hash_bucket, hash_buckets(3))
    assert sorted(["a/b", ".", ""], key=of_3) == ["", "a/b", "."]
    names = ["metadata-missing", "bad name", ""]
    assert sorted(names, key=of_3) == ["", "bad name", "metadata-missing"]
    assert (hash_buckets(0), hash_buckets(11), hash_buckets(12), hash_buckets(40)) == (
        *(16, 16, 32, 64),
    )


# Every setting once.


def test_every_field_is_documented_in_order() -> None:
    fields = [field.name for field in msgspec.structs.fields(Settings)]
    assert list(documentation()) == fields
    assert all(isinstance(setting, Setting) for setting in documentation().values())


def test_the_defaults_are_those_of_a_fresh_value() -> None:
    assert Settings() == DEFAULTS


def test_no_two_settings_share_kafkas_name() -> None:
    names = [setting.kafka for setting in documentation().values() if setting.kafka is not None]
    assert sorted(set(names)) == sorted(names)


def test_a_default_that_differs_from_kafkas_says_so() -> None:
    for field_name, setting in documentation().items():
        assert setting.kafka_default != getattr(DEFAULTS, field_name), field_name


@pytest.mark.parametrize(
    ("field_name", "kafka"),
    [
        # KafkaConfig.configDef() of Apache Kafka 4.3.1
        ("transaction_max_timeout_ms", 900_000),
        ("transactional_id_expiration_ms", 604_800_000),
        ("transaction_abort_timed_out_cleanup_interval_ms", 10_000),
        ("transaction_remove_expired_cleanup_interval_ms", 3_600_000),
        ("transaction_two_phase_commit_enable", False),
        ("transaction_state_log_num_partitions", 50),
        ("transaction_state_log_replication_factor", 3),
        ("transaction_state_log_min_isr", 2),
        ("transaction_state_log_segment_bytes", 104_857_600),
        ("transaction_partition_verification_enable", True),
        ("add_partitions_to_txn_retry_backoff_ms", 20),
        ("add_partitions_to_txn_retry_backoff_max_ms", 100),
        ("producer_id_expiration_ms", 86_400_000),
        ("producer_id_expiration_check_interval_ms", 600_000),
        ("message_max_bytes", 1_048_588),
        ("message_timestamp_before_max_ms", 9_223_372_036_854_775_807),
        ("message_timestamp_type", "CreateTime"),
        ("min_insync_replicas", 1),
        ("segment_bytes", 1_073_741_824),
        ("fetch_max_bytes", 57_671_680),
        ("max_incremental_fetch_session_cache_slots", 1_000),
        ("num_partitions", 1),
        ("default_replication_factor", 1),
        ("auto_create_topics_enable", True),
        ("delete_topic_enable", True),
        ("request_timeout_ms", 30_000),
        ("socket_request_max_bytes", 104_857_600),
        ("max_request_partition_size_limit", 2_000),
    ],
)
def test_a_default_is_kafkas_or_names_kafkas(field_name: str, kafka: object) -> None:
    kafka_default = documentation()[field_name].kafka_default
    assert (
        getattr(DEFAULTS, field_name) if kafka_default is msgspec.UNSET else kafka_default
    ) == kafka


def test_settings_are_values() -> None:
    changed_settings = Settings(num_partitions=4)
    assert changed_settings != DEFAULTS
    assert hash(changed_settings) == hash(Settings(num_partitions=4))
    with pytest.raises(AttributeError):
        changed_settings.num_partitions = 5  # type: ignore[misc]  # that it is refused is the point


# What is said of one setting


def test_a_setting_as_apache_kafka_has_it_names_no_other_default() -> None:
    setting = complete_setting("log_roll_ms", int, Setting(purpose="segments end"))
    assert setting == Setting(kafka="log.roll.ms", unit="ms", purpose="segments end")
    assert setting.kafka_default is msgspec.UNSET


def test_what_counts_where_it_is_not_set_is_part_of_what_is_said() -> None:
    assert Setting(purpose="segments end", unset="never").reason == "segments end; unset: never"
    assert Setting(purpose="segments end").reason == "segments end"


def test_a_name_of_kafkas_that_differs_is_kept() -> None:
    setting = complete_setting("segment_bytes", int, Setting(purpose="", kafka="log.segment.bytes"))
    assert setting.kafka == "log.segment.bytes"


def test_a_setting_of_ours_alone_has_no_name_of_kafkas() -> None:
    assert complete_setting("own_ms", int, Setting(purpose="ours", kafka=None)).kafka is None


def test_the_unit_is_the_end_of_the_name_unless_it_is_said() -> None:
    assert complete_setting("check_interval_seconds", int, Setting(purpose="")).unit == "s"
    assert complete_setting("log_cleaner_enable", bool, Setting(purpose="")).unit == "boolean"
    assert complete_setting("min_insync_replicas", int, Setting(purpose="")).unit == "replicas"
    assert (
        complete_setting("group_max_size", int, Setting(purpose="", unit="members")).unit
        == "members"
    )


# The exception tree is the one that its docstring draws.


EXCEPTIONS = [
    exported_class
    for _name, exported_class in inspect.getmembers(errors, inspect.isclass)
    if issubclass(exported_class, Exception) and exported_class.__module__ == "txnsim.errors"
]


def test_the_drawing_shows_every_exception_below_its_base() -> None:
    drawn_parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in inspect.getsource(errors).split('"""')[1].splitlines():
        if match := re.match(r"    ([│├└─ ]*)(\w*Error|InvariantViolation)\b", line):
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            drawn_parents[match[2]] = path[depth - 1] if depth else None
    real_parents = {
        exception_class.__name__: None
        if exception_class is TxnsimError
        else exception_class.__base__.__name__
        for exception_class in EXCEPTIONS
        if exception_class.__base__ is not None
    }
    assert drawn_parents == real_parents


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_one_except_clause_catches_them_all(exception: type[Exception]) -> None:
    assert issubclass(exception, TxnsimError)


def test_a_client_error_may_carry_kafkas_code() -> None:
    refusal_error = ClientError("no", error=ErrorCode.producer_fenced)
    assert (str(refusal_error), refusal_error.error) == ("no", ErrorCode.producer_fenced)
    assert ClientError("no").error is None


def test_a_broker_that_only_answers_a_code_hands_it_over() -> None:
    peer_error = PeerAnsweredError("no", error=6)
    assert (str(peer_error), peer_error.error) == ("no", 6)


def test_a_rejection_is_a_value() -> None:
    rejection = Rejection(error=ErrorCode.invalid_txn_state, reason="expected Ongoing, found Empty")
    assert rejection == Rejection(error=ErrorCode.invalid_txn_state, reason=rejection.reason)
    assert not isinstance(rejection, Exception)


def test_every_public_name_is_exported() -> None:
    assert {exception_class.__name__ for exception_class in EXCEPTIONS} <= set(errors.__all__)


def test_a_long_value_is_cut_in_a_message() -> None:
    assert in_short("x") == "'x'"
    assert in_short("x" * 1_000) == f"'{'x' * (SHOWN_MAX - 1)}… (1002 characters)"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a package that is an extension of txnsim; return its name."""
    folder = tmp_path / "extension_of_a_test"
    (folder / "cli").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "cli" / "__init__.py").touch()
    (folder / "cli" / "commands.py").write_text("TABLE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(on_demand_imports, "EXTENSIONS", (folder.name, "no_such_extension"))
    for name in ("", ".cli", ".cli.commands"):
        monkeypatch.delitem(sys.modules, f"{folder.name}{name}", raising=False)
    return folder.name


def test_what_an_extension_offers_is_imported_when_it_is_asked_for(package: str) -> None:
    modules = on_demand_imports.offered("cli.commands")
    assert package not in sys.modules
    assert [module.TABLE for module in modules] == [7]
    assert list(on_demand_imports.offered("http.control_port")) == []
    assert on_demand_imports.missing() == ("no_such_extension",)


def test_what_is_borrowed_names_the_package_that_is_missing(package: str) -> None:
    assert on_demand_imports.borrowed(f"{package}.cli.commands", "commands").TABLE == 7
    for module_name in ("no_such_extension.check", f"{package}.check"):
        missing = module_name.partition(".")[0]
        with pytest.raises(MissingExtraError, match=f"^`x` comes with {missing}, which is not"):
            on_demand_imports.borrowed(module_name, "`x`")


def test_a_package_of_which_only_data_is_there_is_missing(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / package / "__init__.py").unlink()
    assert on_demand_imports.missing() == (package, "no_such_extension")


def test_libraries_of_an_extra_are_asked_for_by_name() -> None:
    on_demand_imports.require_libraries("http", "msgspec", "json")
    with pytest.raises(MissingExtraError, match=r"the extra spark is not installed: pip install"):
        on_demand_imports.require_libraries("spark", "json", "no_such_library")


# What stands for a module is imported with the first attribute that is asked for


MODULE = "wsgiref.validate"


def test_a_module_is_imported_when_something_of_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    on_demand_module = OnDemand(MODULE)
    assert MODULE not in sys.modules
    validator = on_demand_module.validator
    assert validator is sys.modules[MODULE].validator
    assert vars(on_demand_module)["validator"] is validator, "asked for again it is an attribute"
    with pytest.raises(AttributeError, match="nothing"):
        _ = on_demand_module.nothing


# Ids


def test_an_id_is_written_as_kafka_writes_it_and_read_again() -> None:
    topic_id = uuid.UUID("a87066ee-a174-41e0-af1f-10a65ad099db")
    assert uuid_text(topic_id) == "qHBm7qF0QeCvHxCmWtCZ2w"
    assert uuid_from("qHBm7qF0QeCvHxCmWtCZ2w") == topic_id
    assert uuid_text(uuid.UUID(int=0)) == "A" * 22


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "é" * 22])
def test_what_is_no_id_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is no id of 22 characters"):
        uuid_from(text)
