"""Records the golden bytes anew: `python -m tests.broker.codec.golden.record` (Java and Maven).

Kafka's own classes write them, see ``Recorder.java``. The result is committed, so that the tests
need neither; record again when the emulated release changes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.apache_kafka import java_command, kafka_libs

HERE = Path(__file__).resolve().parent

API_KEYS = (
    *range(4),
    *range(8, 29),
    *(32, 36, 37, 42, 44, 47, 57, 60, 61, 65, 66, 67, 75),
)


def main() -> int:
    """Run the recorder with Kafka's jars; its output replaces what is committed."""
    command = [*java_command(kafka_libs()), str(HERE / "Recorder.java"), str(HERE)]
    return subprocess.run([*command, *map(str, API_KEYS)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
