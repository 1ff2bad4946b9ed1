"""The script for ``spark-submit``: runs a command of ``txnsim`` in the submitted session.

``spark-submit … submit.py logs find-hanging DIR`` is ``txnsim logs find-hanging DIR`` with the
master and the settings that ``spark-submit`` was given: commands take the running session
(``txnsim_spark.session``). Workers need the same package, in the Python that ``PYSPARK_PYTHON``
names. docs/kafka-log.md has the whole line. ``spark-submit`` may run it with a Python that has no
txnsim; then it says which one to name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

# A script's own folder is searched first: a module there must not hide one of Python's.
sys.path[:] = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]


def run(arguments: Sequence[str]) -> int:
    """Run a command in the submitted session.

    Returns:
        Its exit status.
    """
    from txnsim.cli.main import main
    from txnsim_spark.session import spark_session

    spark = spark_session(app_name=" ".join(("txnsim", *arguments[:2])))
    try:
        return main(arguments)
    finally:
        spark.stop()


def advice_for_other_python(package: Path) -> str:
    """The advice that is printed where ``spark-submit`` runs a Python without txnsim."""
    # The environment's own, where the folder is lib/pythonX.Y/site-packages/txnsim_spark in it.
    own_pythons = [folder / "bin" / "python" for folder in package.parents[3:4]]
    python = own_pythons[0] if own_pythons and own_pythons[0].exists() else "/path/to/python"
    return (
        f"txnsim: spark-submit runs {sys.executable}, in which txnsim is not installed: name the "
        f"Python that has it, --conf spark.pyspark.python={python}, or PYSPARK_PYTHON={python} in "
        "the environment"
    )


def _main() -> int:
    try:
        return run(sys.argv[1:])
    except ModuleNotFoundError as error:
        if error.name != "txnsim":
            raise
        sys.stderr.write(f"{advice_for_other_python(Path(__file__).resolve().parents[1])}\n")
        return 2


if __name__ == "__main__":
    sys.exit(_main())
