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

_RULE_PATTERN: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_RULE_SPLITTER: Final = re.compile(rf"\s*({_RULE_PATTERN})\s*(?:,\s*|\Z)", re.ASCII)
_RULE_PARSER: Final = re.compile(_RULE_PATTERN)
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")
"""The start of a named group in Java's syntax."""
_REFERENCE_PATTERN: Final = re.compile(
    r"\\(?P<literal>.)|\$\{(?P<name>\w+)\}|\$(?P<digits>\d*)", re.DOTALL
)


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
    pattern: re.Pattern[str] | None
    """None for the rule ``DEFAULT``, which takes the subject unchanged."""
    replacement: str = ""
    case: str = ""

    def apply(self, subject_name: str) -> str | None:
        """The name for a subject; None if the rule does not match it.

        Raises:
            ValueError: The replacement names a group that the expression does not have.
        """
        if self.pattern is None:
            return subject_name
        if self.pattern.fullmatch(subject_name) is None:
            return None
        user_name = self.pattern.sub(self._expand_replacement, subject_name)
        match self.case:
            case "L":
                return user_name.lower()
            case "U":
                return user_name.upper()
            case _:
                return user_name

    def _expand_replacement(self, match: re.Match[str]) -> str:
        return _REFERENCE_PATTERN.sub(
            lambda reference: _reference_text(match, reference), self.replacement
        )


class PrincipalMapping:
    """The mapping rules of one listener."""

    def __init__(self, rules_text: str = DEFAULT) -> None:
        """Parse the rules.

        Raises:
            ValueError: A rule is malformed.
        """
        self._rules = [
            rule
            for rule_match in _RULE_SPLITTER.finditer(rules_text.strip())
            if (rule := _parse_rule(rule_match[1])) is not None
        ]

    def name(self, subject_name: str) -> str | None:
        """The user's name for a subject; None if no rule gives one, and the connection is to be
        closed.
        """
        try:
            return next(
                (
                    user_name
                    for rule in self._rules
                    if (user_name := rule.apply(subject_name)) is not None
                ),
                None,
            )
        except ValueError:
            return None


def _parse_rule(rule_text: str) -> _Rule | None:
    """Parse a rule; None if there is nothing between two commas."""
    match = _RULE_PARSER.match(rule_text)
    assert match is not None, "the last alternative takes nothing at all"
    if match.end() != len(rule_text):
        raise ValueError(
            f"{rule_text!r} is no rule: expected DEFAULT, or RULE:EXPRESSION/REPLACEMENT/ with L "
            "or U behind it"
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
    digits, group_count = reference["digits"], match.re.groups
    if not digits or (int(digits[0]) > group_count and not group_count):
        raise ValueError(f"no group {digits}")
    if int(digits[0]) > group_count:
        return reference[0]
    digit_count = 1
    while digit_count < len(digits) and int(digits[: digit_count + 1]) <= group_count:
        digit_count += 1
    return (match[int(digits[:digit_count])] or "") + digits[digit_count:]
