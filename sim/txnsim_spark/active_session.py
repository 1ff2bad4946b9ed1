"""The Spark session that this thread works in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def active_session() -> SparkSession | None:
    """The session of this thread; None if it has none.

    ``SparkSession.getActiveSession`` is wrong once a batch of a stream has called
    ``createDataFrame``: PySpark then names the stream's copy of the session, with the settings of
    its start, in every thread of the process. The JVM keeps the session by thread.

    Raises:
        ImportError: PySpark is missing.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    session = SparkSession.getActiveSession()
    context = SparkContext._active_spark_context
    if (
        session is None or context is None or is_remote()
    ):  # a server of Connect may be in this process
        return session
    java_session = SparkSession._get_j_spark_session_class(context._jvm).getActiveSession().get()
    if session._jsparkSession.equals(java_session):
        return session
    return SparkSession(context, java_session)
