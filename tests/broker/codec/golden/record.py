"""Records the golden bytes anew: `python -m tests.broker.codec.golden.record` (Java and Maven).

Kafka's own classes write them, see ``Recorder.java`` and ``ShareStateRecorder.java``. The result is
committed, so that the tests need neither; record again when the emulated release changes.
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
    *(76, 77),
    *range(83, 90),
    *range(90, 94),
)


def main() -> int:
    """Run the recorders with Kafka's jars; their output replaces what is committed."""
    java = java_command(kafka_libs())
    for program, keys in (("Recorder.java", API_KEYS), ("ShareStateRecorder.java", ())):
        command = [*java, str(HERE / program), str(HERE), *map(str, keys)]
        code = subprocess.run(command, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
