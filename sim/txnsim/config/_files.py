"""Validates a file's entries and turns them into a ``Configuration``.

Both kinds of file are read into the same two models, so that a value has the same bounds wherever
it is written. All problems of a file are reported at once, each as ``file:line: field: what is
wrong``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_type_hints

import msgspec

from txnsim.config._kafka_names import (
    CONFLUENT,
    LISTENER_PROPERTIES,
    NO_LISTENER_FOR_IT,
    NOT_OPENED,
    OF_NOBODY,
    OF_PLUGINS,
    ONE_PROCESS,
    SECURITY_PROPERTIES,
    known_properties,
    nearest,
    plugin_prefixes,
    why_without_effect,
)
from txnsim.config.complaints import in_words, place_of
from txnsim.config.presets import PRESET, preset_named
from txnsim.config.properties import Property, parse_properties
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given
from txnsim.metadata.config_keys import whole_number
from txnsim.releases import REFERENCE
from txnsim.security.options import NO_SECURITY, SecurityOptions
from txnsim.settings import DEFAULTS, Settings, documentation, settings_from_values

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from txnsim.config._listeners import Listeners
    from txnsim.server.options import ClusterOptions

_LISTENER_PREFIX: Final = "listener.name."

_Lines = dict[tuple[str, ...], int]
"""Path of keys -> line."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a file; None for fields that the file omits."""

    settings: Settings = DEFAULTS
    brokers: int | None = None
    first_broker_id: int | None = None
    host: str | None = None
    port: int | None = None
    advertised_host: str | None = None
    advertised_port: int | None = None
    http_port: int | None = None
    as_version: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions), in the order of the file."""
    security: SecurityOptions | None = None
    warnings: tuple[str, ...] = ()
    """Accepted settings that change nothing, for people."""

    def onto(self, options: ClusterOptions) -> ClusterOptions:
        """The cluster's options, with those of the file in their place."""
        changes = {
            "brokers": self.brokers,
            "first_broker_id": self.first_broker_id,
            "host": self.host,
            "port": self.port,
            "advertised_host": self.advertised_host,
            "advertised_port": self.advertised_port,
            "as_version": None if self.as_version is None else (self.as_version,),
            "security": self.security,
        }
        return msgspec.structs.replace(
            options,
            settings=self.settings,
            topics=(*options.topics, *self.topics),
            **{name: value for name, value in changes.items() if value is not None},
        )


_FIRST_ENTRY: Final = re.compile(rb"(?m)^[ \t]*[^\s:=#!][^\s:=]*[ \t]*(?P<sign>[:=])")
"""The first entry of a file whose name does not tell its kind."""
UNKNOWN: Final = f"no such setting here, nor property of a Kafka {REFERENCE.name} broker"
PROBLEMS_MAX: Final = 100
"""Limit per file, because each suggestion for a wrong name takes some milliseconds."""


class _Problems:
    """The errors of one file, collected so that one run shows all of them."""

    def __init__(self, file: str, *, has_lines: bool = True) -> None:
        self._file = file
        self._has_lines = has_lines
        self._found: list[tuple[int, str]] = []
        self._strangers: list[tuple[int, str]] = []

    def add(self, line: int, field: str, message: str) -> None:
        """Add an error.

        Raises:
            ConfigError: The limit is reached.
        """
        self._found.append(self._problem_line(line, field, message))
        if len(self._found) == PROBLEMS_MAX:
            raise self._too_many()

    def passed_by(self, line: int, field: str) -> None:
        """Note a name that is unknown here and that a broker ignores.

        Raises:
            ConfigError: There are so many that this can't be a broker's file.
        """
        if field.removeprefix("settings.").startswith(CONFLUENT):
            return
        self._strangers.append(self._problem_line(line, field, UNKNOWN))
        if len(self._strangers) > PROBLEMS_MAX:
            self._found = [*self._found, *self._strangers][:PROBLEMS_MAX]
            raise self._too_many()

    def add_validation(self, error: ValidationError, lines: _Lines, model: type[BaseModel]) -> None:
        for detail in error.errors(include_url=False):
            path = tuple(str(part) for part in place_of(detail))
            known_path = path
            while known_path and known_path not in lines:
                known_path = known_path[:-1]  # a missing field has no line of its own
            self.add(lines.get(known_path, 1), ".".join(path), in_words(detail, model=model))

    def add_settings(self, error: ValidationError, entries: dict[str, Property]) -> None:
        """Add the errors of settings, which the file may give under Kafka's names."""
        from txnsim.config._model import settings_model

        for detail in error.errors(include_url=False):
            entry = entries[str(detail["loc"][0])]
            self.add(entry.line, entry.name, in_words(detail, model=settings_model()))

    def add_disagreements(self, settings: Settings, origins: Mapping[str, Property]) -> None:
        """Add an error for settings that are valid separately but with which a broker does not
        start.
        """
        from txnsim.metadata.group_configs import settings_complaints

        reported_names: set[str] = set()
        for names, words in settings_complaints(settings):
            entries = (origins.get(_our_name(name) or "") for name in names)
            entry = next(entry for entry in entries if entry is not None)
            if entry.name not in reported_names:  # a broker tells the first
                reported_names.add(entry.name)
                self.add(entry.line, entry.name, words)

    def raise_if_any(self) -> None:
        if self._found:
            raise self.error()

    def error(self) -> ConfigError:
        return ConfigError("\n".join(message for _line, message in sorted(set(self._found))))

    def _too_many(self) -> ConfigError:
        too_many_text = f"{self._file}: {PROBLEMS_MAX} problems; more are not looked for"
        return ConfigError(f"{self.error()}\n{too_many_text}")

    def _problem_line(self, line: int, field: str, message: str) -> tuple[int, str]:
        file_and_line = f"{self._file}:{line}" if self._has_lines else self._file
        return line, f"{file_and_line}: {field}: {message}"


