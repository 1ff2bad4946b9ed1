"""Regular expressions of clients: RE2/J's syntax, bounded by what a match may cost. Pure.

An expression is parsed as RE2/J parses it, and translated (``written``) for Rust's ``regex``. That
library matches in time linear in the name and in the size of the compiled program, and a short
expression can have a large program: ``(a?){1000}`` has thousands of instructions. So the length and
the program of an expression are bounded, and so is the product of program and name. Matching a
thousand names costs a thousand matches: a caller that matches many names takes breaks
(``Pattern.weight``).

The accepted syntax, the refused syntax and the error texts are those of RE2/J 1.8, which Kafka's
brokers use, including its oddities: ``a{*`` is a repetition of a repetition, and a parenthesis that
closes nothing is an internal error. Names are matched as a whole, so greediness and captured groups
make no difference and are not translated.

Rust's ``regex`` comes with pydantic, which uses it for patterns of strings. Apache Kafka's broker
uses RE2/J, without bounds. Counterpart of the syntax: com.google.re2j.Parser.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from txnsim.errors import PatternError
from txnsim.on_demand_imports import OnDemand

pydantic_core: Final[Any] = OnDemand("pydantic_core")

DEVIATIONS: Final = (
    "A pattern of a client (the list of transactional ids, a subscription, the match of client"
    " metrics) has at most 10,000 bytes, a program of about 8,000 instructions (a class of Unicode"
    " counts as 250) and groups nested 50 deep. ListTransactions refuses one that takes too long"
    " for an id: INVALID_REGULAR_EXPRESSION.",
    r"Classes of Unicode (`\p{Greek}`) and `(?i)` in a pattern of a client go by a newer Unicode"
    " than RE2/J's, which is that of 2010: they know the characters that have come since.",
    "RE2/J never comes to an end over `(?i)` with a character from U+1C80 to U+1C88 or a range that"
    r" holds one, such as `(?i)[\x{100}-\x{ffff}]` (1.8 on Java 17; a real broker gives no answer):"
    " a thread of the broker is busy for good. Here it is an expression as any other.",
)

BYTES_MAX: Final = 10_000
"""Longest expression, in bytes of UTF-8."""
INSTRUCTIONS_MAX: Final = 8_000
"""Largest compiled program of an expression. With the memory for its matches, a pattern then takes
at most 5 MB.
"""
STEPS_MAX: Final = 2_000_000
"""Most steps of one match: instructions of the program times characters of the name.

