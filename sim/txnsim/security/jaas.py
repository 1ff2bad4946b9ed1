"""Parses ``sasl.jaas.config``: a login module, a flag, options.

Example: ``org…PlainLoginModule required username="alice" password="alice-secret";``. It accepts any
module. Kafka's counterparts: JaasConfig, which reads with java.io.StreamTokenizer;
JaasContext.load, which wants exactly one module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

_TOKEN: Final = (
    r"(?P<blank>[\x00-\x20]+|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)"
    r"|(?P<quote>[\"'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|(?=[\r\n])|\Z)"
    r"|(?P<word>[A-Za-z_$\u00a0-\U0010ffff][-\w$.]*)"
    r"|(?P<number>[-.]*\d[-\d.]*)"
    r"|(?P<sign>.)"
)
"""The pattern of a token. It is compiled when the first config is read: compiling takes as long as
ten imports.
"""
_ESCAPE: Final = re.compile(r"\\(?P<octal>[0-3]?[0-7]{1,2})|\\(?P<char>.)", re.DOTALL)
_CONTROLS: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})


class LoginModule(msgspec.Struct, frozen=True, kw_only=True):
    """A login module and its options."""

    name: str
    """The full name of the class."""
    options: Mapping[str, str]


class _Token(msgspec.Struct, frozen=True):
    text: str
    is_word: bool
    """Whether the token can be a name or a value; a number or a sign can't."""


def parse_login(text: str) -> LoginModule:
    """Parse a property that has exactly one login module.

    Raises:
        ValueError: The syntax is wrong, or there is no module or more than one.
    """
    tokens = _tokens(text)
    modules = []
    for first_token in tokens:
        modules.append(_module(first_token, tokens))
    if not modules:
        raise ValueError("there is no login module in it")
    if len(modules) > 1:
        raise ValueError(f"it has {len(modules)} login modules, where one is expected")
    return modules[0]


def _module(name_token: _Token, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens, None)
    if not name_token.is_word or flag is None or flag.text.upper() not in _FLAGS:
        raise ValueError(
            f"after the login module {name_token.text} a flag is expected, as in: MODULE required "
            'username="…" password="…";'
        )
    options: dict[str, str] = {}
    for token in tokens:
        if token == _END:
            return LoginModule(name=name_token.text, options=options)
        sign, value = next(tokens, _END), next(tokens, _END)
        if sign != _EQUALS or not value.is_word:
            raise ValueError(f'the option {token.text} has no value; put it in quotes: "…"')
        options[token.text] = value.text
    raise ValueError("the semicolon at its end is missing")


_END: Final = _Token(";", is_word=False)
_EQUALS: Final = _Token("=", is_word=False)


def _tokens(text: str) -> Iterator[_Token]:
    for match in re.finditer(_TOKEN, text, re.DOTALL):
        if match["blank"] is not None:
            continue
        if match["quote"] is not None:
            yield _Token(_ESCAPE.sub(_unescape, match["quoted"]), is_word=True)
        else:
            yield _Token(match[0], is_word=match["word"] is not None)


def _unescape(match: re.Match[str]) -> str:
    if match["octal"] is not None:
        return chr(int(match["octal"], 8))
    return _CONTROLS.get(match["char"], match["char"])
