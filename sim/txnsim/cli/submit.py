"""What ``spark-submit`` runs: a command of ``txnsim`` within the session that was submitted.

``spark-submit … submit.py logs find-hanging DIR`` is ``txnsim logs find-hanging DIR`` with the
master and the settings that ``spark-submit`` was given: commands take the running session
(``txnsim.pipeline.session``). Workers need the same package, in the Python that ``PYSPARK_PYTHON``
names. docs/kafka-log.md has the whole line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

# A script's own folder is searched first, and ours has modules that are named as Python's are.
sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).parent]


def run(arguments: Sequence[str]) -> int:
    """Run a command in the submitted session.

    Args:
        arguments: What would follow ``txnsim``.

    Returns:
        Its exit status.
    """
    from txnsim.cli.main import main
    from txnsim.pipeline.session import spark_session

    spark = spark_session(app_name=" ".join(("txnsim", *arguments[:2])))
    try:
        return main(arguments)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
