"""Security in a broker's properties: TLS, SASL, principals, the authorizer.

For each listener its own properties (``listener.name.NAME.``) override the common ones. Kafka's
counterparts: BrokerSecurityConfigs, SslConfigs, SaslConfigs, ChannelBuilders, JaasContext.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from txnsim.config._client_security import read_tls_versions
from txnsim.config._listeners import FileListener, Remark
from txnsim.config._stores import read_keystore, read_truststore
from txnsim.config.lookup import PropertyLookup, WrongPropertyError, number_of
from txnsim.config.properties import Property
from txnsim.errors import ConfigError
from txnsim.security.jaas import LoginModule, parse_login
from txnsim.security.options import (
    FAILURE_DELAY_MS,
    ClientAuth,
    SecureListener,
    SecurityOptions,
    SecurityProtocol,
    TlsPem,
)
from txnsim.security.principal_mapping import PrincipalMapping
from txnsim.security.principals import parse_principals
from txnsim.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN, UNSECURED_TOKEN_RULES, BearerRules

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZERS: Final = frozenset(
    {"kafka.security.auth.SimpleAclAuthorizer", "kafka.security.authorizer.AclAuthorizer"}
)
"""Kafka's authorizers up to 2.3 and up to 3.9, which grant the same rights (KIP-801)."""
_MAY_BE_NAMED: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler",
)
"""Classes of Kafka that a file may name: txnsim does the same as they do."""
_CLIENT_AUTH_PROPERTY: Final = {auth.value: auth for auth in ClientAuth}
_BOOLEAN_BY_WORD: Final = {"true": True, "false": False}
_REAUTH_PROPERTY: Final = "connections.max.reauth.ms"
_USER_RE: Final = "user_"
_VALIDATOR_CLASS: Final = "unsecuredValidator"

T = TypeVar("T")


class FileSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """The security settings of a file."""

    options: SecurityOptions
    used_names: frozenset[str]
    """The properties that have an effect."""
    refusals: tuple[Remark, ...]
    odd_remarks: tuple[Remark, ...]


def read_security(
    property_by_name: Mapping[str, Property], listeners: tuple[FileListener, ...]
) -> FileSecurity:
    """The security of all listeners except the plain one, which is the first PLAINTEXT listener."""
    return _SecurityReader(property_by_name).read(listeners)


def plain_listener(listeners: tuple[FileListener, ...]) -> FileListener | None:
    """The first PLAINTEXT listener, by which clients find the cluster; None if there is none."""
    return next(
        (listener for listener in listeners if listener.protocol is SecurityProtocol.PLAINTEXT),
        None,
    )


