"""Validates a file's entries and turns them into a ``Configuration``.

Both kinds of file are read into the same two models, so that a value has the same bounds wherever
it is written. All problems of a file are reported at once, each as ``file:line: field: what is
wrong``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_type_hints

import msgspec

from txnsim.config._kafka_names import (
    CONFLUENT,
    NO_LISTENER_FOR_IT,
    NOT_OPENED,
    OF_PLUGINS,
    ONE_PROCESS,
    FileReaders,
    file_readers,
    known_properties,
    listener_properties,
    nearest,
    plugin_prefixes,
    security_properties,
    why_without_effect,
)
from txnsim.config.complaints import in_words, place_of
from txnsim.config.presets import PRESET, preset_named
from txnsim.config.properties import Property, parse_properties
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given
from txnsim.metadata.config_keys import ConfigType, decimal_number, whole_number
from txnsim.metadata.configs import SECRET, broker_configs, key_complaint, text
from txnsim.metadata.settings_table import setting_rows
from txnsim.security.options import NO_SECURITY, SecurityOptions
from txnsim.settings import DEFAULTS, Settings, documentation, settings_from_values

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from txnsim.config._listeners import Listeners
    from txnsim.server.options import ClusterOptions

_LISTENER_PREFIX: Final = "listener.name."

_LineByPath = dict[tuple[str, ...], int]
"""Path of keys -> line."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a file; None for fields that the file omits."""

    settings: Settings = DEFAULTS
    brokers: int | None = None
    first_broker_id: int | None = None
    racks: tuple[str, ...] | None = None
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
        option_changes = {
            "brokers": self.brokers,
            "first_broker_id": self.first_broker_id,
            "racks": self.racks,
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
            **{name: value for name, value in option_changes.items() if value is not None},
        )


_FIRST_ENTRY: Final = re.compile(rb"(?m)^[ \t]*[^\s:=#!][^\s:=]*[ \t]*(?P<sign>[:=])")
"""The first entry of a file whose name does not tell its kind."""
PROBLEMS_MAX: Final = 100
"""Limit per file, because each suggestion for a wrong name takes some milliseconds."""


