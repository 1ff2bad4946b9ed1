"""``ssl.principal.mapping.rules``: gets a user's name from the subject of its certificate
(KIP-371).

Rules are tried in order; the first whose expression matches the whole subject gives the name:
``RULE:^CN=(.*?),.*$/$1/L,DEFAULT``. ``L`` and ``U`` change its case, ``DEFAULT`` takes the subject
unchanged. Kafka's counterpart: SslPrincipalMapper, with the expressions of java.util.regex.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

DEFAULT: Final = "DEFAULT"
"""The rules of a broker whose config has none."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|\Z)", re.ASCII)
_PARSER: Final = re.compile(_RULE)
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
"""The start of a named group in Java's syntax."""
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$\{(?P<name>\w+)\}|\$(?P<digits>\d*)", re.DOTALL)


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
    pattern: re.Pattern[str] | None
    """None for the rule ``DEFAULT``, which takes the subject unchanged."""
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name for a subject; None if the rule does not match it.

        Raises:
            ValueError: The replacement names a group that the expression does not have.
        """
        if self.pattern is None:
            return subject
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._expand_replacement, subject)
        match self.case:
            case "L":
                return name.lower()
            case "U":
                return name.upper()
            case _:
                return name

    def _expand_replacement(self, match: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda reference: _reference_text(match, reference), self.replacement)


class PrincipalMapping:
    """The mapping rules of one listener."""

    def __init__(self, rules: str = DEFAULT) -> None:
        """Parse the rules.

        Raises:
            ValueError: A rule is malformed.
        """
        self._rules = [
            rule
            for text in _SPLITTER.finditer(rules.strip())
            if (rule := _parse_rule(text[1])) is not None
        ]

    def name(self, subject: str) -> str | None:
        """The user's name for a subject; None if no rule gives one, and the connection is to be
        closed.
        """
        try:
            return next(
                (name for rule in self._rules if (name := rule.apply(subject)) is not None), None
            )
        except ValueError:
            return None


def _parse_rule(text: str) -> _Rule | None:
    """Parse a rule; None if there is nothing between two commas."""
    match = _PARSER.match(text)
    assert match is not None, "the last alternative takes nothing at all"
    if match.end() != len(text):
        raise ValueError(
            f"{text!r} is no rule: expected DEFAULT, or RULE:EXPRESSION/REPLACEMENT/ with L or U "
            "behind it"
        )
    if match[1] is not None:
        return _Rule(pattern=None)
    if match[2] is None:
        return None
    try:
        pattern = re.compile(_NAMED_GROUP.sub("(?P<", match[2]))
    except re.error as error:
        raise ValueError(f"{match[2]!r} is no regular expression: {error}") from None
    return _Rule(pattern=pattern, replacement=match[3], case=match[4])


def _reference_text(match: re.Match[str], reference: re.Match[str]) -> str:
    """The text that replaces a reference in a replacement (Matcher.appendReplacement). A reference
    to a group beyond the last is plain text, unless there are no groups at all
    (SslPrincipalMapper.escapeLiteralBackReferences).
    """
    if reference["literal"] is not None:
        return str(reference["literal"])
    if reference["name"] is not None:
        try:
            return match[reference["name"]] or ""
        except IndexError:
            raise ValueError(f"no group {reference['name']}") from None
    digits, groups = reference["digits"], match.re.groups
    if not digits or (int(digits[0]) > groups and not groups):
        raise ValueError(f"no group {digits}")
    if int(digits[0]) > groups:
        return reference[0]
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= groups:
        length += 1
    return (match[int(digits[:length])] or "") + digits[length:]
