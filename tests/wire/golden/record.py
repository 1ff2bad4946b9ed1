"""Records the golden bytes anew: `python -m tests.wire.golden.record` (needs Java and Maven).

Kafka's own classes write them, see ``Recorder.java``. The result is committed, so that the tests
need neither; record again when the emulated release changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import KAFKA_VERSION, java_command, kafka_libs

HERE = Path(__file__).resolve().parent

API_KEYS = (
    *range(4),
    *range(8, 29),
    *(32, 36, 37, 42, 44, 47, 57, 60, 61, 65, 66, 67, 75),
)


NEWER = {"4.4.0": ((18, 5), (28, 6), (42, 3))}
"""Versions of messages that came with a later release."""


def main() -> int:
    """Run the recorder with Kafka's jars; its output replaces what is committed."""
    code = record(HERE, API_KEYS)
    for release, wanted in NEWER.items():
        with tempfile.TemporaryDirectory() as directory:
            code = code or record(Path(directory), [key for key, _ in wanted], release)
            lines = (Path(directory) / "messages.jsonl").read_text().splitlines()
        line = release.rpartition(".")[0]
        kept = [one for one in lines if _of(json.loads(one)) in wanted]
        (HERE / f"messages-{line}.jsonl").write_text("".join(f"{one}\n" for one in kept))
    return code


def record(directory: Path, keys: Iterable[int], release: str = KAFKA_VERSION) -> int:
    """What a release's classes write, into a directory; the exit status."""
    command = [*java_command(kafka_libs(release)), str(HERE / "Recorder.java"), str(directory)]
    return subprocess.run([*command, *map(str, keys)], check=False).returncode


def _of(line: dict[str, Any]) -> tuple[int, int]:
    return line["api"], line["version"]


if __name__ == "__main__":
    sys.exit(main())