class _Problems:
    """The errors of one file, collected so that one run shows all of them."""

    def __init__(self, file: str, readers: FileReaders, *, names_lines: bool = True) -> None:
        self._file = file
        self._readers = readers
        self._has_lines = names_lines
        self._error_lines: list[tuple[int, str]] = []
        self._unknown_setting_problems: list[tuple[int, str]] = []

    def add(self, line: int, field: str, message: str) -> None:
        """Add an error.

        Raises:
            ConfigError: The limit is reached.
        """
        self._error_lines.append(self._problem_line(line, field, message))
        if len(self._error_lines) == PROBLEMS_MAX:
            raise self._too_many_problems_text()

    def note_ignored(self, line: int, field: str) -> None:
        """Note a name that is unknown here and that a broker ignores.

        Raises:
            ConfigError: There are so many that this can't be a broker's file.
        """
        if field.removeprefix("settings.").startswith(CONFLUENT):
            return
        self._unknown_setting_problems.append(
            self._problem_line(line, field, self._readers.unknown_name)
        )
        if len(self._unknown_setting_problems) > PROBLEMS_MAX:
            self._error_lines = [*self._error_lines, *self._unknown_setting_problems][:PROBLEMS_MAX]
            raise self._too_many_problems_text()

    def add_validation(
        self, error: ValidationError, line_by_path: _LineByPath, model: type[BaseModel]
    ) -> None:
        for detail in error.errors(include_url=False):
            path = tuple(str(path_part) for path_part in place_of(detail))
            known_path = path
            while known_path and known_path not in line_by_path:
                known_path = known_path[:-1]  # a missing field has no line of its own
            self.add(line_by_path.get(known_path, 1), ".".join(path), in_words(detail, model=model))

    def add_settings(
        self, settings: Mapping[str, object], property_by_name: Mapping[str, Property]
    ) -> bool:
        """Add the errors of settings that one of the releases refuses.

        Args:
            settings: Field of ``Settings`` -> its value.
            property_by_name: Field -> where it stands, as the file may give it under Kafka's name.

        Returns:
            Whether there are any.
        """
        from pydantic import ValidationError

        from txnsim.config._model import settings_model

        has_errors = False
        for release_rules in self._readers.rules:
            model = settings_model(release_rules)
            try:
                model.model_validate(settings)
            except ValidationError as error:
                has_errors = True
                for detail in error.errors(include_url=False):
                    file_property = property_by_name[str(detail["loc"][0])]
                    self.add(file_property.line, file_property.name, in_words(detail, model=model))
        return has_errors

    def add_disagreements(
        self, settings: Settings, property_by_name: Mapping[str, Property]
    ) -> None:
        """Add an error for settings that are valid separately but with which a broker does not
        start.
        """
        from txnsim.metadata.group_configs import settings_complaints

        reported_names: set[str] = set()
        for disagreeing_names, complaint in settings_complaints(settings):
            disagreeing_properties = (
                property_by_name.get(_our_name(name) or "") for name in disagreeing_names
            )
            file_property = next(
                file_property
                for file_property in disagreeing_properties
                if file_property is not None
            )
            if file_property.name not in reported_names:  # a broker tells the first
                reported_names.add(file_property.name)
                self.add(file_property.line, file_property.name, complaint)

    def raise_if_any(self) -> None:
        if self._error_lines:
            raise self.error()

    def error(self) -> ConfigError:
        return ConfigError("\n".join(message for _line, message in sorted(set(self._error_lines))))

    def _too_many_problems_text(self) -> ConfigError:
        too_many_text = f"{self._file}: {PROBLEMS_MAX} problems; more are not looked for"
        return ConfigError(f"{self.error()}\n{too_many_text}")

    def _problem_line(self, line: int, field: str, message: str) -> tuple[int, str]:
        file_location = f"{self._file}:{line}" if self._has_lines else self._file
        return line, f"{file_location}: {field}: {message}"


def load(path: Path, *, as_version: Sequence[str] = ()) -> Configuration:
    """Read a configuration file as brokers of a release read it.

    Args:
        path: Our YAML or a broker's ``server.properties``. Where the file's name ends neither in
            ``.yaml``, ``.yml`` nor ``.properties``, its first entry tells: Kafka's own tools read
            properties from a file of any name.
        as_version: The releases, as ``--as-version`` names them, beside those that the file names;
            by default the reference. A name of a newer release is ignored with a warning, as any
            that the broker does not know.

    Returns:
        The configuration, with warnings about entries without effect.

    Raises:
        ConfigError: The file can't be read, or has unknown or wrong entries; the message has one
            line for each, with file, line and field.
    """
    try:
        file_bytes = read_given(path)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {problem_of(error)}") from None
    match path.suffix.lower():
        case ".yaml" | ".yml":
            return _from_yaml(file_bytes, path=path, as_version=as_version)
        case ".properties":
            pass
        case _ if (first_entry_match := _FIRST_ENTRY.search(file_bytes)) is None:
            raise ConfigError(
                f"{path}: neither NAME=VALUE, as in a broker's properties, nor NAME: VALUE, as in"
                " our YAML, is in it"
            )
        case _ if first_entry_match["sign"] == b":":
            return _from_yaml(file_bytes, path=path, as_version=as_version)
    properties = parse_properties(file_bytes, file=str(path))
    return _from_properties(properties, file=str(path), readers=file_readers(as_version))