This many steps take at most 20 ms. Every accepted expression can be matched with every legal topic
name.
"""
STEPS_PER_WEIGHT: Final = 500
"""Number of steps that count as one element of work, some microseconds (``Request.map_each``)."""
_CACHED_PATTERNS: Final = 16
"""Number of compiled patterns in the cache."""


class Pattern:
    """A compiled pattern. It matches a name only as a whole."""

    __slots__ = ("_instruction_count", "_match", "pattern")

    def __init__(self, expression: str) -> None:
        """Compile the expression.

        Raises:
            PatternError: RE2/J refuses the expression, or its program is too large.
        """
        rust_text, self._instruction_count = write_for_rust(expression)
        if self._instruction_count > INSTRUCTIONS_MAX:
            raise PatternError(f"its program has more than {INSTRUCTIONS_MAX:,} instructions")
        schema = {"type": "str", "strict": True, "pattern": rust_text, "regex_engine": "rust-regex"}
        self._match = pydantic_core.SchemaValidator(schema).isinstance_python
        self.pattern = expression

    def weight(self, name: str) -> int:
        """Work that a match with this name takes at worst; 1 stands for some microseconds."""
        return 1 + self._instruction_count * len(name) // STEPS_PER_WEIGHT

    def matches(self, name: str) -> bool:
        """Whether the whole name matches.

        Raises:
            PatternError: The match could take too long.
        """
        if self._instruction_count * len(name) > STEPS_MAX:
            raise PatternError(
                f"a name of {len(name):,} characters is too long for a program of"
                f" {self._instruction_count:,} instructions",
            )
        return bool(self._match(name))


@lru_cache(maxsize=_CACHED_PATTERNS)
def compile_pattern(expression: str) -> Pattern:
    """Compile an expression, or take the pattern from the cache.

    Raises:
        PatternError: RE2/J refuses the expression, or the expression is too large.
    """
    if len(expression.encode()) > BYTES_MAX:
        raise PatternError(f"a pattern has at most {BYTES_MAX:,} bytes")
    return Pattern(expression)


# Syntax

DEPTH_MAX: Final = 50
"""Deepest nesting of groups and repetitions. Rust's parser takes 250 levels, and each level here
may become four there.
"""
INSTRUCTIONS_OF_UNICODE_CLASS: Final = 250
"""Instructions that a Unicode class is counted as, for compiling and for memory."""
_INSTRUCTIONS_OF_RANGE: Final = 8
_INSTRUCTIONS_OF_NEGATION: Final = 10
"""Instructions of a negated class. It and a range cost more where a character has several bytes."""
_FOLDED_CHARACTERS_PER_INSTRUCTION: Final = 200
"""Characters of a case-insensitive class that are counted as one instruction."""

_INVALID_CHAR_RANGE: Final = "invalid character class range"
_INVALID_ESCAPE: Final = "invalid escape sequence"
_INVALID_NAMED_CAPTURE: Final = "invalid named capture"
_INVALID_PERL_OP: Final = "invalid or unsupported Perl syntax"
_INVALID_REPEAT_OP: Final = "invalid nested repetition operator"
_INVALID_REPEAT_SIZE: Final = "invalid repeat count"
_MISSING_BRACKET: Final = "missing closing ]"
_MISSING_PAREN: Final = "missing closing )"
_MISSING_REPEAT_ARGUMENT: Final = "missing argument to repetition operator"
_TRAILING_BACKSLASH: Final = "trailing backslash at end of expression"
_DUPLICATE_NAMED_CAPTURE: Final = "duplicate capture group name"
_STRAY_PAREN: Final = "regexp/syntax: internal error"

_REPEAT_MAX: Final = 1000
_REPETITION: Final = re.compile(r"([*+?])|\{(0|[1-9][0-9]*)(,)?((?<=,)(?:0|[1-9][0-9]*))?\}")
_SYMBOLS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ALNUM: Final = frozenset(string.ascii_letters + string.digits)
_OCTAL: Final = frozenset(string.octdigits)
_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ASSERTIONS: Final = {"A": r"\A", "z": r"\z", "b": r"(?-u:\b)", "B": r"(?-u:\B)"}
_PERL: Final = {"d": "0-9", "s": r"\t\n\x0c\r\x20", "w": "0-9A-Za-z_"}
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t\x20",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\t\n\x0b\x0c\r\x20",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
}
_CATEGORIES: Final = (
    "Cc Cf Co L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp"
    " Zs"
)
_SCRIPTS: Final = (
    "Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid"
    " Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret"
    " Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi"
    " Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi"
    " Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin"
    " Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar"
    " New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya"
    " Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese"
    " Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai"
    " Tibetan Tifinagh Ugaritic Vai Yi"
)
_NOTHING: Final = "a&&b"
"""Content of an empty class in Rust's syntax."""
UNICODE_CLASSES: Final[Mapping[str, str]] = {
    **{name: rf"\p{{gc={name}}}" for name in _CATEGORIES.split()},
    **{name: rf"\p{{sc={name}}}" for name in _SCRIPTS.split()},
    "Any": f"[^{_NOTHING}]",
    "C": r"\p{gc=Cc}\p{gc=Cf}\p{gc=Co}",  # without unassigned characters
    "Cs": _NOTHING,  # no text has a surrogate
    "Unknown": r"\x{e000}-\x{f8ff}\x{f0000}-\x{ffffd}\x{100000}-\x{10fffd}",
}
"""RE2/J's name of a Unicode class -> the class in Rust's syntax."""
_ALL: Final = 0x110000
"""Number of Unicode code points."""


class RustExpression(NamedTuple):
    """An expression in Rust's syntax."""

    text: str
    instruction_count: int
    """An upper estimate of the number of instructions of its program."""


def write_for_rust(expression: str) -> RustExpression:
    """Translate an expression from RE2/J's syntax to Rust's.

    Raises:
        PatternError: RE2/J refuses the expression (the message is RE2/J's), or it is nested too
            deeply.
    """
    return _ExpressionParser(expression).parsed()


class _Flags(NamedTuple):
    ignores_case: bool = False
    every_line: bool = False
    """Whether ^ and $ also match at line ends inside the name."""
    dot_takes_newline: bool = False


_FLAG_NAMES: Final = {"i": "ignores_case", "m": "every_line", "s": "dot_takes_newline"}


class _Members(NamedTuple):
    """A part of a character class."""

    text: str
    instruction_count: int = 1
    span: int = 0
    """Rough number of characters, where there are many. It is not needed for a class in brackets
    that stands alone: Rust knows that such a class has both cases.
    """


