"""How object stores are reached, and what is asked for early; a store itself is read in
tests/pipeline/test_stores.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from txnsim.errors import BadInputError
from txnsim.pipeline.stores.native import (
    THREADS,
    NativeStore,
    ObjectFile,
    file_system_of,
    os_error,
)
from txnsim.pipeline.stores.uris import Status

KEYS = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}


def given(scheme: str, conf: Mapping[str, str]) -> dict[str, Any]:
    """What a file system was made with, of what it was given."""
    made: Any = file_system_of(scheme, "logs", {"fs.s3a.endpoint.region": "eu-1", **conf})
    (kwargs,) = made.__reduce__()[1]  # as it goes to another process
    return {name: value for name, value in kwargs.items() if value}


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        (KEYS, {"access_key": "k", "secret_key": "s", "scheme": "https", "region": "eu-1"}),
        ({**KEYS, "fs.s3a.session.token": "t"}, {"session_token": "t"}),
        ({**KEYS, "fs.s3a.bucket.logs.access.key": "own"}, {"access_key": "own"}),
        ({**KEYS, "fs.s3a.bucket.others.access.key": "own"}, {"access_key": "k"}),
        (
            {**KEYS, "fs.s3a.endpoint": "http://minio:9000", "fs.s3a.path.style.access": "true"},
            {
                "scheme": "http",
                "endpoint_override": "minio:9000",
                "force_virtual_addressing": None,
            },
        ),
        (
            {**KEYS, "fs.s3a.endpoint": "store:9000", "fs.s3a.connection.ssl.enabled": "false"},
            {
                "scheme": "http",
                "endpoint_override": "store:9000",
                "force_virtual_addressing": True,
            },
        ),
        (
            {**KEYS, "fs.s3a.endpoint": "https://127.0.0.1:9000"},
            {"force_virtual_addressing": None},
        ),
        (
            {"fs.s3a.aws.credentials.provider": "a.b.AnonymousAWSCredentialsProvider"},
            {"anonymous": True, "access_key": None},
        ),
    ],
)
def test_settings_of_hadoops_connector_are_taken(
    conf: Mapping[str, str], expected: Mapping[str, Any]
) -> None:
    found = given("s3a", conf)
    assert {name: found.get(name) for name in expected} == expected


def test_a_role_is_assumed_with_the_keys_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    environment: dict[str, str] = {}
    monkeypatch.setattr("txnsim.pipeline.stores.native.os.environ", environment)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("pyarrow.fs.S3FileSystem", lambda **kwargs: asked.append(kwargs))
    conf = {
        **KEYS,
        "fs.s3a.aws.credentials.provider": "o.a.h.fs.s3a.auth.AssumedRoleCredentialProvider",
        "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/reader",
        "fs.s3a.assumed.role.session.name": "night",
        "fs.s3a.assumed.role.sts.endpoint": "sts.eu-1.amazonaws.com",
    }
    file_system_of("s3a", "logs", conf)
    assert environment == {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ENDPOINT_URL_STS": "https://sts.eu-1.amazonaws.com",
    }
    assert asked[0]["role_arn"] == "arn:aws:iam::1:role/reader"
    assert asked[0]["session_name"] == "night"
    assert asked[0]["access_key"] is None


def test_half_a_key_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"s3a://logs: .*secret_key"):
        file_system_of("s3a", "logs", {"fs.s3a.access.key": "k"})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("Path does not exist"), FileNotFoundError),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation"), PermissionError),
        (OSError("AWS Error NETWORK_CONNECTION\nmore"), OSError),
    ],
)
def test_an_error_has_its_kind_and_the_files_name(error: OSError, kind: type[OSError]) -> None:
    found = os_error(error, "s3a://logs/x")
    assert type(found) is kind
    assert (found.filename, "more" in str(found)) == ("s3a://logs/x", False)


# What is asked for early


class Opened:
    """A file of a store that counts what is asked of it."""

    def __init__(self, asked: Counter[str], name: str) -> None:
        self._asked = asked
        self._name = name

    def read_at(self, count: int, position: int) -> bytes:
        """Bytes that tell where they are from."""
        self._asked[self._name] += 1
        return bytes((position + at) % 251 for at in range(count))


class System:
    """Opens everything."""

    def __init__(self, asked: Counter[str]) -> None:
        self._asked = asked

    def open_input_file(self, path: str) -> Opened:
        """It is there."""
        return Opened(self._asked, path)


class Counting(NativeStore):
    """A store without a server."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: Counter[str] = Counter()

    def _at(self, uri: str) -> Any:
        return System(self.asked), uri


def files(count: int, size: int = 1_000) -> list[Status]:
    """Files of one size."""
    return [
        Status(uri=f"s3a://b/{number}", is_folder=False, size=size, modified_ns=1)
        for number in range(count)
    ]


def read(opened: ObjectFile, position: int = 0, count: int = 9) -> bytes:
    """Some of a file."""
    found = bytearray(count)
    filled = opened.read_into(memoryview(found), position)
    opened.close()
    return bytes(found[:filled])


def test_files_that_come_next_are_asked_for_once_each() -> None:
    store = Counting()
    expected = files(3 * THREADS)
    store.expect(expected)
    for number, file in enumerate(expected):
        store.expect(expected[number:])  # as a replica's own segments are told again
        assert read(store.open(file, is_sequential=True)) == bytes(range(9))
    for file in expected:  # they were kept
        read(store.open(file, is_sequential=False))
    assert set(store.asked.values()) == {1}
    assert len(store.asked) == len(expected)


def test_files_that_are_passed_by_do_not_stop_the_others() -> None:
    store = Counting()
    expected = files(10 * THREADS)
    store.expect(expected)
    for file in expected[:: 3 * THREADS]:
        assert read(store.open(file, is_sequential=True)) == bytes(range(9))


def test_a_file_that_has_changed_is_read_again() -> None:
    store = Counting()
    (file,) = files(1)
    read(store.open(file, is_sequential=True))
    changed = Status(uri=file.uri, is_folder=False, size=file.size, modified_ns=2)
    read(store.open(changed, is_sequential=True))
    assert store.asked[file.uri] == 2


def test_a_large_file_comes_block_by_block_and_by_ranges_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txnsim.pipeline.stores.native.BLOCK_BYTES", 100)
    monkeypatch.setattr("txnsim.pipeline.stores.native.SMALL_BYTES", 100)
    store = Counting()
    (file,) = files(1, size=250)
    opened = store.open(file, is_sequential=True)
    found = bytearray()
    while part := read_on(opened, len(found)):
        found += part
    assert bytes(found) == bytes(at % 251 for at in range(250))
    assert store.asked[file.uri] == 3
    assert read(store.open(file, is_sequential=False), 240, 20) == bytes(range(240, 250))


def read_on(opened: ObjectFile, position: int) -> bytes:
    """What comes next."""
    found = bytearray(64)
    return bytes(found[: opened.read_into(memoryview(found), position)])