def _from_yaml(file_bytes: bytes, *, path: Path, as_version: Sequence[str]) -> Configuration:
    from pydantic import ValidationError

    from txnsim.config._model import ClusterFile
    from txnsim.config._security_section import read_section
    from txnsim.config.yaml_bounds import read_mapping

    file = str(path)
    yaml_content, line_by_path = read_mapping(file_bytes, file=file)
    readers = _readers_of_yaml(yaml_content, line_by_path, file=file, as_version=as_version)
    problems = _Problems(file, readers)
    try:
        cluster_section = ClusterFile.model_validate(yaml_content)
    except ValidationError as error:
        problems.add_validation(error, line_by_path, ClusterFile)
        settings_read = yaml_content.get("settings")
        if isinstance(settings_read, dict):
            _named_settings(settings_read, line_by_path, problems, readers)
        raise problems.error() from None
    settings, warnings = _named_settings(cluster_section.settings, line_by_path, problems, readers)
    security: SecurityOptions | None = None
    if cluster_section.security is not None:
        try:
            security = read_section(cluster_section.security, directory=path.parent)
        except ConfigError as error:
            problems.add(line_by_path["security",], "security", str(error))
    problems.raise_if_any()
    return Configuration(
        settings=settings,
        security=security,
        brokers=cluster_section.brokers,
        first_broker_id=cluster_section.first_broker_id,
        racks=None if cluster_section.racks is None else tuple(cluster_section.racks),
        host=cluster_section.host,
        port=cluster_section.port,
        advertised_host=cluster_section.advertised_host,
        http_port=cluster_section.http,
        as_version=cluster_section.as_version,
        topics=tuple(cluster_section.topics.items()),
        warnings=_idle_warnings(warnings, file=file),
    )


def _readers_of_yaml(
    yaml_content: Mapping[str, object],
    line_by_path: _LineByPath,
    *,
    file: str,
    as_version: Sequence[str],
) -> FileReaders:
    """The releases that a file names, or those of the command line, which win.

    Raises:
        ConfigError: There is no such release.
    """
    version_in_file = yaml_content.get("as_version")
    if not isinstance(version_in_file, str):  # the model refuses what is no text
        return file_readers(as_version)
    try:
        file_readers((version_in_file,))
    except ConfigError as error:
        raise ConfigError(f"{file}:{line_by_path['as_version',]}: as_version: {error}") from None
    return file_readers((version_in_file, *as_version))


def settings_of(
    named_values: Mapping[str, object], *, source_name: str, as_version: Sequence[str] = ()
) -> tuple[Settings, tuple[str, ...]]:
    """Settings given by name in a program, ours or Kafka's, validated like those of a YAML file.

    Args:
        named_values: The settings by name.
        source_name: What messages begin with: who has given them.
        as_version: The releases of the brokers that read them, as ``--as-version`` names them; by
            default the reference.

    Returns:
        The settings, and warnings about names without effect.

    Raises:
        ConfigError: A name is unknown or a value wrong; one line for each. Or there is no such
            release.
    """
    readers = file_readers(as_version)
    problems = _Problems(source_name, readers, names_lines=False)
    line_by_path: _LineByPath = dict.fromkeys((("settings", name) for name in named_values), 0)
    settings, warnings = _named_settings(
        named_values, line_by_path, problems, readers, is_copied=False
    )
    problems.raise_if_any()
    return settings, _idle_warnings(warnings, file=source_name)