def load(path: Path) -> Configuration:
    """Read a configuration file.

    Args:
        path: Our YAML or a broker's ``server.properties``. Where the file's name ends neither in
            ``.yaml``, ``.yml`` nor ``.properties``, its first entry tells: Kafka's own tools read
            properties from a file of any name.

    Returns:
        The configuration, with warnings about entries without effect.

    Raises:
        ConfigError: The file can't be read, or has unknown or wrong entries; the message has one
            line for each, with file, line and field.
    """
    try:
        data = read_given(path)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {problem_of(error)}") from None
    match path.suffix.lower():
        case ".yaml" | ".yml":
            return _from_yaml(data, path=path)
        case ".properties":
            return _from_properties(parse_properties(data, file=str(path)), file=str(path))
        case _ if (entry := _FIRST_ENTRY.search(data)) is None:
            raise ConfigError(
                f"{path}: neither NAME=VALUE, as in a broker's properties, nor NAME: VALUE, as in"
                " our YAML, is in it"
            )
        case _ if entry["sign"] == b":":
            return _from_yaml(data, path=path)
        case _:
            return _from_properties(parse_properties(data, file=str(path)), file=str(path))


def _from_yaml(data: bytes, *, path: Path) -> Configuration:
    from pydantic import ValidationError

    from txnsim.config._model import ClusterFile
    from txnsim.config._security_section import read_section
    from txnsim.config.yaml_bounds import read_mapping

    file = str(path)
    content, lines = read_mapping(data, file=file)
    problems = _Problems(file)
    try:
        cluster = ClusterFile.model_validate(content)
    except ValidationError as error:
        problems.add_validation(error, lines, ClusterFile)
        settings_read = content.get("settings")
        if isinstance(settings_read, dict):
            _named_settings(settings_read, lines, problems)
        raise problems.error() from None
    settings, warned = _named_settings(cluster.settings, lines, problems)
    security: SecurityOptions | None = None
    if cluster.security is not None:
        try:
            security = read_section(cluster.security, directory=path.parent)
        except ConfigError as error:
            problems.add(lines["security",], "security", str(error))
    problems.raise_if_any()
    return Configuration(
        settings=settings,
        security=security,
        brokers=cluster.brokers,
        first_broker_id=cluster.first_broker_id,
        host=cluster.host,
        port=cluster.port,
        advertised_host=cluster.advertised_host,
        http_port=cluster.http,
        as_version=cluster.as_version,
        topics=tuple(cluster.topics.items()),
        warnings=_warnings(warned, file=file),
    )


def settings_of(
    named_values: Mapping[str, object], *, where: str
) -> tuple[Settings, tuple[str, ...]]:
    """Settings given by name in a program, ours or Kafka's, validated like those of a YAML file.

    Returns:
        The settings, and warnings about names without effect.

    Raises:
        ConfigError: A name is unknown or a value wrong; one line for each.
    """
    problems = _Problems(where, has_lines=False)
    lines: _Lines = dict.fromkeys((("settings", name) for name in named_values), 0)
    settings, warned = _named_settings(named_values, lines, problems, is_copied=False)
    problems.raise_if_any()
    return settings, _warnings(warned, file=where)


