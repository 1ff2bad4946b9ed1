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
SEEN_AS_HEADING: Final = "**Also seen as:**"
NEAREST_SECTIONS_MAX: Final = 3
"""Number of sections to suggest if none fits."""

_HEADING_RE: Final = re.compile(r"^## ", re.MULTILINE)
_CLIENT_ITEM_RE: Final = re.compile(r"^- (?P<clients>[^:`\n]+): (?P<words>`.+)$", re.MULTILINE)
_CODE_RE: Final = re.compile(r"(`+)(.+?)\1(?!`)")
"""Matches code; code with a backtick is between two backticks and spaces."""
_ERROR_NAME_RE: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_STORY_COMMAND_RE: Final = re.compile(r"^\$ (txnsim scenario run .+)$", re.MULTILINE)
_NOT_IN_ANCHOR_RE: Final = re.compile(r"[^\w\- ]")
_WORD_RE: Final = re.compile(r"\w+")
_NAME_RE: Final = re.compile(r"[A-Za-z_]\w*")
_BEFORE_NAME_RE: Final = re.compile(r"^(rd_kafka_resp_err_+|kafkajs|err)")
_BEHIND_NAME_RE: Final = re.compile(r"(_?(exception|error))+$")
_ERROR_NUMBER_RE: Final = re.compile(
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
_CLIENT_PREFIX_RE: Final = re.compile(
    r"failed to acquire \w+ pid from broker \S+: |failed to initialize producer id: "  # librdkafka
    r"|unexpected error in \w+response[;:] "  # Java
    r"|producer id has a fatal, unrecoverable error, err: ",  # franz-go
    re.IGNORECASE,
)
"""Matches what a client writes before the error; only the text behind it names the error."""
_OLD_ANCHOR_RE: Final = re.compile(r'^<a id="[^"]+"></a>\n+', re.MULTILINE)
"""Matches the anchor that a section had before it was renamed."""
_CODES_RE: Final = re.compile(r"^\*\*(?:`code \d+`(?:, )?)+\.\*\* ")
_SENTENCE_RE: Final = re.compile(r".+?\.(?=\s|$)", re.DOTALL)
_STRENGTH_OF_ERROR: Final = 60
"""Strength of a section about the error that a line names; for a section with a matching message it
is the number of letters.
"""
_STRENGTH_OF_CLASS: Final = 5
"""Strength of a section that only mentions a class, which may have other causes."""


class ClientMessages(msgspec.Struct, frozen=True, kw_only=True):
    """The messages by which some clients show an error."""

    clients: tuple[str, ...]
    words: tuple[str, ...]
    """Classes and messages; `PLACEHOLDER` stands for variable text."""


class TroubleSection(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the page: one error or symptom."""

    title: str
    anchor: str
    """Fragment of its URL, as GitHub derives it."""
    text: str
    """The section in Markdown: paragraphs and stories, without heading and list of clients."""
    seen_as: tuple[ClientMessages, ...]
    stories: tuple[str, ...]
    """Commands that play the error."""

    @property
    def summary(self) -> str:
        """First sentence of the section, as Markdown."""
        sentence_match = _SENTENCE_RE.match(_CODES_RE.sub("", self.text))
        return " ".join(sentence_match[0].split()) if sentence_match else ""

    @property
    def words(self) -> tuple[str, ...]:
        """Classes and messages of all clients."""
        return tuple(
            dict.fromkeys(
                word for client_messages in self.seen_as for word in client_messages.words
            )
        )

    @property
    def errors(self) -> frozenset[str]:
        """Keys of the errors that the section is about."""
        return frozenset(map(name_key, _ERROR_NAME_RE.findall(self.title)))

    @property
    def names(self) -> frozenset[str]:
        """Keys of these errors, and of the classes that clients show."""
        return self.errors | {name_key(word) for word in self.words if _is_one_name(word)}

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if not _is_one_name(word))


class SectionMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The sections for a text; if there are none, the nearest ones."""

    sections: tuple[TroubleSection, ...]
    """The sections, the best match first; equal ones in the order of the page."""
    nearest: tuple[TroubleSection, ...] = ()
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


def read_sections(page: str) -> tuple[TroubleSection, ...]:
    """Read every section of the page, in order."""
    return tuple(_parse_section(section_text) for section_text in _HEADING_RE.split(page)[1:])


def _parse_section(section_text: str) -> TroubleSection:
    title, _, section_body = section_text.partition("\n")
    text, _, sightings_text = _OLD_ANCHOR_RE.sub("", section_body).partition(SEEN_AS_HEADING)
    client_list_text, _, text_after_sightings = sightings_text.strip().partition("\n\n")
    return TroubleSection(
        title=title,
        anchor=_NOT_IN_ANCHOR_RE.sub("", title.lower()).replace(" ", "-"),
        text="\n\n".join(filter(None, (text.strip(), text_after_sightings.strip()))),
        seen_as=tuple(
            ClientMessages(
                clients=tuple(client_match["clients"].split(", ")),
                words=tuple(
                    code_match[2].strip() for code_match in _CODE_RE.finditer(client_match["words"])
                ),
            )
            for client_match in _CLIENT_ITEM_RE.finditer(client_list_text)
        ),
        stories=tuple(_STORY_COMMAND_RE.findall(section_body)),
    )


def error_names(sections: Iterable[TroubleSection]) -> tuple[str, ...]:
    """Kafka's names of errors in the titles, in the order of the page."""
    names = (name for section in sections for name in _ERROR_NAME_RE.findall(section.title))
    return tuple(dict.fromkeys(names))


# Finding


def find_sections(text: str, sections: Sequence[TroubleSection]) -> SectionMatch:
    """Find the sections for a text.

    Args:
        text: A heading of the page, a name in any spelling (``PRODUCER_FENCED``,
            ``ProducerFencedException``), an error's number, a message or a part of one, or lines of
            a log. Lines may name several errors; then there is a section for each.
        sections: The sections of the page.
    """
    line = " ".join(text.split())
    by_title = [section for section in sections if _plain_text(section.title) == _plain_text(line)]
    if by_title:
        return SectionMatch(sections=tuple(by_title))
    bare_line = " ".join(_CLIENT_PREFIX_RE.sub(" ", line).split())
    strengths, error = _match_strengths(bare_line, sections)
    if not strengths:
        strengths, error = _match_strengths(line, sections)
    matching = sorted(
        (section for section in sections if section.title in strengths),
        key=lambda section: -strengths[section.title],
    )
    nearest = () if matching else _nearest_sections(line, sections)
    return SectionMatch(sections=tuple(matching), nearest=nearest, error=error)


def _match_strengths(
    line: str, sections: Sequence[TroubleSection]
) -> tuple[dict[str, int], str | None]:
    """How well each section fits a line, by title, and the error that the line names."""
    error_keys, error = _error_keys(line)
    strengths_by_hit = [_sections_about(key, sections) for key in sorted(error_keys)]
    messages_of_sections = sorted({message for section in sections for message in section.messages})
    for message in messages_of_sections:
        if _is_message(message, line):
            strength = min(len(message.replace(PLACEHOLDER, "")), len(line))
            strengths_by_hit.append(
                {section.title: strength for section in sections if message in section.messages}
            )
    # A hit with one section outweighs a class with many causes (TimeoutException).
    strengths_of_single_hits = [
        strength_by_title for strength_by_title in strengths_by_hit if len(strength_by_title) == 1
    ]
    total_strengths: dict[str, int] = {}
    for strength_by_title in strengths_of_single_hits or strengths_by_hit:
        for title, strength in strength_by_title.items():
            total_strengths[title] = max(strength, total_strengths.get(title, 0))
    return total_strengths, error


def _sections_about(key: str, sections: Sequence[TroubleSection]) -> dict[str, int]:
    """The strength of each section about an error, by title; if there are none, of the sections
    that mention the class.
    """
    titles_about = {
        section.title: _STRENGTH_OF_ERROR for section in sections if key in section.errors
    }
    return titles_about or {
        section.title: _STRENGTH_OF_CLASS for section in sections if key in section.names
    }


def name_key(name: str) -> str:
    """A key that is equal for all spellings of a name: ``producerfenced``."""
    bare_name = name.rsplit(".", 1)[-1].rsplit("$", 1)[-1].lower()
    bare_name = _BEHIND_NAME_RE.sub(
        "", _BEFORE_NAME_RE.sub("", bare_name.replace("-", "_").replace(" ", "_"))
    )
    return bare_name.replace("_", "")


def _error_keys(line: str) -> tuple[set[str], str | None]:
    """Keys of the names in a line, or of the error whose number the line has; and Kafka's name of
    the error.
    """
    code_names = {name_key(code.name): code.name.upper() for code in ErrorCode}
    line_key = name_key(line)
    name_words = (word for word in _NAME_RE.findall(line) if _is_name(word))
    keys = {line_key} | {name_key(word) for word in name_words if len(word) >= _NAME_CHARS_MIN}
    error = next((code_names[key] for key in sorted(keys) if key in code_names), None)
    if error is None and (number_match := _ERROR_NUMBER_RE.search(line)) is not None:
        code = next(
            (code for code in ErrorCode if code.value == int(number_match[1] or number_match[2])),
            None,
        )
        if code is not None and code is not ErrorCode.none:
            return {*keys, name_key(code.name)}, code.name.upper()
    return keys, error


def _is_one_name(words: str) -> bool:
    return _NAME_RE.fullmatch(words) is not None


def _is_name(word: str) -> bool:
    """Whether a word is no ordinary word of a sentence."""
    return "_" in word.strip("_") or any(map(str.isupper, word[1:]))


def _is_message(message: str, line: str) -> bool:
    """Whether a line contains the whole message, or is a part of it."""
    part_patterns = [
        re.escape(message_part)
        for message_part in _plain_text(message).split(PLACEHOLDER)
        if message_part.strip()
    ]
    plain_line = _plain_text(line)
    if re.search(rf".{{0,{_GAP_CHARS}}}?".join(part_patterns), plain_line):
        return True
    is_long_enough = len(plain_line) >= _PART_CHARS_MIN and (" " in plain_line or "." in plain_line)
    return is_long_enough and re.sub(r"\d+", PLACEHOLDER, plain_line) in _plain_text(message)


def _plain_text(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" .'\"`")


def _nearest_sections(line: str, sections: Sequence[TroubleSection]) -> tuple[TroubleSection, ...]:
    likeness_by_title = {section.title: _likeness(line, section) for section in sections}
    ranked_sections = sorted(sections, key=lambda section: -likeness_by_title[section.title])
    return tuple(
        section
        for section in ranked_sections[:NEAREST_SECTIONS_MAX]
        if likeness_by_title[section.title] >= _LIKENESS_MIN
    )


def _likeness(line: str, section: TroubleSection) -> float:
    key = name_key(line)
    name_ratios = (SequenceMatcher(None, key, name).ratio() for name in sorted(section.names))
    line_words = set(_words_of((line,)))
    known_words = set(_words_of((section.title, section.text, *section.messages)))
    shared_fraction = len(line_words & known_words) / len(line_words) if line_words else 0.0
    return max((shared_fraction, *name_ratios))


def _words_of(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (word for word in _WORD_RE.findall(text.lower()) if len(word) > 2)