def _named_settings(
    named_values: Mapping[str, object],
    line_by_path: _LineByPath,
    problems: _Problems,
    readers: FileReaders,
    *,
    is_copied: bool = True,
) -> tuple[Settings, list[tuple[str, Property]]]:
    """Settings under our names or Kafka's, and those without effect; defaults after a problem.
    Unknown names are allowed if the settings may be copied from a broker's file.
    """
    settings: dict[str, object] = {}
    property_by_name: dict[str, Property] = {}
    warnings_and_properties: list[tuple[str, Property]] = []
    preset_values: Mapping[str, int] = {}
    for setting_label, setting_value in named_values.items():
        line_number = line_by_path["settings", setting_label]
        if setting_label == PRESET:
            try:
                preset_values = preset_named(setting_value)
            except ConfigError as error:
                problems.add(line_number, f"settings.{setting_label}", str(error))
            continue
        name = _our_name(setting_label)
        file_property = Property(line=line_number, name=setting_label, value=text(setting_value))
        if name is not None and (unread_name := _name_without_reader(name, readers)) is not None:
            unread_property = msgspec.structs.replace(file_property, name=unread_name)
            warnings_and_properties.append((readers.without_it, unread_property))
        elif name is None and (complaint := why_without_effect(setting_label, readers)) is not None:
            warnings_and_properties.append((complaint, file_property))
            if (refusal := _number_complaint(file_property, readers)) is not None:
                problems.add(line_number, f"settings.{setting_label}", refusal)
        elif name is None and setting_label in security_properties():
            problems.add(line_number, f"settings.{setting_label}", "the section security has it")
        elif name is None:
            property_kind = _fate_of_unknown_label(setting_label, readers, is_ours=True)
            if isinstance(property_kind, _IgnoredProperty) and not is_copied:
                property_kind = _unknown_property(None, readers)
            if isinstance(property_kind, _RefusedProperty):
                problems.add(line_number, f"settings.{setting_label}", property_kind.message)
            else:
                warnings_and_properties.append((readers.without_it, file_property))
                problems.note_ignored(line_number, f"settings.{setting_label}")
        elif name in settings:
            problems.add(
                line_number,
                f"settings.{setting_label}",
                "given twice, under our name and under Kafka's",
            )
        else:
            settings[name] = setting_value
            property_by_name[name] = Property(
                line=line_number, name=f"settings.{setting_label}", value=str(setting_value)
            )
    if problems.add_settings(settings, property_by_name):
        return DEFAULTS, warnings_and_properties
    described_values = _described_values(
        (file_property for _, file_property in warnings_and_properties), readers
    )
    combined_settings = settings_from_values({**preset_values, **settings}, described_values)
    problems.add_disagreements(combined_settings, property_by_name)
    return combined_settings, warnings_and_properties


def _from_properties(
    properties: list[Property], *, file: str, readers: FileReaders
) -> Configuration:
    from txnsim.config._broker_security import plain_listener, read_security
    from txnsim.config._listeners import read_listeners
    from txnsim.config._nodes import read_node
    from txnsim.config._providers import FROM_A_PROVIDER, provided_properties, without_unopenable

    problems = _Problems(file, readers)
    entry_by_name = {
        file_property.name: file_property for file_property in properties
    }  # java.util.Properties: the last wins
    provider_properties = provided_properties(entry_by_name)
    used_properties = {
        key: entry_by_name[key] for key in entry_by_name if key not in provider_properties
    }
    settings = _parse_settings(used_properties.values(), problems, readers)
    listeners = without_unopenable(
        read_listeners(used_properties), used_properties, provider_properties
    )
    security = read_security(used_properties, listeners.clients)
    file_node = read_node(used_properties)
    used_names = security.used_names | file_node.used_names
    prefixes_of_plugins = plugin_prefixes(
        {name: file_property.value for name, file_property in used_properties.items()}
    )
    idle_properties = [
        (FROM_A_PROVIDER, file_property) for file_property in provider_properties.values()
    ]
    for file_property in used_properties.values():
        match _fate_of_property(file_property, used_names, listeners, prefixes_of_plugins, readers):
            case _RefusedProperty(message=message):
                problems.add(file_property.line, file_property.name, message)
            case _IgnoredProperty():
                idle_properties.append((readers.without_it, file_property))
                problems.note_ignored(file_property.line, file_property.name)
            case str() as ignore_reason:
                idle_properties.append((ignore_reason, file_property))
    for file_property, message in (*file_node.refusals, *listeners.refusals, *security.refusals):
        problems.add(file_property.line, file_property.name, message)
    problems.raise_if_any()
    first_listener = plain_listener(listeners.clients) or next(iter(listeners.clients), None)
    remarks = [
        (file_property, "repeated further down, which wins")
        for file_property in properties
        if entry_by_name[file_property.name] is not file_property
    ]
    remarks += listeners.odd_remarks if file_node.brokers != 1 else ()
    remarks += (*listeners.closed, *security.odd_remarks)
    return Configuration(
        settings=settings_from_values(
            settings, _described_values(used_properties.values(), readers)
        ),
        brokers=file_node.brokers,
        first_broker_id=file_node.broker_id,
        host=None if first_listener is None else first_listener.host,
        port=None if first_listener is None else first_listener.port,
        advertised_host=None if first_listener is None else first_listener.advertised_host,
        advertised_port=None if first_listener is None else first_listener.advertised_port,
        security=None if security.options == NO_SECURITY else security.options,
        warnings=(
            *(
                f"{file}:{file_property.line}: {file_property.name}: {message}"
                for file_property, message in remarks
            ),
            *_idle_warnings(idle_properties, file=file),
        ),
    )


