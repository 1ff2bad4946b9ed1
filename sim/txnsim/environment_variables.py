"""The environment variables ``TXNSIM_…``: which there are, and which options of ``txnsim serve``
they stand for.

An option on the command line wins over its variable, a variable over a configuration file. A name
that is nearly one of these variables is refused: otherwise a misspelt variable would be ignored in
silence. Other names are left to those who set them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

PREFIX: Final = "TXNSIM_"
BOOTSTRAP: Final = "TXNSIM_BOOTSTRAP"
"""Default of ``--bootstrap-server`` for every command that has it, and for the pytest plugin."""
HTTP: Final = "TXNSIM_HTTP"
"""Address of the control port, for the commands that talk to it."""
OFF: Final = "off"
_SIMILARITY_MIN: Final = 0.8
"""Similarity from which a name counts as misspelt, compared without the prefix: ``TOPIC`` does,
``PEER_BOOTSTRAP`` does not.
"""

_KUBERNETES_VARIABLE: Final = (
    r"(TXNSIM|KAFKA)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)"
)
"""Variables that Kubernetes sets in every pod when a service is named ``txnsim`` or ``kafka``."""


def is_given(variable_name: str, value: str, prefix: str = PREFIX) -> bool:
    """Whether a variable has the prefix and was not set by Kubernetes."""
    if not variable_name.startswith(prefix):
        return False
    return not (
        # Compiled here, and cached by ``re``: it takes a millisecond, and few commands need it.
        re.fullmatch(_KUBERNETES_VARIABLE, variable_name)
        or (variable_name == f"{prefix}PORT" and "://" in value)
    )


def unknown_variables(process_variables: Mapping[str, str]) -> str | None:
    """Describe misspelt variables, one line for each; None if there are none."""
    unknown_names = [
        variable_name
        for variable_name, value in sorted(process_variables.items())
        if is_given(variable_name, value)
        and variable_name not in OPTIONS
        and variable_name not in _OTHER_VARIABLES
    ]
    if not unknown_names:
        return None
    from difflib import get_close_matches  # seldom needed

    known_names = [
        variable_name.removeprefix(PREFIX) for variable_name in (*OPTIONS, *_OTHER_VARIABLES)
    ]
    problems = []
    for variable_name in unknown_names:
        for similar_name in get_close_matches(
            variable_name.removeprefix(PREFIX), known_names, n=1, cutoff=_SIMILARITY_MIN
        ):
            problems.append(f"no variable {variable_name!r}; did you mean {PREFIX}{similar_name}?")
    return "\n".join(problems) or None


def words_of(
    process_variables: Mapping[str, str],
    arguments: Sequence[str],
    *,
    known_options: Sequence[str] | None = None,
) -> list[str]:
    """Turns variables into command-line arguments, unless the command line already has the option.

    Args:
        process_variables: The variables of the process.
        arguments: The command line, without the program's name.
        known_options: The options that the command has; all of ``txnsim serve`` unless given.

    Raises:
        ValueError: A value is invalid; the message names the variable.
    """
    given_options = {argument.partition("=")[0] for argument in arguments}
    option_words: list[str] = []
    for variable_name, value in process_variables.items():
        if variable_name not in OPTIONS or not is_given(variable_name, value):
            continue
        flag, words_of_value = OPTIONS[variable_name]
        if flag not in given_options and (known_options is None or flag in known_options):
            option_words += words_of_value(variable_name, value)
    return option_words


# Settings of the variables


def _option_with_value(flag: str) -> tuple[str, Callable[[str, str], list[str]]]:
    return flag, lambda _name, value: [flag, value]


def _word_per_part(flag: str) -> tuple[str, Callable[[str, str], list[str]]]:
    """Repeat the option for each part of a comma-separated value."""
    return flag, lambda _name, value: [
        word
        for value_part in value.split(",")
        if value_part.strip()
        for word in (flag, value_part.strip())
    ]


def _topic_options(_name: str, value: str) -> list[str]:
    topic_texts = [value_part.strip() for value_part in value.split(",") if value_part.strip()]
    return [
        word
        for topic_text in topic_texts
        for word in ("--topic", topic_text if ":" in topic_text else f"{topic_text}:1")
    ]


def _http_option(_name: str, value: str) -> list[str]:
    return [] if value == OFF else ["--http", value]


def _switch_option(flag: str) -> tuple[str, Callable[[str, str], list[str]]]:
    def _words(variable_name: str, value: str) -> list[str]:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{variable_name}={value}: expected true or false")
        return [flag] if value.lower() == "true" else []

    return flag, _words


def _read_elsewhere(_name: str, _value: str) -> list[str]:
    """Make no argument of the variable: its value is a token, which a list of
    processes would show.
    """
    return []


OPTIONS: Final[Mapping[str, tuple[str, Callable[[str, str], list[str]]]]] = {
    "TXNSIM_ADVERTISED": _word_per_part("--advertised"),
    "TXNSIM_ADVERTISED_HOST": _option_with_value("--advertised-host"),
    "TXNSIM_AS_VERSION": _word_per_part("--as-version"),
    "TXNSIM_BROKERS": _option_with_value("--brokers"),
    "TXNSIM_FIRST_BROKER_ID": _option_with_value("--first-broker-id"),
    "TXNSIM_CONFIG": _option_with_value("--config"),
    "TXNSIM_HOST": _option_with_value("--host"),
    "TXNSIM_HTTP_PORT": ("--http", _http_option),
    "TXNSIM_KIP_TEXT": _switch_option("--kip-text"),
    "TXNSIM_LOG_BUDGET": _option_with_value("--log-budget"),
    "TXNSIM_MEMORY": _option_with_value("--memory"),
    "TXNSIM_PORT": _option_with_value("--port"),
    "TXNSIM_PRESET": _option_with_value("--preset"),
    "TXNSIM_READY_FILE": _option_with_value("--ready-file"),
    "TXNSIM_TOKEN": ("", _read_elsewhere),
    "TXNSIM_TOPICS": ("--topic", _topic_options),
    "TXNSIM_TRACE": _option_with_value("--trace"),
    "TXNSIM_TRANSACTION_VERSION": _option_with_value("--transaction-version"),
}
"""Variable of ``serve`` -> its option, and the function that turns the value into arguments."""

ARRANGED: Final = "TXNSIM_ARRANGED"
"""Set in a process that ``runtime.virtual.reproducible_process`` has restarted, so that it is not
restarted again.
"""
_OTHER_VARIABLES: Final = (BOOTSTRAP, HTTP, ARRANGED)
