"""What Java throws, as Python has it; the JVM itself is judged in
tests/spark/pipeline/test_stores.py.
"""

from __future__ import annotations

import pytest

from txnsim_spark.stores._hadoop import os_error, reason_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.io.FileNotFoundException: no s3a://b/x", FileNotFoundError),
        ("java.nio.file.AccessDeniedException: s3a://b/x", PermissionError),
        ("org.apache.hadoop.security.AccessControlException: denied", PermissionError),
        ("java.net.ConnectException: refused", OSError),
    ],
)
def test_an_error_has_its_kind_and_the_files_name(text: str, kind: type[OSError]) -> None:
    found = os_error(Exception(f"{text}\n\tat somewhere"), "s3a://b/x")
    assert type(found) is kind
    assert found.filename == "s3a://b/x"


def test_the_reason_is_what_java_said_first() -> None:
    assert reason_of(Exception("java.net.ConnectException: refused\n\tat a")) == (
        "java.net.ConnectException: refused"
    )
