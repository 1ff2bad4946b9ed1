"""OAUTHBEARER's first message: what a real Kafka 4.3.1 takes and refuses, case by case."""

from __future__ import annotations

import time  # noqa: TID251 - measures the CPU time of a pure function

import pytest

from txnsim.security.bearer import BearerMessage, read_message

TOKEN_BYTES = 500_000
CPU_SECONDS_MAX = 2.0
"""Much more than half a megabyte takes on a slow machine; what was quadratic took 45 s."""


@pytest.mark.parametrize(
    ("text", "token", "authorization_id"),
    [
        ("n,,\x01auth=Bearer a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=BEARER a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=Bearer   a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=Bearer a==\x01\x01", "a==", ""),
        ("n,,\x01auth=Bearer ~+/\x01\x01", "~+/", ""),
        ("n,a=u,\x01auth=Bearer a.b.\x01\x01", "a.b.", "u"),
        ("n,a=u=2C,\x01auth=Bearer a.b.\x01\x01", "a.b.", "u=2C"),
        ("n,a=u\x01,\x01auth=Bearer a.b.\x01\x01", "a.b.", "u\x01"),
        ("n,,\x01auth=Bearer a.b.\x01ext=1=2\x01\x01", "a.b.", ""),
        ("n,,\x01ext=a\t\r\n b\x01auth=Bearer a.b.\x01\x01", "a.b.", ""),
        ("n,,\x01auth=Bearer first\x01auth=Bearer last\x01\x01", "last", ""),
    ],
)
def test_a_message_that_is_taken(text: str, token: str, authorization_id: str) -> None:
    assert read_message(text) == BearerMessage(token=token, authorization_id=authorization_id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n,",
        "n,,",
        "n,,\x01",
        "n,,\x01\x01",
        "y,,\x01auth=Bearer a\x01\x01",
        "n,a=,\x01auth=Bearer a\x01\x01",
        "n,b=u,\x01auth=Bearer a\x01\x01",
        "n,a=u=,\x01auth=Bearer a\x01\x01",
        "n,,x\x01auth=Bearer a\x01\x01",
        "n,,\x01auth=Bearer a\x01",
        "n,,\x01auth=Bearer a\x01\x01\n",
        "n,,\x01\x01auth=Bearer a\x01\x01",
        "n,,\x01auth=Bearer a\x01x=\x01\x01",
        "n,,\x01auth=Bearer a\x01x1=y\x01\x01",
        "n,,\x01auth=Bearer a\x01x=\x02\x01\x01",
        "n,,\x01auth=Bearer a\x01x=é\x01\x01",
        "n,,\x01auth\x01\x01",
        "n,,\x01auth=Bearer\ta\x01\x01",
        "n,,\x01auth=Bearer a \x01\x01",
        "n,,\x01auth=Bearer a=b\x01\x01",
        "n,,\x01auth=Bearer a*b\x01\x01",
        "n,,\x01auth=Basic a\x01\x01",
        "n,,\x01Auth=Bearer a\x01\x01",
        "n,,\x01x=y\x01\x01",
    ],
)
def test_a_message_that_is_refused(text: str) -> None:
    assert read_message(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "n,,\x01" + "a=b\x01" * (TOKEN_BYTES // 4),
        "n,,\x01" + "a=\x01" * (TOKEN_BYTES // 3) + "\x01",
        "n,,\x01" + "auth=Bearer " + "a" * TOKEN_BYTES + "*\x01\x01",
        "n,,\x01" + "auth=" + "a" * TOKEN_BYTES + "\x01\x01",
        "n,,\x01" + "auth=Bearer" + " " * TOKEN_BYTES + "\x01\x01",
        "n,a=" + "=2C" * (TOKEN_BYTES // 3) + "=,\x01auth=Bearer a\x01\x01",
        "n," + "," * TOKEN_BYTES,
        "a" * TOKEN_BYTES,
        "\x01" * TOKEN_BYTES,
    ],
    ids=["pairs", "empty", "token", "scheme", "blanks", "name", "commas", "letters", "ends"],
)
def test_reading_takes_time_in_proportion_to_the_length(text: str) -> None:
    began = time.process_time()
    assert read_message(text) is None
    assert time.process_time() - began < CPU_SECONDS_MAX
