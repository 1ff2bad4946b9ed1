"""Finds the section of docs/troubleshooting.md for an error: by its name in any spelling, by its
number, or by a line of a log. The page, which is in the wheel, is the only source; tests compare
every list "Also seen as" with the messages of released clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

import msgspec

import txnsim_lab
from txnsim.errors import ConfigError, ErrorCode

PLACEHOLDER: Final = "…"
"""In a message of the page: stands for text that the client fills in."""
SEEN_AS: Final = "**Also seen as:**"
NEAREST: Final = 3
"""Number of sections to suggest if none fits."""

_HEADING: Final = re.compile(r"^## ", re.MULTILINE)
_ITEM: Final = re.compile(r"^- (?P<clients>[^:`\n]+): (?P<words>`.+)$", re.MULTILINE)
_CODE: Final = re.compile(r"(`+)(.+?)\1(?!`)")
"""Matches code; code with a backtick is between two backticks and spaces."""
_ERROR: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_STORY: Final = re.compile(r"^\$ (txnsim scenario run .+)$", re.MULTILINE)
_NOT_IN_ANCHOR: Final = re.compile(r"[^\w\- ]")
_WORD: Final = re.compile(r"\w+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_BEFORE_NAME: Final = re.compile(r"^(rd_kafka_resp_err_+|kafkajs|err)")
_BEHIND_NAME: Final = re.compile(r"(_?(exception|error))+$")
_NUMBER: Final = re.compile(
    r"\b(?:error[ _]?code|errorcode|code|val|errno|error)\b\W{0,3}(-?\d+)(?=\W*$|[\s,;:\])}])"
    r"|^\W*?(-?\d+)\W*$",
    re.IGNORECASE,
)
"""Matches an error number after a word, or alone, since a line of a log begins with its time."""
_NAME_CHARS_MIN: Final = 8
"""Minimum length of a name in a line: shorter ones may be ordinary words."""
_PART_CHARS_MIN: Final = 10
"""Minimum length of a part of a message: a shorter one fits many messages."""
_GAP_CHARS: Final = 300
"""Maximum length of the text that a client fills in at one placeholder."""
_LIKENESS_MIN: Final = 0.6
_PREFIX: Final = re.compile(
    r"failed to acquire \w+ pid from broker \S+: |failed to initialize producer id: "  # librdkafka
    r"|unexpected error in \w+response[;:] "  # Java
    r"|producer id has a fatal, unrecoverable error, err: ",  # franz-go
    re.IGNORECASE,
)
"""Matches what a client writes before the error; the rest of the line decides."""
_OLD_ANCHOR: Final = re.compile(r'^<a id="[^"]+"></a>\n+', re.MULTILINE)
"""Matches the anchor that a section had before it was renamed."""
_CODES: Final = re.compile(r"^\*\*(?:`code \d+`(?:, )?)+\.\*\* ")
_SENTENCE: Final = re.compile(r".+?\.(?=\s|$)", re.DOTALL)
_STRENGTH_OF_ERROR: Final = 60
"""Strength of a section about the error that a line names; for a section with a matching message it
is the number of letters.
"""
_STRENGTH_OF_CLASS: Final = 5
"""Strength of a section that only mentions a class, which may have other causes."""


class SeenAs(msgspec.Struct, frozen=True, kw_only=True):
    """The messages by which some clients show an error."""

    clients: tuple[str, ...]
    words: tuple[str, ...]
    """Classes and messages; `PLACEHOLDER` stands for variable text."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the page: one error or symptom."""

    title: str
    anchor: str
    """Fragment of its URL, as GitHub derives it."""
    text: str
    """Its text in Markdown: paragraphs and stories, without heading and list of clients."""
    seen_as: tuple[SeenAs, ...]
    stories: tuple[str, ...]
    """Commands that play the error."""

    @property
    def summary(self) -> str:
        """Its first sentence, as Markdown."""
        sentence = _SENTENCE.match(_CODES.sub("", self.text))
        return " ".join(sentence[0].split()) if sentence else ""

    @property
    def words(self) -> tuple[str, ...]:
        """Classes and messages of all clients."""
        return tuple(dict.fromkeys(word for sighting in self.seen_as for word in sighting.words))

    @property
    def errors(self) -> frozenset[str]:
        """Keys of the errors that the section is about."""
        return frozenset(map(name_key, _ERROR.findall(self.title)))

    @property
    def names(self) -> frozenset[str]:
        """Keys of these errors, and of the classes that clients show."""
        return self.errors | {name_key(word) for word in self.words if _is_one_name(word)}

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if not _is_one_name(word))


class SectionMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The sections for a text; if there are none, the nearest ones."""

    sections: tuple[Section, ...]
    """The sections, the best match first; equal ones in the order of the page."""
    nearest: tuple[Section, ...] = ()
    error: str | None = None
    """Kafka's name of the error that the text names, if it names one."""


# The page


def page_file() -> Path:
    """Path of the page: in the wheel next to the package, in a checkout in docs/.

    Raises:
        ConfigError: This installation does not have the page.
    """
    package = Path(txnsim_lab.__file__).parent
    for candidate in (
        package / "troubleshooting.md",
        package.parent.parent / "docs" / "troubleshooting.md",
    ):
        if candidate.is_file():
            return candidate
    raise ConfigError(f"no troubleshooting.md in {package}: the installation is incomplete")


def read_sections(page: str) -> tuple[Section, ...]:
    """Read every section of the page, in order."""
    return tuple(_section(part) for part in _HEADING.split(page)[1:])


