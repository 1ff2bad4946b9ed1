"""How object stores are reached, and what is asked for early; a store itself is read in
tests/spark/pipeline/test_stores.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("obstore", reason="the extra spark is not installed")

from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from txnsim.errors import BadInputError, MissingExtraError
from txnsim_spark.stores import _native as native
from txnsim_spark.stores._native import REQUEST_THREADS, NativeStore, ObjectFile, os_error, store_of
from txnsim_spark.stores.uris import FileStatus

KEYS = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}


@pytest.fixture(autouse=True)
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the store profiles of the machine that runs the tests."""
    for profile_name in native._PROFILE_VARIABLES:
        monkeypatch.delenv(profile_name, raising=False)


@pytest.mark.parametrize(
    ("conf", "expected", "is_open"),
    [
        (KEYS, {"access_key_id": "k", "secret_access_key": "s", "region": "eu-1"}, False),
        ({**KEYS, "fs.s3a.session.token": "t"}, {"session_token": "t"}, False),
        ({**KEYS, "fs.s3a.bucket.logs.access.key": "own"}, {"access_key_id": "own"}, False),
        ({**KEYS, "fs.s3a.bucket.others.access.key": "own"}, {"access_key_id": "k"}, False),
        (
            {**KEYS, "fs.s3a.endpoint": "http://minio:9000", "fs.s3a.path.style.access": "true"},
            {"endpoint": "http://minio:9000", "virtual_hosted_style_request": "false"},
            True,
        ),
        (
            {**KEYS, "fs.s3a.endpoint": "store:9000", "fs.s3a.connection.ssl.enabled": "false"},
            {"endpoint": "http://logs.store:9000", "virtual_hosted_style_request": "true"},
            True,
        ),
        (
            {**KEYS, "fs.s3a.endpoint": "https://127.0.0.1:9000"},
            {"virtual_hosted_style_request": "false"},
            False,
        ),
        (
            {"fs.s3a.aws.credentials.provider": "a.b.AnonymousAWSCredentialsProvider"},
            {"skip_signature": "true"},
            False,
        ),
    ],
)
def test_settings_of_hadoops_connector_are_taken(
    conf: Mapping[str, str], expected: Mapping[str, str], is_open: bool
) -> None:
    store = store_of("s3a", "logs", {"fs.s3a.endpoint.region": "eu-1", **conf})
    assert {name: store.config.get(name) for name in expected} == expected
    assert store.config["bucket"] == "logs"
    options: Mapping[str, Any] = store.client_options or {}
    assert options["allow_http"] == str(is_open).lower()


def test_settings_of_googles_connector_are_taken() -> None:
    store = store_of(
        "gs",
        "logs",
        {"fs.gs.storage.root.url": "http://here:1", "fs.gs.auth.type": "UNAUTHENTICATED"},
    )
    config: Mapping[str, Any] = store.config
    assert (config["base_url"], config["skip_signature"]) == ("http://here:1", "true")


def test_a_role_is_assumed_with_the_keys_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: dict[str, Any] = {}

    class Session:
        """A session of Amazon's library, and its client."""

        def __init__(self, **settings: Any) -> None:
            requests["session"] = settings

        def client(self, name: str, *, endpoint_url: str | None = None) -> Session:
            requests["client"] = (name, endpoint_url)
            return self

        def assume_role(self, **settings: Any) -> Mapping[str, Any]:
            """Return credentials, and note the settings."""
            requests["role"] = settings
            keys = {"AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c"}
            there = timezone(timedelta(hours=1))
            return {"Credentials": {**keys, "Expiration": datetime(2030, 1, 1, 1, tzinfo=there)}}

    monkeypatch.setattr(native, "_boto3", lambda: SimpleNamespace(Session=Session))
    conf = {
        **KEYS,
        "fs.s3a.aws.credentials.provider": "o.a.h.fs.s3a.auth.AssumedRoleCredentialProvider",
        "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/reader",
        "fs.s3a.assumed.role.session.name": "night",
        "fs.s3a.assumed.role.sts.endpoint": "sts.eu-1.amazonaws.com",
        "fs.s3a.endpoint.region": "eu-1",
    }
    store: Any = store_of("s3a", "logs", conf)
    assert "access_key_id" not in store.config
    assert store.credential_provider() == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "token": "c",
        "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
    }
    assert requests == {
        "role": {"RoleArn": "arn:aws:iam::1:role/reader", "RoleSessionName": "night"},
        "client": ("sts", "https://sts.eu-1.amazonaws.com"),
        "session": {
            "region_name": "eu-1",
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "aws_session_token": None,
        },
    }