def _parse_settings(
    properties: Iterable[Property], problems: _Problems, readers: FileReaders
) -> dict[str, object]:
    """The settings under our names; values that can't be read or disagree are problems."""
    settings: dict[str, object] = {}
    property_by_name: dict[str, Property] = {}
    for file_property in properties:
        name = (
            _our_name(file_property.name)
            if file_property.name in known_properties(readers)
            else None
        )
        if name is not None:
            try:
                settings[name] = _parse_value(name, file_property.value)
            except ValueError as error:
                problems.add(file_property.line, file_property.name, str(error))
            property_by_name[name] = file_property
    if not problems.add_settings(settings, property_by_name):
        problems.add_disagreements(msgspec.convert(settings, Settings), property_by_name)
    return settings


class _RefusedProperty(msgspec.Struct, frozen=True):
    """A name that is refused, or a number that a real broker refuses."""

    message: str


class _IgnoredProperty(msgspec.Struct, frozen=True):
    """A name that no broker has (``FileReaders.without_it``)."""


def _fate_of_property(
    given_property: Property,
    used_names: frozenset[str],
    listeners: Listeners,
    plugin_prefixes: tuple[str, ...],
    readers: FileReaders,
) -> str | _IgnoredProperty | _RefusedProperty | None:
    """Why a property has no effect; None if it has one."""
    name = given_property.name
    if (complaint := _number_complaint(given_property, readers)) is not None:
        return _RefusedProperty(complaint)
    if name in used_names or name in listener_properties():
        return None
    if name.startswith(_LISTENER_PREFIX):
        return _fate_of_listeners(name, listeners, readers)
    if name in security_properties():
        return NO_LISTENER_FOR_IT
    idle_reason = why_without_effect(name, readers)
    if idle_reason is not None or name in known_properties(readers):
        return idle_reason
    if name.endswith(".sasl.jaas.config"):
        return _RefusedProperty(
            f"it needs its listener in front: {_LISTENER_PREFIX}LISTENER.{name}"
        )
    if name.startswith(plugin_prefixes):
        return OF_PLUGINS
    return _fate_of_unknown_label(name, readers, is_ours=False)


def _fate_of_listeners(
    name: str, listeners: Listeners, readers: FileReaders
) -> str | _RefusedProperty:
    """Why a property of a listener has no effect."""
    listener, _, suffix = name.removeprefix(_LISTENER_PREFIX).partition(".")
    client_names = {client_listener.name for client_listener in listeners.clients}
    if listener.upper() in listeners.controller_names:
        return ONE_PROCESS
    if listener.upper() in listeners.closed_names:
        return NOT_OPENED
    if client_names and (listener.upper() not in client_names or listener != listener.lower()):
        listener_names = ", ".join(
            sorted(client_listener.lower() for client_listener in client_names)
        )
        return _RefusedProperty(f"there is no listener {listener}, only {listener_names}")
    for common_name in (suffix, suffix.partition(".")[2]):
        if common_name in known_properties(readers):
            return why_without_effect(common_name, readers) or NO_LISTENER_FOR_IT
    return _unknown_property(nearest(suffix, readers=readers), readers)


