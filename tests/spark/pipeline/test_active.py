"""``active_session`` while streams run."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from txnsim_spark.active_session import active_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_another_thread_s_frames_do_not_change_the_session_of_this_one(spark: SparkSession) -> None:
    copied_session = spark.newSession()
    other_thread = Thread(target=lambda: copied_session.createDataFrame([(1,)], "a int"))
    other_thread.start()
    other_thread.join()
    assert type(spark).getActiveSession() is copied_session, (
        "PySpark's answer is right: no need for ours"
    )
    session = active_session()
    assert session is not None
    assert session._jsparkSession.equals(spark._jsparkSession)
    spark.createDataFrame([(1,)], "a int")
    assert active_session() is spark