def test_a_profile_takes_amazons_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "night")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingExtraError, match="boto3"):
        store_of("s3a", "logs", {})
    store_of("s3a", "logs", KEYS)


def test_half_a_key_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"s3a://logs: .*secret\.key go together"):
        store_of("s3a", "logs", {"fs.s3a.access.key": "k"})


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (FileNotFoundError("Object at location x not found"), FileNotFoundError),
        (PermissionDeniedError("no"), PermissionError),
        (UnauthenticatedError("no"), PermissionError),
        (GenericError("Generic S3 error\nmore"), OSError),
    ],
)
def test_an_error_has_its_kind_and_the_files_name(
    error: Exception, error_class: type[OSError]
) -> None:
    translated_error = os_error(error, "s3a://logs/x")
    assert type(translated_error) is error_class
    assert (translated_error.filename, "more" in str(translated_error)) == ("s3a://logs/x", False)


def test_who_can_t_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(native._RETRY_CONFIG, "max_retries", 0)
    store = NativeStore({**KEYS, "fs.s3a.endpoint": "http://127.0.0.1:1"})
    with pytest.raises(BadInputError, match="s3a://logs/kafka"):
        store.files_below("s3a://logs/kafka")


# What is asked for early


class CountingStore(NativeStore):
    """A store without a server, each of whose bytes follows from its position."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: Counter[str] = Counter()

    def _read_range(self, uri: str, position: int, count: int) -> bytes:
        self.asked[uri] += 1
        return bytes((position + index) % 251 for index in range(count))


def files(count: int, size: int = 1_000) -> list[FileStatus]:
    return [
        FileStatus(uri=f"s3a://b/{number}", is_folder=False, size=size, modified_ns=1)
        for number in range(count)
    ]


def read(object_file: ObjectFile, position: int = 0, count: int = 9) -> bytes:
    buffer = bytearray(count)
    filled = object_file.read_into(memoryview(buffer), position)
    object_file.close()
    return bytes(buffer[:filled])


def test_files_that_come_next_are_asked_for_once_each() -> None:
    store = CountingStore()
    expected_files = files(3 * REQUEST_THREADS)
    store.expect(expected_files)
    for number, file in enumerate(expected_files):
        store.expect(expected_files[number:])  # as a replica's own segments are told again
        assert read(store.open(file, is_sequential=True)) == bytes(range(9))
    for file in expected_files:  # they were kept
        read(store.open(file, is_sequential=False))
    assert set(store.asked.values()) == {1}
    assert len(store.asked) == len(expected_files)


def test_files_that_are_passed_by_do_not_stop_the_others() -> None:
    store = CountingStore()
    expected_files = files(10 * REQUEST_THREADS)
    store.expect(expected_files)
    for file in expected_files[:: 3 * REQUEST_THREADS]:
        assert read(store.open(file, is_sequential=True)) == bytes(range(9))


def test_a_file_that_has_changed_is_read_again() -> None:
    store = CountingStore()
    (file,) = files(1)
    read(store.open(file, is_sequential=True))
    changed_status = FileStatus(uri=file.uri, is_folder=False, size=file.size, modified_ns=2)
    read(store.open(changed_status, is_sequential=True))
    assert store.asked[file.uri] == 2


def test_a_large_file_comes_block_by_block_and_by_ranges_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txnsim_spark.stores._native.BLOCK_BYTES", 100)
    monkeypatch.setattr("txnsim_spark.stores._native.SMALL_FILE_BYTES", 100)
    store = CountingStore()
    (file,) = files(1, size=250)
    object_file = store.open(file, is_sequential=True)
    data = bytearray()
    while part := read_on(object_file, len(data)):
        data += part
    assert bytes(data) == bytes(index % 251 for index in range(250))
    assert store.asked[file.uri] == 3
    assert read(store.open(file, is_sequential=False), 240, 20) == bytes(range(240, 250))


def read_on(object_file: ObjectFile, position: int) -> bytes:
    """Up to 64 bytes from a position on."""
    buffer = bytearray(64)
    return bytes(buffer[: object_file.read_into(memoryview(buffer), position)])