def _our_name(kafka_name: str) -> str | None:
    """The field of ``Settings`` with this name, ours or Kafka's; None if there is none."""
    setting_docs = documentation()
    if kafka_name in setting_docs:
        return kafka_name
    return next(
        (
            name
            for name, setting_docs_row in setting_docs.items()
            if setting_docs_row.kafka == kafka_name
        ),
        None,
    )


def _name_without_reader(field: str, readers: FileReaders) -> str | None:
    """Kafka's name of a setting that no broker has; None if one has it, or it is our own."""
    kafka_name = documentation()[field].kafka
    row = None if kafka_name is None else setting_rows("broker").get(kafka_name)
    return None if row is None or readers.have(row) else row.name


def _parse_value(name: str, value_text: str) -> int | float | bool | str:
    """The value of a property, as ConfigDef.parseType reads it."""
    value_kind = get_type_hints(Settings)[name]
    value_text = value_text.strip()
    if value_kind is bool:
        if value_text.lower() not in ("true", "false"):
            raise ValueError(f"expected true or false, found {value_text!r}")
        return value_text.lower() == "true"
    if value_kind is float:
        try:
            return decimal_number(value_text)
        except ValueError:
            raise ValueError(f"expected a number, found {value_text!r}") from None
    if value_kind in (int, int | None):
        try:
            return whole_number(value_text)
        except ValueError:
            raise ValueError(f"expected a whole number, found {value_text!r}") from None
    return value_text


def _fate_of_unknown_label(
    setting_label: str, readers: FileReaders, *, is_ours: bool
) -> _IgnoredProperty | _RefusedProperty:
    """How to treat a name that neither Kafka nor this program knows. Copied files have names that
    other programs read, which a broker ignores; a misspelt name is an error.
    """
    if setting_label.startswith(CONFLUENT):
        return _IgnoredProperty()
    setting_by_name = documentation()
    similar_name = nearest(setting_label, setting_by_name if is_ours else (), readers=readers)
    is_misplaced = setting_label in setting_by_name or (is_ours and "." not in setting_label)
    return (
        _IgnoredProperty()
        if similar_name is None and not is_misplaced
        else _unknown_property(similar_name, readers)
    )


def _unknown_property(similar_name: str | None, readers: FileReaders) -> _RefusedProperty:
    unknown_text = readers.unknown_name
    return _RefusedProperty(
        f"{unknown_text}; did you mean {similar_name}?" if similar_name else unknown_text
    )


def _number_complaint(file_property: Property, readers: FileReaders) -> str | None:
    """Why a real broker does not start with this number or boolean, though it has no effect here;
    None if it starts, or the property is none of these.
    """
    row = setting_rows("broker").get(file_property.name)
    if row is None or row.read_by == "settings":
        return None
    for release_rules in readers.rules:
        key = broker_configs(release_rules).get(file_property.name)
        if key is None or key.type in (ConfigType.LIST, ConfigType.STRING, ConfigType.CLASS):
            continue
        complaint = key_complaint(key, file_property.name, file_property.value)
        if complaint is not None:
            return complaint
    return None


def _described_values(file_properties: Iterable[Property], readers: FileReaders) -> dict[str, str]:
    """What a broker tells of its file beside our settings: properties that have no effect here, or
    that only listeners and security read. Secrets are left out, and so is what no release knows,
    as it may be one.
    """
    rows = setting_rows("broker")
    described_values = {}
    for file_property in file_properties:
        row = rows.get(file_property.name)
        if row is None or row.read_by != "settings" or not readers.have(row):
            is_shown = row is not None and row.type != ConfigType.PASSWORD.name
            described_values[file_property.name] = file_property.value if is_shown else SECRET
    return described_values


def _idle_warnings(named_properties: list[tuple[str, Property]], *, file: str) -> tuple[str, ...]:
    """The warnings about entries without effect: one line for each reason."""
    entries_by_reason: dict[str, list[str]] = {}
    for reason, file_property in named_properties:
        entries_by_reason.setdefault(reason, []).append(file_property.name)
    return tuple(
        f"{file}: without effect, because {reason}: {', '.join(names)}"
        for reason, names in entries_by_reason.items()
    )