class _SecurityReader:
    """Reads the security settings of one file and collects remarks."""

    def __init__(self, property_by_name: Mapping[str, Property]) -> None:
        self._property_by_name = property_by_name
        self._common_properties = PropertyLookup(property_by_name)
        self._used_names: set[str] = set()
        self._refused_properties: list[Remark] = []
        self._odd_remarks: list[Remark] = []
        self._scram_users: dict[str, dict[str, str]] = {}

    def read(self, listeners: tuple[FileListener, ...]) -> FileSecurity:
        plain_file_listener = plain_listener(listeners)
        secure_listeners = tuple(
            secured_listener
            for listener in listeners
            if listener is not plain_file_listener
            and (secured_listener := self._listener(listener)) is not None
        )
        properties = self._common_properties
        self._value_or_remark(
            lambda: _refuse_foreign_class(properties.get("principal.builder.class")), None
        )
        reauth_ms = (
            self._value_or_remark(lambda: properties.number(_REAUTH_PROPERTY, 0), 0)
            if secure_listeners
            else 0
        )
        delay_ms = FAILURE_DELAY_MS
        if secure_listeners:
            authorizer_name = "connection.failed.authentication.delay.ms"
            delay_ms = self._value_or_remark(
                lambda: properties.number(authorizer_name, FAILURE_DELAY_MS), FAILURE_DELAY_MS
            )
        has_authorizer = self._value_or_remark(self._has_authorizer, fallback=False)
        super_users: frozenset[str] = frozenset()
        is_open = False
        if has_authorizer:
            super_users = self._value_or_remark(self._super_users, super_users)
            open_property = "allow.everyone.if.no.acl.found"
            is_open = self._value_or_remark(
                lambda: properties.choice(open_property, _BOOLEAN_BY_WORD, default=False),
                fallback=False,
            )
        security_options = SecurityOptions(
            listeners=secure_listeners,
            has_plain_listener=plain_file_listener is not None or not listeners,
            scram_users_by_mechanism=self._scram_users,
            max_reauth_ms=reauth_ms,
            failure_delay_ms=delay_ms,
            has_authorizer=has_authorizer,
            super_users=super_users,
            allow_everyone_if_no_acl_found=is_open,
        )
        return FileSecurity(
            options=security_options,
            used_names=frozenset(self._used_names | properties.used_names),
            refusals=tuple(self._refused_properties),
            odd_remarks=tuple(self._odd_remarks),
        )

    def _value_or_remark(self, read_value: Callable[[], T], fallback: T) -> T:
        """Run a reader of settings; collect its error and use the default instead, so that one run
        reports all errors.
        """
        try:
            return read_value()
        except WrongPropertyError as error:
            self._refused_properties.append((error.entry, error.message))
            return fallback

    # A listener

    def _listener(self, listener: FileListener) -> SecureListener | None:
        properties = PropertyLookup(
            self._property_by_name, prefix=f"listener.name.{listener.name.lower()}."
        )
        secured_listener = self._value_or_remark(
            lambda: self._secure_listener(listener, properties), None
        )
        self._used_names |= properties.used_names
        return secured_listener

    def _secure_listener(
        self, listener: FileListener, properties: PropertyLookup
    ) -> SecureListener:
        protocol = listener.protocol
        secured_listener = SecureListener(
            name=listener.name,
            protocol=protocol,
            host=listener.host,
            advertised_host=listener.advertised_host,
            advertised_port=listener.advertised_port,
            port=listener.port,
        )
        if protocol.has_tls:
            client_auth = self._client_auth(listener, properties)
            secured_listener = msgspec.structs.replace(
                secured_listener,
                tls=_tls_settings(listener, properties, client_auth),
                client_auth=client_auth,
                principal_mapping_rules=_mapping_rules(properties),
            )
        if protocol.has_sasl:
            secured_listener = self._with_sasl(secured_listener, listener, properties)
        return secured_listener

    def _client_auth(self, listener: FileListener, properties: PropertyLookup) -> ClientAuth:
        property_name = "ssl.client.auth"
        if (
            listener.protocol is SecurityProtocol.SASL_SSL
            and properties.own_entry(property_name) is None
        ):
            return ClientAuth.NONE  # only its own one counts there (KIP-684)
        return properties.choice(property_name, _CLIENT_AUTH_PROPERTY, ClientAuth.NONE)

    def _with_sasl(
        self, secured_listener: SecureListener, listener: FileListener, properties: PropertyLookup
    ) -> SecureListener:
        mechanisms = properties.names("sasl.enabled.mechanisms") or ("GSSAPI",)
        for mechanism in mechanisms:
            if mechanism not in MECHANISMS:
                raise WrongPropertyError(
                    properties.get("sasl.enabled.mechanisms") or listener.entry,
                    f"listener {listener.name}: the mechanism {mechanism} is not spoken here; "
                    f"name some of {', '.join(MECHANISMS)}",
                )
        users: dict[str, str] = {}
        bearer_rules = UNSECURED_TOKEN_RULES
        for mechanism in mechanisms:
            self._check_handler(properties, mechanism)
            login_module = self._login_module(properties, listener, mechanism)
            if login_module is None:
                continue
            mechanisms_property, login_user = login_module
            if mechanism == PLAIN:
                users = _plain_users(login_user)
            elif mechanism == OAUTHBEARER:
                bearer_rules = _bearer_rules(mechanisms_property, login_user)
            else:
                self._add_scram_users(mechanism, mechanisms_property, login_user)
        return msgspec.structs.replace(
            secured_listener,
            mechanisms=mechanisms,
            plain_users=users,
            bearer=bearer_rules,
            max_reauth_ms=_reauth_ms(properties, mechanisms),
        )

    def _login_module(
        self, properties: PropertyLookup, listener: FileListener, mechanism: str
    ) -> tuple[Property, LoginModule] | None:
        property_name = f"{mechanism.lower()}.sasl.jaas.config"
        jaas_property = properties.own_entry(property_name)
        if jaas_property is None:
            full_name = f"listener.name.{listener.name.lower()}.{property_name}"
            if mechanism == PLAIN:
                raise WrongPropertyError(
                    listener.entry,
                    f'listener {listener.name}: PLAIN needs {full_name} with user_NAME="PASSWORD"',
                )
            self._odd_remarks.append(
                (listener.entry, f"Apache Kafka wants {full_name} too, unless a JAAS file has it")
            )
            return None
        try:
            return jaas_property, parse_login(jaas_property.value)
        except ValueError as error:
            raise WrongPropertyError(jaas_property, str(error)) from None

    def _add_scram_users(
        self, mechanism: str, jaas_property: Property, module: LoginModule
    ) -> None:
        """Create the broker's own user, without which it could not log in to other brokers. In
        Kafka the users of clients are created by other means. Each mechanism has its own
        credentials.
        """
        module_options, listed_users = module.options, _plain_users(module)
        users = self._scram_users.setdefault(mechanism, {})
        if "username" in module_options and "password" in module_options:
            users[module_options["username"]] = module_options["password"]
        if listed_users:
            users.update(listed_users)
            self._odd_remarks.append(
                (
                    jaas_property,
                    "these users exist here; in Apache Kafka they are made by kafka-storage.sh "
                    f"format --add-scram or kafka-configs.sh: {', '.join(listed_users)}",
                )
            )

    # Classes, rights

    def _check_handler(self, properties: PropertyLookup, mechanism: str) -> None:
        handler_property = "sasl.server.callback.handler.class"
        _refuse_foreign_class(
            properties.own_entry(f"{mechanism.lower()}.{handler_property}")
            or properties.get(handler_property)
        )

    def _has_authorizer(self) -> bool:
        file_property = self._common_properties.get("authorizer.class.name")
        if file_property is None or not file_property.value.strip():
            return False
        if file_property.value.strip() in ZOOKEEPER_AUTHORIZERS:
            self._odd_remarks.append(
                (file_property, f"its rights are those of {STANDARD_AUTHORIZER} here")
            )
            return True
        if file_property.value.strip() != STANDARD_AUTHORIZER:
            raise WrongPropertyError(
                file_property,
                f"Java classes can't be loaded; the only authorizer is {STANDARD_AUTHORIZER}",
            )
        return True

    def _super_users(self) -> frozenset[str]:
        file_property = self._common_properties.get("super.users")
        if file_property is None:
            return frozenset()
        try:
            return parse_principals(file_property.value)
        except ConfigError as error:
            raise WrongPropertyError(file_property, str(error)) from None


