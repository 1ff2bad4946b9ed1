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
_NEAR: Final = 0.8
"""Similarity from which a name counts as misspelt, compared without the prefix: ``TOPIC`` does,
``PEER_BOOTSTRAP`` does not.
"""

_OF_KUBERNETES: Final = (
    r"(TXNSIM|KAFKA)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)"
)
"""Variables that Kubernetes sets in every pod when a service is named ``txnsim`` or ``kafka``."""


def is_given(name: str, value: str, prefix: str = PREFIX) -> bool:
    """Whether a variable has the prefix and was not set by Kubernetes."""
    if not name.startswith(prefix):
        return False
    return not (
        # Compiled here, and cached by ``re``: it takes a millisecond, and few commands need it.
        re.fullmatch(_OF_KUBERNETES, name) or (name == f"{prefix}PORT" and "://" in value)
    )


def unknown_variables(environment: Mapping[str, str]) -> str | None:
    """Describe misspelt variables, one line for each; None if there are none."""
    strange = [
        name
        for name, value in sorted(environment.items())
        if is_given(name, value) and name not in OPTIONS and name not in _OTHERS
    ]
    if not strange:
        return None
    from difflib import get_close_matches  # seldom needed

    known_names = [name.removeprefix(PREFIX) for name in (*OPTIONS, *_OTHERS)]
    problems = []
    for name in strange:
        for near in get_close_matches(name.removeprefix(PREFIX), known_names, n=1, cutoff=_NEAR):
            problems.append(f"no variable {name!r}; did you mean {PREFIX}{near}?")
    return "\n".join(problems) or None


def words_of(
    environment: Mapping[str, str], arguments: Sequence[str], *, only: Sequence[str] | None = None
) -> list[str]:
    """Turns variables into command-line arguments, unless the command line already has the option.

    Args:
        environment: The variables of the process.
        arguments: The command line, without the program's name.
        only: The options that the command has; all of ``txnsim serve`` unless given.

    Raises:
        ValueError: A value is invalid; the message names the variable.
    """
    present = {word.partition("=")[0] for word in arguments}
    option_words: list[str] = []
    for name, value in environment.items():
        if name not in OPTIONS or not is_given(name, value):
            continue
        flag, words = OPTIONS[name]
        if flag not in present and (only is None or flag in only):
            option_words += words(name, value)
    return option_words


# Settings of the variables


def _option(flag: str) -> tuple[str, Callable[[str, str], list[str]]]:
    return flag, lambda _name, value: [flag, value]


def _word_per_part(flag: str) -> tuple[str, Callable[[str, str], list[str]]]:
    """Repeat the option for each part of a comma-separated value."""
    return flag, lambda _name, value: [
        word for part in value.split(",") if part.strip() for word in (flag, part.strip())
    ]


def _topics(_name: str, value: str) -> list[str]:
    names = [part.strip() for part in value.split(",") if part.strip()]
    return [word for name in names for word in ("--topic", name if ":" in name else f"{name}:1")]


def _http(_name: str, value: str) -> list[str]:
    return [] if value == OFF else ["--http", value]


def _switch(flag: str) -> tuple[str, Callable[[str, str], list[str]]]:
    def _words(name: str, value: str) -> list[str]:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{name}={value}: expected true or false")
        return [flag] if value.lower() == "true" else []

    return flag, _words


def _read_elsewhere(_name: str, _value: str) -> list[str]:
    """Make no argument of the variable: its value is a token, which a list of
    processes would show.
    """
    return []


OPTIONS: Final[Mapping[str, tuple[str, Callable[[str, str], list[str]]]]] = {
    "TXNSIM_ADVERTISED": _word_per_part("--advertised"),
    "TXNSIM_ADVERTISED_HOST": _option("--advertised-host"),
    "TXNSIM_AS_VERSION": _word_per_part("--as-version"),
    "TXNSIM_BROKERS": _option("--brokers"),
    "TXNSIM_FIRST_BROKER_ID": _option("--first-broker-id"),
    "TXNSIM_CONFIG": _option("--config"),
    "TXNSIM_HOST": _option("--host"),
    "TXNSIM_HTTP_PORT": ("--http", _http),
    "TXNSIM_KIP_TEXT": _switch("--kip-text"),
    "TXNSIM_LOG_BUDGET": _option("--log-budget"),
    "TXNSIM_MEMORY": _option("--memory"),
    "TXNSIM_PORT": _option("--port"),
    "TXNSIM_PRESET": _option("--preset"),
    "TXNSIM_READY_FILE": _option("--ready-file"),
    "TXNSIM_TOKEN": ("", _read_elsewhere),
    "TXNSIM_TOPICS": ("--topic", _topics),
    "TXNSIM_TRACE": _option("--trace"),
    "TXNSIM_TRANSACTION_VERSION": _option("--transaction-version"),
}
"""Variable of ``serve`` -> its option, and the function that turns the value into arguments."""

ARRANGED: Final = "TXNSIM_ARRANGED"
"""Set in a process that ``runtime.virtual.reproducible_process`` has restarted, so that it is not
restarted again.
"""
_OTHERS: Final = (BOOTSTRAP, HTTP, ARRANGED)
