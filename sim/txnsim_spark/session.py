"""How this package gets a SparkSession: configured for data sources in Python, with ``kafka_log``
registered.

If a session runs already, as within ``spark-submit`` or a notebook, that session is used, with its
master and its settings.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.errors import MissingExtraError
from txnsim_spark.active_session import active_session
from txnsim_spark.options import Division, FileTolerance

if TYPE_CHECKING:
    from pyspark.sql import Row as Row
    from pyspark.sql import SparkSession as SparkSession

DEFAULT_MASTER: Final = "local[*]"
APP_NAME: Final = "txnsim"
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
DEFAULT_CONFIG: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    # Between JVM and Python a task costs 50 ms over TCP, 15 to 20 over a socket in the file system.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
    # Workers are forked with numba and the compiled walks loaded, not each for itself.
    "spark.python.daemon.module": "txnsim_spark.daemon",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of a new session, unless others are given. ``spark-submit`` has its own settings."""
SHORT_SESSION_CONFIG: Final = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
}
"""Settings of a session for few queries whose work is done in Python: the JVM compiles only once,
less well, and leaves the cores to the work. A first search then takes half the CPU.
"""
PYTHON_OF_WORKERS: Final = "PYSPARK_PYTHON"
"""Environment variable of the driver that names the workers' interpreter."""
NO_JAVA: Final = (
    "Apache Spark needs Java 17 or newer, on the PATH or in JAVA_HOME, and did not find it: "
    "install a JDK or JRE (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
)


def spark_session(
    master: str | None = None,
    *,
    app_name: str = APP_NAME,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process: the running one, or a new one.

    Args:
        master: Where a new one runs its tasks; None for all cores of this machine. A running
            session, and one of ``spark-submit``, keeps its own.
        app_name: What a new one is called.
        config: Settings of a new one, over those of ``DEFAULT_CONFIG``, or over those that
            ``spark-submit`` was given.

    Raises:
        MissingExtraError: PySpark or Java is missing.
    """
    try:
        spark = active_session()
    except ImportError as error:
        raise MissingExtraError.of("spark") from error
    if spark is None:
        spark = _new_session(master, app_name, config or {})
    register(spark)
    return spark


def has_running_session() -> bool:
    """Whether this process already has a session, which its owner will stop.

    Raises:
        MissingExtraError: PySpark is missing.
    """
    try:
        return active_session() is not None
    except ImportError as error:
        raise MissingExtraError.of("spark") from error


def register(spark: SparkSession) -> None:
    """Register ``kafka_log`` with a session of another program, and change nothing else of it.

    Raises:
        MissingExtraError: A library of the extra is missing.
    """
    try:
        from txnsim_spark.source import data_source_class
        from txnsim_spark.stores.settings import settings_of
    except ImportError as error:
        raise MissingExtraError.of("spark") from error

    settings = settings_of(spark)
    division = Division() if settings is None else _division_of(spark)
    spark.dataSource.register(data_source_class(settings, division, _tolerance_of(spark)))


def _tolerance_of(spark: SparkSession) -> FileTolerance:
    def is_set(setting_name: str) -> bool:
        return (spark.conf.get(setting_name, "false") or "false").lower() == "true"

    return FileTolerance(
        ignore_missing_files=is_set("spark.sql.files.ignoreMissingFiles"),
        ignore_corrupt_files=is_set("spark.sql.files.ignoreCorruptFiles"),
    )


def _division_of(spark: SparkSession) -> Division:
    conf = spark._jsparkSession.sessionState().conf()
    return Division(
        max_partition_bytes=conf.filesMaxPartitionBytes(),
        open_cost_bytes=conf.filesOpenCostInBytes(),
        parallelism=spark.sparkContext.defaultParallelism,
    )


def _new_session(master: str | None, app_name: str, config: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    builder = SparkSession.builder.appName(app_name)
    # Workers run this very interpreter, whatever python3 is on their PATH, unless another is named.
    # spark-submit passes on its own choice, by spark.pyspark.python or by its environment.
    os.environ.setdefault(PYTHON_OF_WORKERS, sys.executable)
    if not _is_submitted():
        _require_java()
        builder = builder.master(master or DEFAULT_MASTER)
        config = {**DEFAULT_CONFIG, **_local_config(master or DEFAULT_MASTER), **config}
    for setting, setting_value in config.items():
        builder = builder.config(setting, setting_value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise MissingExtraError(NO_JAVA) from error
    if not is_remote():
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _local_config(master: str) -> dict[str, str]:
    """Settings with which a session on this machine does not depend on the machine's host name."""
    if not master.startswith("local"):
        return {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def _is_submitted() -> bool:
    """Whether ``spark-submit`` started this process; then it knows the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _require_java() -> None:
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise MissingExtraError(NO_JAVA)
