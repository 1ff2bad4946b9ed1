"""The contents of a file, as pydantic models. Imported only when a file is read.

The bounds are those of Kafka's ConfigDef, from the table of settings: a value that a real broker
refuses at start is refused here too.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from txnsim.metadata.config_keys import ConfigKey, ConfigType, config_key
from txnsim.metadata.settings_table import setting_rows
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.replica.read_replicas import REPLICA_SELECTORS
from txnsim.security.acls import WILDCARD
from txnsim.security.options import FAILURE_DELAY_MS
from txnsim.security.principal_mapping import DEFAULT
from txnsim.security.sasl import UNSECURED_TOKEN_RULES
from txnsim.settings import Settings, fields_by_kafka_name

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT32_MIN: Final = -(2**31)
INT64_MIN: Final = -(2**63)

BROKERS_MAX: Final = 100
"""A limit of our own: all brokers share one event loop."""

_LOWEST_VALUES: Final = {
    "compression_gzip_level": -1,
    "coordinator_load_min_ms": 0,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 0,
    "log_budget_bytes": 0,
    "log_cleaner_io_buffer_load_factor": 0,
    "log_retention_bytes": INT64_MIN,
    "log_retention_hours": INT32_MIN,
    "log_retention_minutes": INT32_MIN,
    "log_retention_ms": INT64_MIN,
    "log_roll_jitter_ms": 0,
    "memory_max_bytes": 0,
    "offset_metadata_max_bytes": 0,
    "replica_fetch_backoff_ms": 1,
    "replica_fetch_max_bytes": 1,
    "replica_fetch_response_max_bytes": 1,
    "transaction_version": 0,
}
"""Lower bounds that are neither 1 nor in the table of settings: of our own settings, what Kafka
bounds where it uses it (KafkaConfig.validateValues), and where 0 would make a follower ask without
a pause.
"""

_HIGHEST_VALUES: Final = {
    "compression_gzip_level": 9,
    "default_replication_factor": INT16_MAX,
    "log_budget_bytes": INT64_MAX,
    "memory_max_bytes": INT64_MAX,
    "transaction_version": 2,
}
"""Upper bounds that are neither those of the type nor in the table of settings."""

_TYPE_MAXIMA: Final = {ConfigType.SHORT: INT16_MAX, ConfigType.LONG: INT64_MAX}

_PATTERNS: Final = {
    "cluster_id": r"^[A-Za-z0-9_-]{22}$",  # Uuid.toString: 16 bytes in base64url, not padded
    "group_consumer_assignors": r"^(uniform|range)(, ?(uniform|range))?$",
    "group_consumer_migration_policy": r"^(?i:bidirectional|upgrade|downgrade|disabled)$",
    "log_cleanup_policy": r"^((compact|delete)(, ?(compact|delete))?)?$",
}

_NONZERO_SETTINGS: Final = frozenset(
    {
        "compression_gzip_level",
        "log_retention_hours",
        "log_retention_minutes",
        "log_retention_ms",
    }
)
"""Numbers that may be negative or positive but not 0 (KafkaConfig.validateValues,
GzipCompression).
"""

_MODEL_CONFIG: Final = ConfigDict(extra="forbid", strict=True, frozen=True)

Port = Annotated[int, Field(ge=0, le=65535)]
Milliseconds = Annotated[int, Field(ge=0, le=INT64_MAX)]
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
OperationName = Literal[
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "TWO_PHASE_COMMIT",
]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]  # Topic.validate


class ListenerSection(BaseModel):
    """A listener of ``security.listeners``."""

    model_config = _MODEL_CONFIG

    protocol: Protocol | None = None
    """By default the listener's name."""
    host: str | None = None
    advertised_host: str | None = None
    port: Port = 0
    mechanisms: list[Mechanism] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    client_auth: Literal["none", "requested", "required"] = "none"


class TlsSection(BaseModel):
    """PEM files; relative paths start at the directory of the file that names them."""

    model_config = _MODEL_CONFIG

    certificate: str
    key: str
    key_password: str | None = None
    authority: str | None = None


class TokenSection(BaseModel):
    """The checks of unsecured tokens."""

    model_config = _MODEL_CONFIG

    principal_claim: str = UNSECURED_TOKEN_RULES.principal_claim
    scope_claim: str = UNSECURED_TOKEN_RULES.scope_claim
    required_scope: list[str] = []
    clock_skew_ms: Milliseconds = 0


class AclSection(BaseModel):
    """One rule, about one resource."""

    model_config = _MODEL_CONFIG

    principal: Annotated[str, Field(pattern=r"^[^:]+:.+$")]
    operation: OperationName
    permission: Literal["ALLOW", "DENY"] = "ALLOW"
    host: str = WILDCARD
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: Literal[True] | None = None
    prefixed: bool = False


