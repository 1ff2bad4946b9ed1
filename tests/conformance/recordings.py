"""What a real Apache Kafka answered to stories, as files: ``transcripts/STORY.jsonl``.

The first line says which story, which Kafka, and at which levels of ``transaction.version`` it was
played; every further line is one exchange (``txnsim_lab.conformance._book.recordings``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import KAFKA_VERSION
from txnsim_lab.conformance._book.recordings import (
    Recording,
    Recordings,
    recordings_from_lines,
    recordings_to_lines,
)

FOLDER: Final = Path(__file__).with_name("transcripts")


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Path of the file with a story's recordings."""
    return folder / f"{name}.jsonl"


def recorded_stories(folder: Path = FOLDER) -> list[str]:
    """The names of all stories that have a file."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def read(name: str, folder: Path = FOLDER) -> dict[int, Recording]:
    """The recordings of a story."""
    head_text, *lines = path_of(name, folder).read_text("utf-8").splitlines()
    return recordings_from_lines(lines, json.loads(head_text)["levels"])


def write(name: str, recordings: Recordings, folder: Path = FOLDER) -> None:
    """Write the recordings of a story; equal ones give equal files."""
    head_text = json.dumps(
        {"story": name, "kafka": KAFKA_VERSION, "levels": sorted(recordings)}, separators=(",", ":")
    )
    lines = [head_text, *recordings_to_lines(recordings)]
    path_of(name, folder).write_text("".join(f"{line}\n" for line in lines), "utf-8")