def _named_settings(
    named_values: Mapping[str, object],
    lines: _Lines,
    problems: _Problems,
    *,
    is_copied: bool = True,
) -> tuple[Settings, list[tuple[str, Property]]]:
    """Settings under our names or Kafka's, and those without effect; defaults after a problem.
    Unknown names are allowed if the settings may be copied from a broker's file.
    """
    from pydantic import ValidationError

    from txnsim.config._model import settings_model

    settings: dict[str, object] = {}
    origins: dict[str, Property] = {}
    warned: list[tuple[str, Property]] = []
    preset: Mapping[str, int] = {}
    for label, value in named_values.items():
        line = lines["settings", label]
        if label == PRESET:
            try:
                preset = preset_named(value)
            except ConfigError as error:
                problems.add(line, f"settings.{label}", str(error))
            continue
        name = _our_name(label)
        if name is None and (why := why_without_effect(label)) is not None:
            warned.append((why, Property(line=line, name=label, value=str(value))))
        elif name is None and label in SECURITY_PROPERTIES:
            problems.add(line, f"settings.{label}", "the section security has it")
        elif name is None:
            fate = _stranger(label, ours=True)
            if isinstance(fate, _PassedBy) and not is_copied:
                fate = _unknown_property(None)
            if isinstance(fate, _Unknown):
                problems.add(line, f"settings.{label}", fate.message)
            else:
                warned.append((OF_NOBODY, Property(line=line, name=label, value=str(value))))
                problems.passed_by(line, f"settings.{label}")
        elif name in settings:
            problems.add(line, f"settings.{label}", "given twice, under our name and under Kafka's")
        else:
            settings[name] = value
            origins[name] = Property(line=line, name=f"settings.{label}", value=str(value))
    try:
        settings_model().model_validate(settings)
    except ValidationError as error:
        problems.add_settings(error, origins)
        return DEFAULTS, warned
    combined = settings_from_values({**preset, **settings})
    problems.add_disagreements(combined, origins)
    return combined, warned


def _from_properties(entries: list[Property], *, file: str) -> Configuration:
    from pydantic import ValidationError

    from txnsim.config._broker_security import plain_listener, read_security
    from txnsim.config._listeners import read_listeners
    from txnsim.config._model import settings_model
    from txnsim.config._nodes import read_node
    from txnsim.config._providers import FROM_A_PROVIDER, provided_properties, without_unopenable

    problems = _Problems(file)
    everything = {entry.name: entry for entry in entries}  # java.util.Properties: the last one wins
    unknown = provided_properties(everything)
    used_entries = {name: entry for name, entry in everything.items() if name not in unknown}
    settings: dict[str, object] = {}
    origins: dict[str, Property] = {}
    for entry in used_entries.values():
        name = _our_name(entry.name) if entry.name in known_properties() else None
        if name is not None:
            try:
                settings[name] = _parse_value(name, entry.value)
            except ValueError as error:
                problems.add(entry.line, entry.name, str(error))
            origins[name] = entry
    try:
        settings_model().model_validate(settings)
    except ValidationError as error:
        problems.add_settings(error, origins)
    else:
        problems.add_disagreements(msgspec.convert(settings, Settings), origins)
    listeners = without_unopenable(read_listeners(used_entries), used_entries, unknown)
    security = read_security(used_entries, listeners.clients)
    node = read_node(used_entries)
    used = security.used | node.used
    plugins = plugin_prefixes({name: entry.value for name, entry in used_entries.items()})
    idle = [(FROM_A_PROVIDER, entry) for entry in unknown.values()]
    for entry in used_entries.values():
        match _fate(entry.name, used, listeners, plugins):
            case _Unknown(message=message):
                problems.add(entry.line, entry.name, message)
            case _PassedBy():
                idle.append((OF_NOBODY, entry))
                problems.passed_by(entry.line, entry.name)
            case str() as why:
                idle.append((why, entry))
    for entry, message in (*node.refused, *listeners.refused, *security.refused):
        problems.add(entry.line, entry.name, message)
    problems.raise_if_any()
    first_listener = plain_listener(listeners.clients) or next(iter(listeners.clients), None)
    repeated = [entry for entry in entries if everything[entry.name] is not entry]
    odd = (*(listeners.odd if node.brokers != 1 else ()), *listeners.closed, *security.odd)
    return Configuration(
        settings=settings_from_values(settings),
        brokers=node.brokers,
        first_broker_id=node.broker_id,
        host=None if first_listener is None else first_listener.host,
        port=None if first_listener is None else first_listener.port,
        advertised_host=None if first_listener is None else first_listener.advertised_host,
        advertised_port=None if first_listener is None else first_listener.advertised_port,
        security=None if security.options == NO_SECURITY else security.options,
        warnings=(
            *(f"{file}:{e.line}: {e.name}: repeated further down, which wins" for e in repeated),
            *(f"{file}:{e.line}: {e.name}: {message}" for e, message in odd),
            *_warnings(idle, file=file),
        ),
    )