class _Part(NamedTuple):
    """A piece of the expression that a following repetition would repeat."""

    text: str
    instruction_count: int = 1
    depth: int = 0
    is_repeated: bool = False


class _PatternGroup:
    """An open parenthesis, or the whole expression."""

    __slots__ = ("branches", "flags_before", "parts")

    def __init__(self, flags_before: _Flags) -> None:
        self.flags_before = flags_before
        self.branches: list[list[_Part]] = []
        self.parts: list[_Part] = []

    def part(self) -> _Part:
        branches = [*self.branches, self.parts]
        all_parts = [part for branch in branches for part in branch]
        return _Part(
            f"(?:{'|'.join(''.join(part.text for part in branch) for branch in branches)})",
            sum(part.instruction_count for part in all_parts) + len(branches),
            1 + max((part.depth for part in all_parts), default=0),
        )


class _ExpressionParser:
    """Parses an expression in one pass and writes it in Rust's syntax."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._position = 0
        self._flags = _Flags()
        self._open_groups = [_PatternGroup(self._flags)]
        self._group_names: set[str] = set()

    def parsed(self) -> RustExpression:
        is_after_repeat = False
        while self._has_more():
            start, was_after_repeat, is_after_repeat = self._position, is_after_repeat, False
            character = self._pop()
            if character in "*+?{":
                # RE2/J counts a brace as a repetition, also if it is a literal.
                is_after_repeat = True
                self._repetition(start, follows_another=was_after_repeat)
            elif character == "(":
                self._parenthesis()
            elif character == "|":
                self._open_groups[-1].branches.append(self._open_groups[-1].parts)
                self._open_groups[-1].parts = []
            elif character == ")":
                self._close_group()
            elif character == "^":
                self._push_part("(?m:^)" if self._flags.every_line else r"\A")
            elif character == "$":
                self._push_part("(?m:$)" if self._flags.every_line else r"\z")
            elif character == ".":
                any_character = "(?s:.)" if self._flags.dot_takes_newline else "."
                self._push_part(any_character, _INSTRUCTIONS_OF_NEGATION)
            elif character == "[":
                self._class()
            elif character == "\\":
                self._backslash()
            else:
                self._literal(ord(character))
        if len(self._open_groups) > 1:
            _refuse(_MISSING_PAREN)
        whole_part = self._open_groups[0].part()
        return RustExpression(rf"\A{whole_part.text}\z", whole_part.instruction_count)

    # The text

    def _has_more(self) -> bool:
        return self._position < len(self._expression)

    def _pop(self) -> str:
        char = self._expression[self._position]
        self._position += 1
        return char

    def _take_if_next(self, text: str) -> bool:
        if self._expression.startswith(text, self._position):
            self._position += len(text)
            return True
        return False

    def _take_up_to(self, end_text: str) -> str | None:
        """Read the text before ``end_text`` and skip ``end_text``; None if it does not come."""
        end_position = self._expression.find(end_text, self._position)
        if end_position < 0:
            return None
        text = self._expression[self._position : end_position]
        self._position = end_position + len(end_text)
        return text

    # Parts

    def _push_part(self, text: str, instruction_count: int = 1) -> None:
        self._open_groups[-1].parts.append(_Part(text, instruction_count))

    def _literal(self, code_point: int) -> None:
        may_have_case = code_point >= 0x80 or chr(code_point).isalpha()
        literal_text, ignores_case = _char(code_point), self._flags.ignores_case and may_have_case
        instruction_count = len(chr(code_point).encode("utf-8", "surrogatepass"))
        if ignores_case:
            self._push_part(
                f"(?i:{literal_text or f'[{_NOTHING}]'})",
                instruction_count + _INSTRUCTIONS_OF_RANGE,
            )
        else:
            self._push_part(literal_text or f"[{_NOTHING}]", instruction_count)

    def _parenthesis(self) -> None:
        if not self._take_if_next("?"):
            self._open_groups.append(_PatternGroup(self._flags))
        elif self._take_if_next("P<") or self._take_if_next("<"):
            group_name = self._take_up_to(">")
            if not group_name or not set(group_name) <= _ALNUM | {"_"}:
                _refuse(_INVALID_NAMED_CAPTURE)
            if group_name in self._group_names:
                _refuse(_DUPLICATE_NAMED_CAPTURE)
            self._group_names.add(group_name)
            self._open_groups.append(_PatternGroup(self._flags))
        else:
            self._change_flags()

    def _change_flags(self) -> None:
        """Read the flags after ``(?``, for the rest of the group or for a group of their own."""
        flags, sets_flags, has_seen_flag = self._flags, True, False
        while self._has_more():
            char = self._pop()
            if char in _FLAG_NAMES:
                flags = flags._replace(**{_FLAG_NAMES[char]: sets_flags})
                has_seen_flag = True
            elif char == "U":
                has_seen_flag = True
            elif char == "-" and sets_flags:
                sets_flags = has_seen_flag = False
            elif char in ":)" and (sets_flags or has_seen_flag):
                if char == ":":
                    self._open_groups.append(_PatternGroup(self._flags))
                self._flags = flags
                return
            else:
                break
        _refuse(_INVALID_PERL_OP)

    def _close_group(self) -> None:
        if len(self._open_groups) == 1:
            _refuse(_STRAY_PAREN)
        group = self._open_groups.pop()
        self._flags = group.flags_before
        self._add_part(group.part())

    def _add_part(self, part: _Part) -> None:
        if part.depth > DEPTH_MAX:
            _refuse(f"nested more than {DEPTH_MAX} deep")
        self._open_groups[-1].parts.append(part)

    # Repetitions

    def _repetition(self, start: int, *, follows_another: bool) -> None:
        repetition_match = _REPETITION.match(self._expression, start)
        if repetition_match is None:
            self._literal(ord("{"))
            return
        self._position = repetition_match.end()
        symbol, low_text, comma, high_text = repetition_match.groups()
        if symbol:
            minimum, maximum = _SYMBOLS[symbol]
        else:
            minimum = int(low_text[:9])
            maximum = int(high_text[:9]) if high_text else None if comma else minimum
            if max(minimum, maximum or 0) > _REPEAT_MAX or (
                maximum is not None and minimum > maximum
            ):
                _refuse(_INVALID_REPEAT_SIZE)
        self._take_if_next("?")  # a lazy repetition matches the same names
        if follows_another:
            _refuse(_INVALID_REPEAT_OP)
        open_parts = self._open_groups[-1].parts
        if not open_parts:
            _refuse(_MISSING_REPEAT_ARGUMENT)
        repeated_part = open_parts.pop()
        if maximum == 0:
            self._push_part("(?:)")
            return
        repeated_text = (
            f"(?:{repeated_part.text})" if repeated_part.is_repeated else repeated_part.text
        )
        self._add_part(
            _Part(
                repeated_text + repetition_match[0],
                repeated_part.instruction_count * (maximum or max(1, minimum))
                + (maximum or minimum + 1)
                - minimum,
                repeated_part.depth + repeated_part.is_repeated,
                is_repeated=True,
            )
        )

    # Escapes and classes

    def _backslash(self) -> None:
        if self._has_more():
            char = self._expression[self._position]
            if char in _ASSERTIONS:
                self._position += 1
                self._push_part(_ASSERTIONS[char])
                return
            if self._take_if_next("Q"):
                quoted_text = self._take_up_to("\\E")
                if quoted_text is None:
                    quoted_text, self._position = (
                        self._expression[self._position :],
                        len(self._expression),
                    )
                for character in quoted_text:
                    self._literal(ord(character))
                return
        class_member = self._class_escape()
        if class_member is None:
            self._literal(self._read_escape())
        else:
            self._push_class([class_member])

    def _class_escape(self) -> _Members | None:
        r"""Reads a class such as ``\d`` or ``\p{Greek}`` after the backslash; None if it is another
        escape, which is then not consumed.
        """
        char = self._expression[self._position : self._position + 1]
        if char in ("p", "P"):
            self._position += 1
            return self._unicode_class(is_negated=char == "P")
        class_ranges = _PERL.get(char.lower())
        if class_ranges is None:
            return None
        self._position += 1
        return _ascii_class(class_ranges, is_negated=char.isupper())

    def _unicode_class(self, *, is_negated: bool) -> _Members:
        class_name = (
            None
            if not self._has_more()
            else self._take_up_to("}")
            if self._take_if_next("{")
            else self._pop()
        )
        if class_name is not None and class_name.startswith("^"):
            class_name, is_negated = class_name[1:], not is_negated
        if class_name is None or class_name not in UNICODE_CLASSES:
            _refuse(_INVALID_CHAR_RANGE)
        return _Members(
            f"[{'^' if is_negated else ''}{UNICODE_CLASSES[class_name]}]",
            INSTRUCTIONS_OF_UNICODE_CLASS,
            span=_ALL if is_negated or class_name == "Any" else 0,
        )

    def _read_escape(self) -> int:
        """Read an escape after its backslash; returns the code point of its character."""
        if not self._has_more():
            _refuse(_TRAILING_BACKSLASH)
        char = self._pop()
        if char not in _ALNUM:
            return ord(char)
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            return self._hexadecimal()
        octal_digits = char if char in _OCTAL else ""
        while (
            octal_digits
            and len(octal_digits) < 3
            and self._expression[self._position : self._position + 1] in _OCTAL
        ):
            octal_digits += self._pop()
        if octal_digits and (
            octal_digits[0] == "0" or len(octal_digits) > 1
        ):  # otherwise it is a back-reference
            return int(octal_digits, 8)
        _refuse(_INVALID_ESCAPE)

    def _hexadecimal(self) -> int:
        if self._take_if_next("{"):
            digits = self._take_up_to("}") or ""
        else:
            digits = self._expression[self._position : self._position + 2]
            self._position += 2
            if len(digits) < 2:
                _refuse(_INVALID_ESCAPE)
        if not digits or not set(digits) <= set(string.hexdigits):
            _refuse(_INVALID_ESCAPE)
        code_point = int(digits, 16)
        if code_point >= _ALL:
            _refuse(_INVALID_ESCAPE)
        return code_point

    def _class(self) -> None:
        """Read a character class after its ``[``."""
        is_negated = self._take_if_next("^")
        members: list[_Members] = []
        is_first = True
        while is_first or not self._take_if_next("]"):
            is_first = False
            member = self._named_class()
            if member is None and self._take_if_next("\\"):
                member = self._class_escape()
                if member is None:
                    self._position -= 1
            members.append(self._range() if member is None else member)
        self._push_class(members, is_negated=is_negated)

    def _named_class(self) -> _Members | None:
        end_position = self._expression.find(":]", self._position + 1)
        if end_position < 0 or not self._take_if_next("[:"):
            return None
        class_name, self._position = (
            self._expression[self._position : end_position],
            end_position + 2,
        )
        class_ranges = _POSIX.get(class_name.removeprefix("^"))
        if class_ranges is None:
            _refuse(_INVALID_CHAR_RANGE)
        return _ascii_class(class_ranges, is_negated=class_name.startswith("^"))

    def _range(self) -> _Members:
        low_code = high_code = self._class_char()
        if self._take_if_next("-"):
            if self._expression.startswith("]", self._position):
                self._position -= 1  # [a-] is a or -
            else:
                high_code = self._class_char()
                if high_code < low_code:
                    _refuse(_INVALID_CHAR_RANGE)
        # No text has surrogates, and Rust's regex refuses them.
        low_code = 0xE000 if 0xD800 <= low_code < 0xE000 else low_code
        high_code = 0xD7FF if 0xD800 <= high_code < 0xE000 else high_code
        if low_code > high_code:
            return _Members("")
        range_text = f"{_char(low_code)}-{_char(high_code)}"
        return _Members(
            range_text, 1 if high_code < 0x80 else _INSTRUCTIONS_OF_RANGE, span=high_code - low_code
        )

    def _class_char(self) -> int:
        if not self._has_more():
            _refuse(_MISSING_BRACKET)
        return self._read_escape() if self._take_if_next("\\") else ord(self._pop())

    def _push_class(self, members: Sequence[_Members], *, is_negated: bool = False) -> None:
        class_text = "".join(member.text for member in members) or _NOTHING
        class_text = f"[^{class_text}]" if is_negated else f"[{class_text}]"
        instruction_count = sum(member.instruction_count for member in members)
        instruction_count += _INSTRUCTIONS_OF_NEGATION if is_negated else 0
        if self._flags.ignores_case:
            class_text = f"(?i:{class_text})"
            instruction_count += _INSTRUCTIONS_OF_RANGE
            if len(members) > 1 or not members[0].text.startswith("["):
                instruction_count += (
                    sum(member.span for member in members) // _FOLDED_CHARACTERS_PER_INSTRUCTION
                )
        self._push_part(class_text, instruction_count)


def _ascii_class(class_ranges: str, *, is_negated: bool) -> _Members:
    """A class of ASCII characters, or its complement."""
    if is_negated:
        return _Members(f"[^{class_ranges}]", _INSTRUCTIONS_OF_NEGATION, span=_ALL)
    return _Members(class_ranges)


def _char(code_point: int) -> str:
    """A character in Rust's syntax; "" for a surrogate."""
    char = chr(code_point)
    if char in _ALNUM:
        return char
    return "" if 0xD800 <= code_point < 0xE000 else f"\\x{{{code_point:x}}}"


def _refuse(reason: str) -> NoReturn:
    raise PatternError(reason)