def _section(part: str) -> Section:
    title, _, body = part.partition("\n")
    text, _, sightings = _OLD_ANCHOR.sub("", body).partition(SEEN_AS)
    listed, _, text_behind = sightings.strip().partition("\n\n")
    return Section(
        title=title,
        anchor=_NOT_IN_ANCHOR.sub("", title.lower()).replace(" ", "-"),
        text="\n\n".join(filter(None, (text.strip(), text_behind.strip()))),
        seen_as=tuple(
            SeenAs(
                clients=tuple(item["clients"].split(", ")),
                words=tuple(code[2].strip() for code in _CODE.finditer(item["words"])),
            )
            for item in _ITEM.finditer(listed)
        ),
        stories=tuple(_STORY.findall(body)),
    )


def error_names(sections: Iterable[Section]) -> tuple[str, ...]:
    """Kafka's names of errors in the titles, in the order of the page."""
    named = (name for section in sections for name in _ERROR.findall(section.title))
    return tuple(dict.fromkeys(named))


# Finding


def find_sections(text: str, sections: Sequence[Section]) -> SectionMatch:
    """Find the sections for a text.

    Args:
        text: A heading of the page, a name in any spelling (``PRODUCER_FENCED``,
            ``ProducerFencedException``), an error's number, a message or a part of one, or lines of
            a log. Lines may name several errors; then there is a section for each.
        sections: The sections of the page.
    """
    line = " ".join(text.split())
    by_title = [section for section in sections if _plain(section.title) == _plain(line)]
    if by_title:
        return SectionMatch(sections=tuple(by_title))
    bare = " ".join(_PREFIX.sub(" ", line).split())
    strengths, error = _strengths(bare, sections)
    if not strengths:
        strengths, error = _strengths(line, sections)
    matching = sorted(
        (section for section in sections if section.title in strengths),
        key=lambda section: -strengths[section.title],
    )
    nearest = () if matching else _nearest(line, sections)
    return SectionMatch(sections=tuple(matching), nearest=nearest, error=error)


def _strengths(line: str, sections: Sequence[Section]) -> tuple[dict[str, int], str | None]:
    """Title -> how well the section fits a line; and the error that the line names."""
    keys, error = _keys(line)
    hits = [_about(key, sections) for key in sorted(keys)]
    messages = sorted({message for section in sections for message in section.messages})
    for message in messages:
        if _is_message(message, line):
            strength = min(len(message.replace(PLACEHOLDER, "")), len(line))
            hits.append(
                {section.title: strength for section in sections if message in section.messages}
            )
    # A hit with one section outweighs a class with many causes (TimeoutException).
    sharp = [hit for hit in hits if len(hit) == 1]
    strengths: dict[str, int] = {}
    for hit in sharp or hits:
        for title, strength in hit.items():
            strengths[title] = max(strength, strengths.get(title, 0))
    return strengths, error


def _about(key: str, sections: Sequence[Section]) -> dict[str, int]:
    """Title of each section about an error -> how well it fits; if there are none, of the sections
    that mention the class.
    """
    about = {section.title: _STRENGTH_OF_ERROR for section in sections if key in section.errors}
    return about or {
        section.title: _STRENGTH_OF_CLASS for section in sections if key in section.names
    }


def name_key(name: str) -> str:
    """A key that is equal for all spellings of a name: ``producerfenced``."""
    bare = name.rsplit(".", 1)[-1].rsplit("$", 1)[-1].lower()
    bare = _BEHIND_NAME.sub("", _BEFORE_NAME.sub("", bare.replace("-", "_").replace(" ", "_")))
    return bare.replace("_", "")


def _keys(line: str) -> tuple[set[str], str | None]:
    """Keys of the names in a line, or of the error with a number in it; and Kafka's name of that
    error.
    """
    code_names = {name_key(code.name): code.name.upper() for code in ErrorCode}
    whole = name_key(line)
    names = (word for word in _NAME.findall(line) if _is_name(word))
    keys = {whole} | {name_key(word) for word in names if len(word) >= _NAME_CHARS_MIN}
    error = next((code_names[key] for key in sorted(keys) if key in code_names), None)
    if error is None and (number := _NUMBER.search(line)) is not None:
        code = next((code for code in ErrorCode if code.value == int(number[1] or number[2])), None)
        if code is not None and code is not ErrorCode.none:
            return {*keys, name_key(code.name)}, code.name.upper()
    return keys, error


def _is_one_name(words: str) -> bool:
    return _NAME.fullmatch(words) is not None


def _is_name(word: str) -> bool:
    """Whether a word is no ordinary word of a sentence."""
    return "_" in word.strip("_") or any(map(str.isupper, word[1:]))


def _is_message(message: str, line: str) -> bool:
    """Whether a line contains the whole message, or is a part of it."""
    parts = [re.escape(part) for part in _plain(message).split(PLACEHOLDER) if part.strip()]
    plain = _plain(line)
    if re.search(rf".{{0,{_GAP_CHARS}}}?".join(parts), plain):
        return True
    is_long = len(plain) >= _PART_CHARS_MIN and (" " in plain or "." in plain)
    return is_long and re.sub(r"\d+", PLACEHOLDER, plain) in _plain(message)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" .'\"`")


def _nearest(line: str, sections: Sequence[Section]) -> tuple[Section, ...]:
    likeness = {section.title: _likeness(line, section) for section in sections}
    ranked = sorted(sections, key=lambda section: -likeness[section.title])
    return tuple(
        section for section in ranked[:NEAREST] if likeness[section.title] >= _LIKENESS_MIN
    )


def _likeness(line: str, section: Section) -> float:
    key = name_key(line)
    names = (SequenceMatcher(None, key, name).ratio() for name in sorted(section.names))
    words = set(_words((line,)))
    known_words = set(_words((section.title, section.text, *section.messages)))
    shared = len(words & known_words) / len(words) if words else 0.0
    return max((shared, *names))


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (word for word in _WORD.findall(text.lower()) if len(word) > 2)
