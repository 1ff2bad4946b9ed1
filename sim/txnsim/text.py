"""Text that users write and read: durations, sizes, addresses, suggestions for misspelt names, and
escaping of text from others.

Durations are whole milliseconds inside, sizes are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from txnsim.on_demand_imports import OnDemand

if TYPE_CHECKING:
    import difflib
    import inspect
else:
    difflib = OnDemand("difflib")
    inspect = OnDemand("inspect")


# Durations and points in time

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DURATION_FORMS: Final = "500ms, 30s, 21m, 2h or 7d"
DIGITS_MAX: Final = 15
"""Most digits of a number: enough for any clock and any memory, and quick to parse."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def read_ms(duration_text: str) -> int:
    """Parse a duration such as ``21m``, ``500ms`` or ``-10s``; returns milliseconds.

    Raises:
        ValueError: The text has none of these forms.
    """
    number_text = duration_text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = duration_text[len(number_text) :]
    digits = number_text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX
    if unit not in UNITS_MS or not is_number:
        raise ValueError(f"{duration_text!r} is no duration such as {DURATION_FORMS}")
    return int(number_text) * UNITS_MS[unit]


def whole_ms(duration: object) -> int:
    """Convert a duration to milliseconds: from a whole number of them, a ``timedelta`` or a text
    such as ``2m``.

    Fractions are refused: they would end up in records and on the wire, where Kafka has whole
    milliseconds only.

    Raises:
        ValueError: The duration has another form, or is no whole number of milliseconds.
    """
    if isinstance(duration, str):
        return read_ms(duration)
    if isinstance(duration, timedelta):
        if duration % _MILLISECOND:
            raise ValueError(f"{duration!r} is no whole number of milliseconds")
        return duration // _MILLISECOND
    if isinstance(duration, float) and duration.is_integer():
        return int(duration)
    if isinstance(duration, int) and not isinstance(duration, bool):
        return duration
    raise ValueError(
        f"{duration!r} is no duration: expected a whole number of milliseconds, "
        f"or a text such as {DURATION_FORMS}"
    )


def time_text(time_ms: int) -> str:
    """Format milliseconds since 1970 as a UTC time to the second (ISO 8601). A time that no
    calendar has, as in a damaged file, stays a number.
    """
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


# Sizes

