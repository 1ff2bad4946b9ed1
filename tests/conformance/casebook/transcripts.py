"""What a real Apache Kafka answered to the cases: ``transcripts/cases/FOLDER/FILE.jsonl``.

One file for each file of cases. A line ``{"case": NAME, "levels": [...]}`` opens a case; then
follow its exchanges, as in the files of stories (``tests.conformance.recordings``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.conformance.recordings import FOLDER, Recording, Recordings, from_lines, to_lines
from tests.support.apache_kafka import KAFKA_VERSION

CASE_FOLDER: Final = FOLDER / "cases"

Book = Mapping[str, Recordings]
"""The recordings of the cases of a file, by name and level."""


def path_of(file: str, folder: Path = CASE_FOLDER) -> Path:
    """Where the transcript of a file of cases is."""
    return folder / f"{file}.jsonl"


def recorded_files(folder: Path = CASE_FOLDER) -> list[str]:
    """The files of cases that have a transcript."""
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.jsonl")
    )


def read(file: str, folder: Path = CASE_FOLDER) -> dict[str, dict[int, Recording]]:
    """The transcript of a file of cases; empty where there is none."""
    path = path_of(file, folder)
    if not path.exists():
        return {}
    heads: list[dict[str, Any]] = []
    parts: list[list[str]] = []
    for line in path.read_text("utf-8").splitlines()[1:]:
        if line.startswith('{"case":'):
            heads.append(json.loads(line))
            parts.append([])
        else:
            parts[-1].append(line)
    return {
        head["case"]: from_lines(lines, head["levels"])
        for head, lines in zip(heads, parts, strict=True)
    }


def release_of(file: str, folder: Path = CASE_FOLDER) -> str:
    """The release line that answered to a file of cases: ``4.3`` of ``4.3.1``."""
    with path_of(file, folder).open(encoding="utf-8") as transcript:
        head = json.loads(transcript.readline())
    return str(head["kafka"]).rpartition(".")[0]


def write(file: str, book: Book, order: Iterable[str], folder: Path = CASE_FOLDER) -> None:
    """Write the transcript of a file of cases, in the order of the file."""
    lines = [_json({"cases": file, "kafka": KAFKA_VERSION})]
    for name in order:
        if name in book:
            lines.append(_json({"case": name, "levels": sorted(book[name])}))
            lines += to_lines(book[name])
    path = path_of(file, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
