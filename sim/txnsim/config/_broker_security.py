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
from txnsim.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN, UNSECURED, BearerRules

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
_CLIENT_AUTH: Final = {auth.value: auth for auth in ClientAuth}
_BOOLEANS: Final = {"true": True, "false": False}
_REAUTH: Final = "connections.max.reauth.ms"
_USER: Final = "user_"
_VALIDATOR: Final = "unsecuredValidator"

T = TypeVar("T")


class FileSecurity(msgspec.Struct, frozen=True, kw_only=True):
    """The security settings of a file."""

    options: SecurityOptions
    used: frozenset[str]
    """The properties that have an effect."""
    refused: tuple[Remark, ...]
    odd: tuple[Remark, ...]


def read_security(
    entries: Mapping[str, Property], listeners: tuple[FileListener, ...]
) -> FileSecurity:
    """The security of all listeners except the plain one, which is the first PLAINTEXT listener."""
    return _SecurityReader(entries).read(listeners)


def plain_listener(listeners: tuple[FileListener, ...]) -> FileListener | None:
    """The first PLAINTEXT listener, by which clients find the cluster; None if there is none."""
    return next(
        (listener for listener in listeners if listener.protocol is SecurityProtocol.PLAINTEXT),
        None,
    )


class _SecurityReader:
    """Reads the security settings of one file and collects remarks."""

    def __init__(self, entries: Mapping[str, Property]) -> None:
        self._entries = entries
        self._everybody = PropertyLookup(entries)
        self._used: set[str] = set()
        self._refused: list[Remark] = []
        self._odd: list[Remark] = []
        self._scram_users: dict[str, dict[str, str]] = {}

    def read(self, listeners: tuple[FileListener, ...]) -> FileSecurity:
        plain = plain_listener(listeners)
        secured = tuple(
            secured_listener
            for listener in listeners
            if listener is not plain and (secured_listener := self._listener(listener)) is not None
        )
        properties = self._everybody
        self._try(lambda: _check_foreign(properties.get("principal.builder.class")), None)
        reauth_ms = self._try(lambda: properties.number(_REAUTH, 0), 0) if secured else 0
        delay_ms = FAILURE_DELAY_MS
        if secured:
            name = "connection.failed.authentication.delay.ms"
            delay_ms = self._try(
                lambda: properties.number(name, FAILURE_DELAY_MS), FAILURE_DELAY_MS
            )
        has_authorizer = self._try(self._has_authorizer, otherwise=False)
        super_users: frozenset[str] = frozenset()
        is_open = False
        if has_authorizer:
            super_users = self._try(self._super_users, super_users)
            name_open = "allow.everyone.if.no.acl.found"
            is_open = self._try(
                lambda: properties.choice(name_open, _BOOLEANS, default=False), otherwise=False
            )
        options = SecurityOptions(
            listeners=secured,
            has_plain_listener=plain is not None or not listeners,
            scram_users_of=self._scram_users,
            max_reauth_ms=reauth_ms,
            failure_delay_ms=delay_ms,
            has_authorizer=has_authorizer,
            super_users=super_users,
            allow_everyone_if_no_acl_found=is_open,
        )
        return FileSecurity(
            options=options,
            used=frozenset(self._used | properties.used),
            refused=tuple(self._refused),
            odd=tuple(self._odd),
        )

    def _try(self, read: Callable[[], T], otherwise: T) -> T:
        """Run a reader of settings; collect its error and use the default instead, so that one run
        reports all errors.
        """
        try:
            return read()
        except WrongPropertyError as error:
            self._refused.append((error.entry, error.message))
            return otherwise

    # A listener

    def _listener(self, listener: FileListener) -> SecureListener | None:
        properties = PropertyLookup(self._entries, prefix=f"listener.name.{listener.name.lower()}.")
        secured_listener = self._try(lambda: self._secure_listener(listener, properties), None)
        self._used |= properties.used
        return secured_listener

    def _secure_listener(
        self, listener: FileListener, properties: PropertyLookup
    ) -> SecureListener:
        protocol = listener.protocol
        secured = SecureListener(
            name=listener.name,
            protocol=protocol,
            host=listener.host,
            advertised_host=listener.advertised_host,
            advertised_port=listener.advertised_port,
            port=listener.port,
        )
        if protocol.has_tls:
            auth = self._client_auth(listener, properties)
            secured = msgspec.structs.replace(
                secured,
                tls=_tls(listener, properties, auth),
                client_auth=auth,
                principal_mapping_rules=_mapping_rules(properties),
            )
        if protocol.has_sasl:
            secured = self._with_sasl(secured, listener, properties)
        return secured

    def _client_auth(self, listener: FileListener, properties: PropertyLookup) -> ClientAuth:
        name = "ssl.client.auth"
        if listener.protocol is SecurityProtocol.SASL_SSL and properties.own(name) is None:
            return ClientAuth.NONE  # only its own one counts there (KIP-684)
        return properties.choice(name, _CLIENT_AUTH, ClientAuth.NONE)

    def _with_sasl(
        self, secured: SecureListener, listener: FileListener, properties: PropertyLookup
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
        bearer = UNSECURED
        for mechanism in mechanisms:
            self._check_handler(properties, mechanism)
            module = self._module(properties, listener, mechanism)
            if module is None:
                continue
            entry, login = module
            if mechanism == PLAIN:
                users = _users(login)
            elif mechanism == OAUTHBEARER:
                bearer = _bearer_rules(entry, login)
            else:
                self._add_scram_users(mechanism, entry, login)
        return msgspec.structs.replace(
            secured,
            mechanisms=mechanisms,
            plain_users=users,
            bearer=bearer,
            max_reauth_ms=_reauth_ms(properties, mechanisms),
        )

    def _module(
        self, properties: PropertyLookup, listener: FileListener, mechanism: str
    ) -> tuple[Property, LoginModule] | None:
        name = f"{mechanism.lower()}.sasl.jaas.config"
        entry = properties.own(name)
        if entry is None:
            full = f"listener.name.{listener.name.lower()}.{name}"
            if mechanism == PLAIN:
                raise WrongPropertyError(
                    listener.entry,
                    f'listener {listener.name}: PLAIN needs {full} with user_NAME="PASSWORD"',
                )
            self._odd.append(
                (listener.entry, f"Apache Kafka wants {full} too, unless a JAAS file has it")
            )
            return None
        try:
            return entry, parse_login(entry.value)
        except ValueError as error:
            raise WrongPropertyError(entry, str(error)) from None

    def _add_scram_users(self, mechanism: str, entry: Property, module: LoginModule) -> None:
        """Create the broker's own user, without which it could not log in to other brokers. In
        Kafka the users of clients are created by other means. Each mechanism has its own
        credentials.
        """
        options, listed = module.options, _users(module)
        users = self._scram_users.setdefault(mechanism, {})
        if "username" in options and "password" in options:
            users[options["username"]] = options["password"]
        if listed:
            users.update(listed)
            self._odd.append(
                (
                    entry,
                    "these users exist here; in Apache Kafka they are made by kafka-storage.sh "
                    f"format --add-scram or kafka-configs.sh: {', '.join(listed)}",
                )
            )

    # Classes, rights

    def _check_handler(self, properties: PropertyLookup, mechanism: str) -> None:
        name = "sasl.server.callback.handler.class"
        _check_foreign(properties.own(f"{mechanism.lower()}.{name}") or properties.get(name))

    def _has_authorizer(self) -> bool:
        entry = self._everybody.get("authorizer.class.name")
        if entry is None or not entry.value.strip():
            return False
        if entry.value.strip() in ZOOKEEPER_AUTHORIZERS:
            self._odd.append((entry, f"its rights are those of {STANDARD_AUTHORIZER} here"))
            return True
        if entry.value.strip() != STANDARD_AUTHORIZER:
            raise WrongPropertyError(
                entry, f"Java classes can't be loaded; the only authorizer is {STANDARD_AUTHORIZER}"
            )
        return True

    def _super_users(self) -> frozenset[str]:
        entry = self._everybody.get("super.users")
        if entry is None:
            return frozenset()
        try:
            return parse_principals(entry.value)
        except ConfigError as error:
            raise WrongPropertyError(entry, str(error)) from None


def _check_foreign(entry: Property | None) -> None:
    if entry is not None and entry.value.strip() not in ("", *_MAY_BE_NAMED):
        raise WrongPropertyError(entry, "Java classes can't be loaded")


def _tls(listener: FileListener, properties: PropertyLookup, auth: ClientAuth) -> TlsPem:
    own = read_keystore(properties)
    if own is None:
        raise WrongPropertyError(
            listener.entry,
            f"listener {listener.name}: {listener.protocol.name} needs ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain",
        )
    authority = read_truststore(properties)
    if auth is not ClientAuth.NONE and authority is None:
        raise WrongPropertyError(
            properties.get("ssl.client.auth") or listener.entry,
            "certificates of clients need ssl.truststore.location or ssl.truststore.certificates",
        )
    return TlsPem(
        certificate=own.certificate,
        key=own.key,
        key_password=own.key_password,
        authority=authority,
        versions=read_tls_versions(properties),
    )


def _mapping_rules(properties: PropertyLookup) -> str | None:
    entry = properties.get("ssl.principal.mapping.rules")
    if entry is None:
        return None
    try:
        PrincipalMapping(entry.value)
    except ValueError as error:
        raise WrongPropertyError(entry, str(error)) from None
    return entry.value


def _users(module: LoginModule) -> dict[str, str]:
    return {
        name.removeprefix(_USER): word
        for name, word in module.options.items()
        if name.startswith(_USER)
    }


def _bearer_rules(entry: Property, module: LoginModule) -> BearerRules:
    options = {
        name.removeprefix(_VALIDATOR): value.strip()
        for name, value in module.options.items()
        if name.startswith(_VALIDATOR) and value.strip()
    }
    skew = options.get("AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit()):
        raise WrongPropertyError(
            entry, f"{_VALIDATOR}AllowableClockSkewMs: expected milliseconds, found {skew!r}"
        )
    return BearerRules(
        principal_claim=options.get("PrincipalClaimName", UNSECURED.principal_claim),
        scope_claim=options.get("ScopeClaimName", UNSECURED.scope_claim),
        required_scope=tuple(options.get("RequiredScope", "").split()),
        clock_skew_ms=int(skew),
    )


def _reauth_ms(properties: PropertyLookup, mechanisms: tuple[str, ...]) -> int | None:
    """Lifetime of authenticated sessions in ms; None for the cluster's default."""
    own = [
        entry
        for mechanism in mechanisms
        if (entry := properties.own(f"{mechanism.lower()}.{_REAUTH}")) is not None
    ]
    if not own:
        entry = properties.own(_REAUTH)
        return None if entry is None else number_of(entry)
    limits = {number_of(entry) for entry in own}
    if len(own) < len(mechanisms):
        limits.add(properties.number(_REAUTH, 0))
    if len(limits) > 1:
        raise WrongPropertyError(own[0], "the mechanisms of a listener share one limit here")
    return limits.pop()