SIZE_UNITS: Final = {
    "": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
SIZE_FORMS: Final = "128MiB, 1GB or 1073741824"


def read_size(size_text: str) -> int:
    """Parse a size such as ``128MiB``, ``1GB`` or ``4096``; returns bytes.

    Raises:
        ValueError: The text has none of these forms.
    """
    unit = size_text.lstrip("0123456789")
    number_text = size_text.removesuffix(unit) if unit else size_text
    if unit not in SIZE_UNITS or not 0 < len(number_text) <= DIGITS_MAX:
        raise ValueError(f"{size_text!r} is no size such as {SIZE_FORMS}")
    return int(number_text) * SIZE_UNITS[unit]


def spoken_size(byte_count: int) -> str:
    """Format a size in the largest unit that gives a whole number."""
    for unit, factor in sorted(SIZE_UNITS.items(), key=lambda unit_and_factor: -unit_and_factor[1]):
        if unit and byte_count and byte_count % factor == 0:
            return f"{byte_count // factor} {unit}"
    return f"{byte_count} bytes"


# Addresses: an IPv6 address stands in brackets (RFC 3986)

PORT_MAX: Final = 65_535
LABEL_MAX: Final = 63
"""Letters of a part of a host's name (RFC 1035)."""
EVERYWHERE: Final = ("", "0.0.0.0", "::")
"""Hosts to listen on that mean every address of the machine: no client can connect to them."""


def host_and_port(host: str, port: int | str) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_host_and_port(text: str) -> tuple[str, int] | None:
    """Split ``host:port`` into host and port; None if the text has another form.

    The host is returned without brackets. They may be missing in the text, as in Kafka's
    Utils.getHost.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not is_host(host) or not _is_port(port):
        return None
    return host, int(port)


def is_host(text: str) -> bool:
    """Whether this can be the name or the address of a host: no part of it is empty, or longer than
    63 letters, and all letters may stand in a name (IDNA). Python's sockets raise a UnicodeError
    for any other text.
    """
    if not text or "\0" in text:
        return False
    if text.isascii():  # Python in WebAssembly has no codec for IDNA
        return all(0 < len(label) <= LABEL_MAX for label in text.removesuffix(".").split("."))
    try:
        return bool(text.encode("idna"))
    except (UnicodeError, LookupError):
        return False


def _is_port(text: str) -> bool:
    digits = text.lstrip("0") or "0"
    return (
        text.isascii()
        and text.isdigit()
        and len(digits) <= len(str(PORT_MAX))
        and int(digits) <= PORT_MAX
    )


# Unknown names

SIMILARITY: Final = 0.6
SHORT_MAX: Final = 4
SIMILARITY_OF_SHORT: Final = 0.5
"""Required similarity for names of up to ``SHORT_MAX`` letters: ``TV1`` should find ``TV2``."""
LIST_MAX: Final = 40
"""Most known names that a message lists; a longer list is no help."""


def unknown_word_message(kind_of_name: str, unknown_word: str, known_names: Iterable[str]) -> str:
    """Says that a name is unknown, with the nearest known name, and all known names if they are
    few.
    """
    name_list = list(known_names)
    names_by_lowercase = {name.lower(): name for name in name_list}
    cutoff = SIMILARITY_OF_SHORT if len(unknown_word) <= SHORT_MAX else SIMILARITY
    longer_names = [
        name
        for name in names_by_lowercase
        if unknown_word and name.startswith(unknown_word.lower())
    ]
    nearest_name = (
        names_by_lowercase[longer_names[0]]
        if longer_names
        else _nearest_name(unknown_word, names_by_lowercase, cutoff)
    )
    hint_text = f"did you mean {nearest_name}? " if nearest_name else ""
    known_names_text = f"there are: {', '.join(name_list)}" if len(name_list) <= LIST_MAX else ""
    return f"no {kind_of_name} {unknown_word!r}; {hint_text}{known_names_text}".rstrip("; ")


def _nearest_name(
    unknown_word: str, names_by_lowercase: Mapping[str, str], cutoff: float
) -> str | None:
    """The most similar known name, also with its words in another order: FENCED_PRODUCER."""
    candidates: list[tuple[float, str]] = []
    for word_form, names_by_form in (
        (unknown_word.lower(), names_by_lowercase),
        (
            _with_sorted_words(unknown_word),
            {_with_sorted_words(name): name for name in names_by_lowercase.values()},
        ),
    ):
        for name in difflib.get_close_matches(word_form, names_by_form, n=1, cutoff=cutoff):
            ratio = difflib.SequenceMatcher(None, word_form, name).ratio()
            candidates.append((-ratio, names_by_form[name]))
    return min(candidates)[1] if candidates else None


def _with_sorted_words(name: str) -> str:
    """Sort the words of a name alphabetically."""
    return " ".join(sorted(re.split(r"[-_. ]+", name.lower())))


# Text from other programs

_CONTROL_CHARACTERS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions (Unicode TR 9)
    "\u2028\u2029\ufeff\ud800-\udfff"  # line ends, a byte order mark, surrogates
    # What is not seen: spaces that are none, fillers, joiners, variations (Unicode UAX 31,
    # Default_Ignorable_Code_Point).
    "\xa0\xad\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200d\u202f\u205f-\u2065"
    "\u206a-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LAYOUT_CHARACTERS: Final = "\n\t"
_ESCAPED_LAYOUT: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(raw_text: str) -> str:
    """Escape control characters; the result is one line.

    Ids, topics and clients can have any name. On a terminal some characters are commands: they set
    the title, clear the screen, move the cursor, turn the direction of a line, or begin another
    line that looks like one of ours. Others are not seen at all, so that two names look alike. All
    text for people goes through here; text for programs (JSON, exports) stays exact.
    """
    return _CONTROL_CHARACTERS.sub(_escape, raw_text)


def printable_lines(text: str) -> str:
    """Escape control characters except line ends and tabs, for text whose layout is ours."""
    return _CONTROL_CHARACTERS.sub(
        lambda match: match[0] if match[0] in _LAYOUT_CHARACTERS else _escape(match), text
    )


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code_point = ord(character)
    return _ESCAPED_LAYOUT.get(character) or (
        f"\\x{code_point:02x}"
        if code_point < 0x100
        else f"\\u{code_point:04x}"
        if code_point < 0x10000
        else f"\\U{code_point:08x}"
    )


def with_clean_descriptions(schema: Any) -> Any:
    """A JSON Schema whose descriptions have no indentation of docstrings: msgspec up to 0.22 keeps
    it, later releases remove it.
    """
    if isinstance(schema, Mapping):
        return {
            key: inspect.cleandoc(value)
            if key == "description" and isinstance(value, str)
            else with_clean_descriptions(value)
            for key, value in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [with_clean_descriptions(element) for element in schema]
    return schema