def _refuse_foreign_class(class_property: Property | None) -> None:
    if class_property is not None and class_property.value.strip() not in ("", *_MAY_BE_NAMED):
        raise WrongPropertyError(class_property, "Java classes can't be loaded")


def _tls_settings(
    listener: FileListener, properties: PropertyLookup, client_auth: ClientAuth
) -> TlsPem:
    own_key = read_keystore(properties)
    if own_key is None:
        raise WrongPropertyError(
            listener.entry,
            f"listener {listener.name}: {listener.protocol.name} needs ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    authority = read_truststore(properties)
    if client_auth is not ClientAuth.NONE and authority is None:
        raise WrongPropertyError(
            properties.get("ssl.client.auth") or listener.entry,
            "certificates of clients need ssl.truststore.location or ssl.truststore.certificates",
        )
    return TlsPem(
        certificate=own_key.certificate,
        key=own_key.key,
        key_password=own_key.key_password,
        authority=authority,
        versions=read_tls_versions(properties),
    )


def _mapping_rules(properties: PropertyLookup) -> str | None:
    file_property = properties.get("ssl.principal.mapping.rules")
    if file_property is None:
        return None
    try:
        PrincipalMapping(file_property.value)
    except ValueError as error:
        raise WrongPropertyError(file_property, str(error)) from None
    return file_property.value


def _plain_users(module: LoginModule) -> dict[str, str]:
    return {
        option_name.removeprefix(_USER_RE): password
        for option_name, password in module.options.items()
        if option_name.startswith(_USER_RE)
    }


def _bearer_rules(file_property: Property, module: LoginModule) -> BearerRules:
    module_options = {
        option_name.removeprefix(_VALIDATOR_CLASS): option_value.strip()
        for option_name, option_value in module.options.items()
        if option_name.startswith(_VALIDATOR_CLASS) and option_value.strip()
    }
    clock_skew = module_options.get("AllowableClockSkewMs", "0")
    if not (clock_skew.isascii() and clock_skew.isdigit()):
        raise WrongPropertyError(
            file_property,
            f"{_VALIDATOR_CLASS}AllowableClockSkewMs: expected milliseconds, found {clock_skew!r}",
        )
    return BearerRules(
        principal_claim=module_options.get(
            "PrincipalClaimName", UNSECURED_TOKEN_RULES.principal_claim
        ),
        scope_claim=module_options.get("ScopeClaimName", UNSECURED_TOKEN_RULES.scope_claim),
        required_scope=tuple(module_options.get("RequiredScope", "").split()),
        clock_skew_ms=int(clock_skew),
    )


def _reauth_ms(properties: PropertyLookup, mechanisms: tuple[str, ...]) -> int | None:
    """Lifetime of authenticated sessions in ms; None for the cluster's default."""
    own_properties = [
        file_property
        for mechanism in mechanisms
        if (file_property := properties.own_entry(f"{mechanism.lower()}.{_REAUTH_PROPERTY}"))
        is not None
    ]
    if not own_properties:
        file_property = properties.own_entry(_REAUTH_PROPERTY)
        return None if file_property is None else number_of(file_property)
    limits_ms = {number_of(file_property) for file_property in own_properties}
    if len(own_properties) < len(mechanisms):
        limits_ms.add(properties.number(_REAUTH_PROPERTY, 0))
    if len(limits_ms) > 1:
        raise WrongPropertyError(
            own_properties[0], "the mechanisms of a listener share one limit here"
        )
    return limits_ms.pop()