class SecuritySection(BaseModel):
    """Listeners, users and rights (``txnsim.security.options``)."""

    model_config = _MODEL_CONFIG

    listeners: dict[Annotated[str, Field(pattern=r"^\w+$")], ListenerSection] = {}
    plain_listener: bool = True
    tls: TlsSection | None = None
    principal_mapping_rules: str = DEFAULT
    plain_users: dict[str, str] = {}
    scram_users: dict[str, str] = {}
    unsecured_tokens: TokenSection = TokenSection()
    max_reauth_ms: Milliseconds = 0
    failure_delay_ms: Milliseconds = FAILURE_DELAY_MS
    authorizer: bool = False
    super_users: list[Annotated[str, Field(pattern=r"^[^:]+:.+$")]] = []
    allow_everyone_if_no_acl_found: bool = False
    acls: list[AclSection] = []


class ClusterFile(BaseModel):
    """Our YAML file. The command line, or its defaults, sets the values that the file does not."""

    model_config = _MODEL_CONFIG

    brokers: Annotated[int, Field(ge=1, le=BROKERS_MAX)] | None = None
    first_broker_id: Annotated[int, Field(ge=0)] | None = None
    racks: list[Annotated[str, Field(min_length=1)]] | None = None
    host: str | None = None
    port: Port | None = None
    advertised_host: str | None = None
    http: Port | None = None
    as_version: str | None = None
    """Kafka releases to behave as, as ``--as-version`` takes them."""
    topics: dict[TopicName, Annotated[int, Field(ge=1, le=INT32_MAX)]] = {}
    security: SecuritySection | None = None
    settings: dict[str, object] = {}
    """Settings under our names or Kafka's; validated by ``settings_model`` after Kafka's names are
    translated.
    """


@cache
def settings_model(release_rules: Rules = LATEST_RULES) -> type[BaseModel]:
    """A model of ``txnsim.settings.Settings`` with the bounds of a release; generated, so that each
    setting is declared once.
    """
    type_by_setting = get_type_hints(Settings)
    model_fields: dict[str, Any] = {}
    key_by_setting = {
        field: _key_with_bounds(name, release_rules)
        for name, field in fields_by_kafka_name().items()
    }
    for field in msgspec.structs.fields(Settings):
        setting_type = _bounded_type(
            field.name, type_by_setting[field.name], key_by_setting.get(field.name)
        )
        model_fields[field.name] = (setting_type, field.default)
    model: type[BaseModel] = create_model(
        "SettingsSection", __config__=_MODEL_CONFIG, **model_fields
    )
    return model


def _key_with_bounds(kafka_name: str, release_rules: Rules) -> ConfigKey:
    """A setting with the valid values of a release; with the reference's if the release's
    definition has none, as it refuses a value later then (LogConfig of 2.8).
    """
    bounds_text = setting_rows("broker")[kafka_name].facts_in(release_rules).valid
    return config_key("broker", kafka_name, release_rules if bounds_text else LATEST_RULES)


def _refuse_java_class(class_name: str | None) -> str | None:
    if class_name is not None and class_name not in REPLICA_SELECTORS:
        raise ValueError(
            f"Java classes can't be loaded; there are {' and '.join(REPLICA_SELECTORS)}"
        )
    return class_name


def _refuse_zero(number: int | None) -> int | None:
    if number == 0:
        raise ValueError("must not be 0")
    return number


def _bounded_type(name: str, value_type: Any, key: ConfigKey | None) -> Any:
    """The type of a setting with its bounds; ``key`` is what Kafka says of it, None of our own."""
    if value_type in (int, int | None, float):
        lowest: float | None = _LOWEST_VALUES.get(name)
        highest: float | None = _HIGHEST_VALUES.get(name)
        if key is not None:
            lowest = key.minimum if lowest is None else lowest
            highest = highest or key.maximum or _TYPE_MAXIMA.get(key.type)
        field = Field(ge=1 if lowest is None else lowest, le=highest or INT32_MAX)
        constraints = [AfterValidator(_refuse_zero)] if name in _NONZERO_SETTINGS else []
        return Annotated[(value_type, field, *constraints)]
    if name == "replica_selector_class":
        return Annotated[str | None, AfterValidator(_refuse_java_class)]
    if name in _PATTERNS:
        return Annotated[str, Field(pattern=_PATTERNS[name])]
    if key is not None and key.choices:
        return Annotated[str, Field(pattern=f"^({'|'.join(key.choices)})$")]
    return value_type
