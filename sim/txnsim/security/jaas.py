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

_TOKEN_PATTERN: Final = (
    r"(?P<blank>[\x00-\x20]+|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)"
    r"|(?P<quote>[\"'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|(?=[\r\n])|\Z)"
    r"|(?P<word>[A-Za-z_$\u00a0-\U0010ffff][-\w$.]*)"
    r"|(?P<number>[-.]*\d[-\d.]*)"
    r"|(?P<sign>.)"
)
"""The pattern of a token. It is compiled when the first config is read: compiling takes as long as
ten imports.
"""
_ESCAPE_PATTERN: Final = re.compile(r"\\(?P<octal>[0-3]?[0-7]{1,2})|\\(?P<char>.)", re.DOTALL)
_CONTROL_CHARACTERS: Final = {
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


def parse_login(jaas_text: str) -> LoginModule:
    """Parse a property that has exactly one login module.

    Raises:
        ValueError: The syntax is wrong, or there is no module or more than one.
    """
    tokens = _tokens(jaas_text)
    modules = []
    for first_token in tokens:
        modules.append(_parse_module(first_token, tokens))
    if not modules:
        raise ValueError("there is no login module in it")
    if len(modules) > 1:
        raise ValueError(f"it has {len(modules)} login modules, where one is expected")
    return modules[0]


def _parse_module(name_token: _Token, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens, None)
    if not name_token.is_word or flag is None or flag.text.upper() not in _FLAGS:
        raise ValueError(
            f"after the login module {name_token.text} a flag is expected, as in: MODULE required "
            'username="…" password="…";'
        )
    options: dict[str, str] = {}
    for option_token in tokens:
        if option_token == _END_TOKEN:
            return LoginModule(name=name_token.text, options=options)
        equals_sign, value_token = next(tokens, _END_TOKEN), next(tokens, _END_TOKEN)
        if equals_sign != _EQUALS_TOKEN or not value_token.is_word:
            raise ValueError(f'the option {option_token.text} has no value; put it in quotes: "…"')
        options[option_token.text] = value_token.text
    raise ValueError("the semicolon at its end is missing")


_END_TOKEN: Final = _Token(";", is_word=False)
_EQUALS_TOKEN: Final = _Token("=", is_word=False)


def _tokens(jaas_text: str) -> Iterator[_Token]:
    for token_match in re.finditer(_TOKEN_PATTERN, jaas_text, re.DOTALL):
        if token_match["blank"] is not None:
            continue
        if token_match["quote"] is not None:
            yield _Token(_ESCAPE_PATTERN.sub(_unescape, token_match["quoted"]), is_word=True)
        else:
            yield _Token(token_match[0], is_word=token_match["word"] is not None)


def _unescape(escape_match: re.Match[str]) -> str:
    if escape_match["octal"] is not None:
        return chr(int(escape_match["octal"], 8))
    return _CONTROL_CHARACTERS.get(escape_match["char"], escape_match["char"])