class _Unknown(msgspec.Struct, frozen=True):
    message: str


class _PassedBy(msgspec.Struct, frozen=True):
    """A name that no broker has (``OF_NOBODY``)."""


def _fate(
    name: str, used: frozenset[str], listeners: Listeners, plugins: tuple[str, ...]
) -> str | _PassedBy | _Unknown | None:
    """Why a property has no effect; None if it has one."""
    if name in used or name in LISTENER_PROPERTIES:
        return None
    if name.startswith(_LISTENER_PREFIX):
        return _fate_of_listeners(name, listeners)
    if name in SECURITY_PROPERTIES:
        return NO_LISTENER_FOR_IT
    if (why := why_without_effect(name)) is not None or name in known_properties():
        return why
    if name.endswith(".sasl.jaas.config"):
        return _Unknown(f"it needs its listener in front: {_LISTENER_PREFIX}LISTENER.{name}")
    return OF_PLUGINS if name.startswith(plugins) else _stranger(name, ours=False)


def _fate_of_listeners(name: str, listeners: Listeners) -> str | _Unknown:
    """Why a property of a listener has no effect."""
    listener, _, suffix = name.removeprefix(_LISTENER_PREFIX).partition(".")
    clients = {client.name for client in listeners.clients}
    if listener.upper() in listeners.controllers:
        return ONE_PROCESS
    if listener.upper() in listeners.closed_names:
        return NOT_OPENED
    if clients and (listener.upper() not in clients or listener != listener.lower()):
        names = ", ".join(sorted(client.lower() for client in clients))
        return _Unknown(f"there is no listener {listener}, only {names}")
    for unprefixed in (suffix, suffix.partition(".")[2]):
        if unprefixed in known_properties():
            return why_without_effect(unprefixed) or NO_LISTENER_FOR_IT
    return _unknown_property(nearest(suffix))


def _our_name(label: str) -> str | None:
    """The field of ``Settings`` with this name, ours or Kafka's; None if there is none."""
    setting_docs = documentation()
    if label in setting_docs:
        return label
    return next((name for name, setting in setting_docs.items() if setting.kafka == label), None)


def _parse_value(name: str, text: str) -> int | float | bool | str:
    """The value of a property, as ConfigDef.parseType reads it."""
    kind = get_type_hints(Settings)[name]
    text = text.strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"expected true or false, found {text!r}")
        return text.lower() == "true"
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"expected a number, found {text!r}") from None
    if kind in (int, int | None):
        try:
            return whole_number(text)
        except ValueError:
            raise ValueError(f"expected a whole number, found {text!r}") from None
    return text


def _stranger(label: str, *, ours: bool) -> _PassedBy | _Unknown:
    """How to treat a name that neither Kafka nor this program knows. Copied files have names that
    other programs read, which a broker ignores; a misspelt name is an error.
    """
    if label.startswith(CONFLUENT):
        return _PassedBy()
    documented = documentation()
    similar = nearest(label, documented if ours else ())
    is_misplaced = label in documented or (ours and "." not in label)
    return _PassedBy() if similar is None and not is_misplaced else _unknown_property(similar)


def _unknown_property(similar: str | None) -> _Unknown:
    return _Unknown(f"{UNKNOWN}; did you mean {similar}?" if similar else UNKNOWN)


def _warnings(entries: list[tuple[str, Property]], *, file: str) -> tuple[str, ...]:
    """The warnings about entries without effect: one line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for reason, entry in entries:
        by_reason.setdefault(reason, []).append(entry.name)
    return tuple(
        f"{file}: without effect, because {reason}: {', '.join(names)}"
        for reason, names in by_reason.items()
    )
