"""Which released client has which message: ``python -m tests.clients.client_messages --write``.

docs/troubleshooting.md quotes classes and messages of clients ("Also seen as"). Each client is
fetched at one release by its registry's own program: Maven's jars, wheels of PyPI, Go modules,
packages of npm. Each quoted text is looked for in its files: in a jar among the constants of each
class, elsewhere in the sources. ``client_messages.tsv`` keeps where it was found; a page that
quotes anything else fails (``tests/test_troubleshooting.py``). Without ``--write`` it says what
differs.

The C sources of librdkafka come in the npm package of Confluent's JavaScript client. Maven has no
source jars for some of these releases, so that compiled classes are read for all of them.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.apache_kafka import CACHE, REPOSITORY, make_once, output_of, tool
from txnsim_lab.troubleshooting import PLACEHOLDER, page_file, read_sections

TABLE: Final = Path(__file__).with_name("client_messages.tsv")
HEADERS: Final = ("client", "package", "version", "file", "words")
_FAMILY: Final = CACHE / "client-messages"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_GAP_CHARS: Final = 200
"""In a source, at most, between two parts of one message: what is put in, and its code."""
_SOURCES: Final = (".c", ".go", ".h", ".js", ".py")
_TEST_FILE: Final = re.compile(r"(_test\.go|\.spec\.js|\.test\.js)$|(^|/)tests?/")
_JOINT: Final = re.compile(r"""(["'`])\s*\\?\n?\s*\+?\s*[rbf]?(["'`])""")
"""Between two literals that the language joins."""


class ClientMessagesError(Exception):
    """A release can't be had, or does not have what the page quotes."""


class Release(NamedTuple):
    """The released package in which a client's messages are looked up."""

    package: str
    """In its registry."""
    version: str
    fetch: Callable[[str, str, Path], None]
    """Puts package and version into an empty folder."""
    below: str = ""
    """Only what lies there counts."""


class Row(NamedTuple):
    """An error message that a release of a client has."""

    client: str
    package: str
    version: str
    file: str
    words: str


# Registries


def _from_maven(package: str, version: str, folder: Path) -> None:
    maven = tool("mvn", "jars are fetched with Maven", ClientMessagesError)
    artifact = f"-Dartifact={package}:{version}"
    command = [maven, "-q", "-B", _COPY, artifact, f"-DoutputDirectory={folder}"]
    output_of(command, f"Maven could not fetch {package} {version}", ClientMessagesError)


def _from_pypi(package: str, version: str, folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command = [*pip, f"{package}=={version}"]
    output_of(command, f"pip could not fetch {package}", ClientMessagesError, directory=folder)
    (wheel_file,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(folder)


def _from_go(package: str, version: str, folder: Path) -> None:
    go = tool("go", "modules are fetched with Go", ClientMessagesError)
    command = [go, "mod", "download", "-json", f"{package}@v{version}"]
    # An empty folder has no go.mod, so that none is changed.
    output = output_of(
        command, f"Go could not fetch {package}", ClientMessagesError, directory=folder
    )
    with zipfile.ZipFile(json.loads(output)["Zip"]) as archive:
        archive.extractall(folder)


def _from_npm(package: str, version: str, folder: Path) -> None:
    npm = tool("npm", "packages of Node.js are fetched with npm", ClientMessagesError)
    command = [npm, "pack", "--silent", f"{package}@{version}"]
    output_of(command, f"npm could not fetch {package}", ClientMessagesError, directory=folder)
    (archive_file,) = folder.glob("*.tgz")
    with tarfile.open(archive_file) as tar_file:
        tar_file.extractall(folder, filter="data")


RELEASES: Final[Mapping[str, Release]] = {
    "Java": Release("org.apache.kafka:kafka-clients", "4.4.0", _from_maven),
    "Java 2.0": Release("org.apache.kafka:kafka-clients", "2.0.1", _from_maven),
    "Kafka Streams": Release("org.apache.kafka:kafka-streams", "4.4.0", _from_maven),
    "Kafka Connect": Release("org.apache.kafka:connect-runtime", "4.4.0", _from_maven),
    "Flink": Release("org.apache.flink:flink-connector-kafka", "5.0.0-2.2", _from_maven),
    "Flink 1.17": Release("org.apache.flink:flink-connector-kafka", "3.0.0-1.17", _from_maven),
    "Flink 1.20": Release("org.apache.flink:flink-streaming-java", "1.20.0", _from_maven),
    "Spring": Release("org.springframework.kafka:spring-kafka", "4.1.1", _from_maven),
    "librdkafka": Release(
        "@confluentinc/kafka-javascript", "1.10.1", _from_npm, "deps/librdkafka/src/"
    ),
    "librdkafka 1.5": Release("node-rdkafka", "2.10.1", _from_npm, "deps/librdkafka/src/"),
    "kafkajs": Release("kafkajs", "2.2.4", _from_npm),
    "franz-go": Release("github.com/twmb/franz-go", "1.22.2", _from_go),
    "Sarama": Release("github.com/IBM/sarama", "1.61.1", _from_go),
    "aiokafka": Release("aiokafka", "0.14.0", _from_pypi),
    "kafka-python": Release("kafka-python", "3.0.12", _from_pypi),
}
"""Clients of the page. librdkafka is 2.15.1 in that package; confluent-kafka of Python, .NET and Go
print its messages. Older releases stand there for messages that newer ones do not have.
"""


def release_folder(client: str) -> Path:
    """The folder of a client's release, fetched once.

    Raises:
        ClientMessagesError: It can't be had.
    """
    release = RELEASES[client]
    file_name = f"{client}-{release.version}".replace(" ", "-")

    def fetch(folder: Path) -> None:
        folder.mkdir(parents=True)
        release.fetch(release.package, release.version, folder)

    return make_once(_FAMILY / file_name, fetch, lock_file=_FAMILY / f"{file_name}.lock")


# What a release says


@cache
def texts(client: str) -> Mapping[str, str]:
    """File of a release -> what it says; of a class its constants, one a line, with `PLACEHOLDER`
    for each value.
    """
    folder = release_folder(client)
    source_folder = RELEASES[client].below
    jars = {
        name: text
        for jar_file in sorted(folder.glob("*.jar"))
        for name, text in _texts_of_jar(jar_file)
    }
    if jars:
        return jars
    return {
        path.relative_to(folder).as_posix(): _JOINT.sub("", path.read_text("utf-8", "replace"))
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SOURCES
        and source_folder in path.as_posix()
        and not _TEST_FILE.search(path.relative_to(folder).as_posix())
    }


def _texts_of_jar(jar_file: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(jar_file) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".class"):
                lines = [Path(name).stem.rpartition("$")[2], *constants(archive.read(name))]
                yield name, "\n".join(" ".join(line.split()) for line in lines)


def constants(class_bytes: bytes) -> list[str]:
    """The texts among the constants of a compiled class (JVM specification, 4.4). In one that joins
    values, made of ``\\1`` by javac, `PLACEHOLDER` stands for each.
    """
    (constant_count,) = struct.unpack_from(">H", class_bytes, 8)
    entry_sizes = {
        3: 5,
        4: 5,
        5: 9,
        6: 9,
        7: 3,
        8: 3,
        9: 5,
        10: 5,
        11: 5,
        12: 5,
        15: 4,
        16: 3,
        17: 5,
        18: 5,
    }
    entry_sizes |= {19: 3, 20: 3}
    byte_position, constant_index = 10, 1
    text_by_index: dict[int, str] = {}
    string_indexes: list[int] = []
    while constant_index < constant_count:
        entry_tag = class_bytes[byte_position]
        if entry_tag == 1:
            (text_length,) = struct.unpack_from(">H", class_bytes, byte_position + 1)
            text_by_index[constant_index] = class_bytes[
                byte_position + 3 : byte_position + 3 + text_length
            ].decode("utf-8", "replace")
            byte_position += 3 + text_length
        else:
            if entry_tag == 8:
                string_indexes.append(struct.unpack_from(">H", class_bytes, byte_position + 1)[0])
            byte_position += entry_sizes[entry_tag]
        constant_index += 2 if entry_tag in (5, 6) else 1
    return [
        text_by_index[string_index].replace("\x01", PLACEHOLDER) for string_index in string_indexes
    ]


def file_with(quote_text: str, texts: Mapping[str, str]) -> str | None:
    """The first file that has a class or a message.

    Args:
        quote_text: As the page quotes them.
        texts: File -> what it says.
    """
    files = (name for name, text in texts.items() if _pattern(quote_text).search(text))
    return next(files, None)


@cache
def _pattern(quote_text: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in quote_text.split(PLACEHOLDER)]
    pattern = rf"[^\n]{{0,{_GAP_CHARS}}}?".join(parts)
    return re.compile(pattern if " " in quote_text else rf"(?<![\w$]){pattern}(?!\w)")


# The table


def quoted_words() -> list[tuple[str, str]]:
    """Client and message of each quote of docs/troubleshooting.md."""
    sections = read_sections(page_file().read_text("utf-8"))
    return sorted(
        {
            (client, quote_text)
            for section in sections
            for quoted_messages in section.seen_as
            for client in quoted_messages.clients
            for quote_text in quoted_messages.words
        }
    )


def rows() -> list[Row]:
    """What the page quotes, found in the releases.

    Raises:
        ClientMessagesError: A release can't be had, or does not say it.
    """
    problems: list[str] = []
    quoted_rows: list[Row] = []
    for client, quote_text in quoted_words():
        if client not in RELEASES:
            problems.append(f"{client}: not one of {', '.join(RELEASES)}")
        elif (file := file_with(quote_text, texts(client))) is None:
            problems.append(f"{client} {RELEASES[client].version} does not say: {quote_text}")
        else:
            release = RELEASES[client]
            quoted_rows.append(Row(client, release.package, release.version, file, quote_text))
    if problems:
        raise ClientMessagesError("\n".join(problems))
    return quoted_rows


def table(rows: Sequence[Row]) -> str:
    """The file's text."""
    text = io.StringIO()
    writer = csv.writer(text, dialect="excel-tab", lineterminator="\n")
    writer.writerows([HEADERS, *rows])
    return text.getvalue()


def stored_rows() -> list[Row]:
    """Rows of the committed file."""
    lines = list(csv.reader(TABLE.read_text("utf-8").splitlines(), dialect="excel-tab"))
    assert tuple(lines[0]) == HEADERS
    return [Row(*line) for line in lines[1:]]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the table, or say whether it is current; status 1 if it is not, or can't be made."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.client_messages")
    parser.add_argument("--write", action="store_true", help="write the table")
    options = parser.parse_args(argv)
    try:
        text = table(rows())
    except ClientMessagesError as error:
        print(error, file=sys.stderr)
        return 1
    is_current = TABLE.is_file() and TABLE.read_text("utf-8") == text
    if options.write:
        TABLE.write_text(text, "utf-8")
    elif not is_current:
        print(f"out of date: {TABLE.relative_to(REPOSITORY)}")
    return int(not (options.write or is_current))


if __name__ == "__main__":
    sys.exit(main())
