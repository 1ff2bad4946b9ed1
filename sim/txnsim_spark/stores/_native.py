"""Reads S3 and Google Cloud Storage through ``obstore``, without a JVM or local copies. A range of
a file is one request: ``pyarrow.fs`` asks for a file's size before, though a listing has told it.

Settings are those of Hadoop's connectors, so that one configuration serves Spark's own sources and
this one: ``fs.s3a.…``, also ``fs.s3a.bucket.NAME.…``, and ``fs.gs.…``. Missing settings are taken
from the same places as by Amazon's and Google's own tools: environment, metadata service; a profile
or a role needs Amazon's own library. A request to a store takes tens of milliseconds, so threads
request early what will be read: the next block of a file that is read from beginning to end, and
the first blocks of the files after it (``expect``).
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, timedelta
from importlib.util import find_spec
from ipaddress import ip_address
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from txnsim.errors import BadInputError, MissingExtraError
from txnsim_spark.stores.uris import S3_SCHEMES, FileStatus, is_pattern, regex_of

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, GCSStore, RetryConfig, S3Store

BLOCK_BYTES: Final = 8 << 20
READ_AHEAD_BYTES_MAX: Final = 64 << 20
"""Upper bound of the bytes read ahead."""
CACHED_BYTES_MAX: Final = READ_AHEAD_BYTES_MAX + (32 << 20)
"""Upper bound of the bytes of all cached blocks: small files are opened several times, one after
the other.
"""
SMALL_FILE_BYTES: Final = 1 << 20
"""A file up to this size is read whole at the first read."""
REQUEST_THREADS: Final = 32
"""Number of simultaneous requests."""
_ANONYMOUS_PROVIDER: Final = "AnonymousAWSCredentialsProvider"
_KEYS_PER_PAGE: Final = 1_000
"""Keys in one page of a store's listing."""
_RETRY_CONFIG: Final[RetryConfig] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_PROFILE_VARIABLES: Final = ("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")


class NativeStore:
    """Reads object stores by ``obstore``, with Hadoop's settings."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        if find_spec("obstore") is None:
            missing_extra_error = MissingExtraError.of("spark")
            raise MissingExtraError(f"object stores are read by obstore; {missing_extra_error}")
        self._conf = conf
        self._stores: dict[str, S3Store | GCSStore] = {}
        self._pool = ThreadPoolExecutor(REQUEST_THREADS)
        self._lock = threading.Lock()
        self._expected_files: dict[FileStatus, None] = {}
        """Files announced by ``expect`` and not read yet, in order."""
        self._future_by_block: OrderedDict[tuple[FileStatus, int], Future[memoryview]] = (
            OrderedDict()
        )
        """(file, number) -> block, read or requested; the most recently used one is last."""
        self._held_bytes = 0

    # Names

    def folders_matching(self, uri: str) -> tuple[FileStatus, ...]:
        """The folders that a name or a pattern stands for.

        Raises:
            BadInputError: The store can't be asked; the message says why.
        """
        scheme, _, bucket_and_path = uri.partition("://")
        bucket, *path_parts = bucket_and_path.strip("/").split("/")
        folders = [f"{scheme}://{bucket}"]
        try:
            for path_part in path_parts:
                folders = list(self._folders_below(folders, path_part))
            return tuple(_folder_status(folder) for folder in folders if self._has_files(folder))
        except OSError as error:
            raise BadInputError(f"{uri}: {error}") from error

    def _folders_below(self, folders: Iterable[str], path_part: str) -> Iterator[str]:
        if not is_pattern(path_part):
            yield from (f"{folder}/{path_part}" for folder in folders)
            return
        pattern = regex_of(path_part)
        for folder in folders:
            for status in self.list_folder(folder):
                if status.is_folder and pattern.fullmatch(status.uri.rpartition("/")[2]):
                    yield status.uri

    def _has_files(self, uri: str) -> bool:
        import obstore

        with _raised_as_os_errors(uri):
            store, path = self._store_and_path(uri)
            object_pages = obstore.list(store, path, chunk_size=1)
            return any(
                object_meta["path"] != path
                for object_metas in object_pages
                for object_meta in object_metas
            )

    def files_below(self, uri: str) -> tuple[FileStatus, ...]:
        """All files below a folder.

        Raises:
            BadInputError: The store can't be asked.
        """
        import obstore

        try:
            with _raised_as_os_errors(uri):
                store, path = self._store_and_path(uri)
                object_metas = [
                    *chain.from_iterable(obstore.list(store, path, chunk_size=_KEYS_PER_PAGE))
                ]
        except OSError as error:
            raise BadInputError(f"{uri}: {error}") from error
        return _file_statuses(uri, object_metas)

    def list_folder(self, uri: str) -> tuple[FileStatus, ...]:
        """Files and folders in a folder.

        Raises:
            OSError: It can't be listed.
        """
        import obstore

        with _raised_as_os_errors(uri):
            store, path = self._store_and_path(uri)
            list_result = obstore.list_with_delimiter(store, path)
        folders = (
            _folder_status(_uri_in_same_bucket(uri, folder_prefix))
            for folder_prefix in list_result["common_prefixes"]
        )
        return (*folders, *_file_statuses(uri, list_result["objects"]))

    # Bytes

    def open(self, file: FileStatus, *, is_sequential: bool) -> ObjectFile:
        """An open file; only its first read sends a request."""
        return ObjectFile(
            self, file, reads_in_blocks=is_sequential or file.size <= SMALL_FILE_BYTES
        )

    def expect(self, files: Sequence[FileStatus]) -> None:
        """Announce files that will be read from beginning to end, in this order."""
        with self._lock:
            if not all(file in self._expected_files for file in files):
                self._expected_files = dict.fromkeys(files)
                self._request_ahead()

    def block(self, file: FileStatus, block_number: int) -> memoryview:
        """A block of a file. It also requests the next block, or the files announced after it.

        Raises:
            OSError: It can't be read.
        """
        with self._lock:
            if file in self._expected_files:
                earlier_files = takewhile(
                    lambda expected_file: expected_file != file, self._expected_files
                )
                for earlier_file in (*earlier_files, file):
                    del self._expected_files[earlier_file]
            block_future = self._request_block(file, block_number)
            if (block_number + 1) * BLOCK_BYTES < file.size:
                self._request_block(file, block_number + 1)
            self._request_ahead()
        return block_future.result()

    def part(self, file: FileStatus, position: int, byte_count: int) -> memoryview:
        """A range of a file's bytes, in a request of its own.

        Raises:
            OSError: They can't be read.
        """
        return memoryview(self._read_range(file.uri, position, byte_count))

    def _request_block(self, file: FileStatus, block_number: int) -> Future[memoryview]:
        key = file, block_number
        if key not in self._future_by_block:
            block_start = block_number * BLOCK_BYTES
            byte_count = min(BLOCK_BYTES, file.size - block_start)
            self._future_by_block[key] = self._pool.submit(self.part, file, block_start, byte_count)
            self._held_bytes += byte_count
        self._future_by_block.move_to_end(key)
        while self._held_bytes > CACHED_BYTES_MAX:
            (oldest_file, oldest_number), _ = self._future_by_block.popitem(last=False)
            self._held_bytes -= min(BLOCK_BYTES, oldest_file.size - oldest_number * BLOCK_BYTES)
        return self._future_by_block[key]

    def _request_ahead(self) -> None:
        requested_bytes = 0
        for file in islice(self._expected_files, REQUEST_THREADS):
            requested_bytes += min(file.size, BLOCK_BYTES)
            if requested_bytes > READ_AHEAD_BYTES_MAX:
                return
            if file.size:
                self._request_block(file, 0)

    def _read_range(self, uri: str, position: int, byte_count: int) -> Any:
        import obstore

        with _raised_as_os_errors(uri):
            store, path = self._store_and_path(uri)
            return obstore.get_range(store, path, start=position, length=byte_count)

    def _store_and_path(self, uri: str) -> tuple[S3Store | GCSStore, str]:
        scheme, _, bucket_and_path = uri.partition("://")
        bucket, _, path = bucket_and_path.partition("/")
        with self._lock:
            if bucket not in self._stores:
                self._stores[bucket] = store_of(scheme, bucket, self._conf)
        return self._stores[bucket], path.rstrip("/")


class ObjectFile:
    """An open file of an object store, read by ranges (``storage.regular_file.RangeFile``).

    Args:
        store: The store that sends the requests.
        file: The file's URI and size, as listed.
        reads_in_blocks: Reads take whole blocks, which are kept for the next reader.
    """

    def __init__(self, store: NativeStore, file: FileStatus, *, reads_in_blocks: bool) -> None:
        self._store = store
        self._file = file
        self._reads_blocks = reads_in_blocks
        self.size = file.size

    def read_into(self, view: memoryview, position: int) -> int:
        byte_count = max(0, min(len(view), self.size - position))
        if not byte_count:
            return 0
        if self._reads_blocks:
            block_number, block_offset = divmod(position, BLOCK_BYTES)
            block_part = self._store.block(self._file, block_number)[
                block_offset : block_offset + byte_count
            ]
        else:
            block_part = self._store.part(self._file, position, byte_count)
        view[: len(block_part)] = block_part
        return len(block_part)

    def close(self) -> None: ...


# Settings


def store_of(scheme: str, bucket: str, conf: Mapping[str, str]) -> S3Store | GCSStore:
    """The store client for a bucket, with Hadoop's settings.

    Raises:
        BadInputError: A setting makes no sense.
        MissingExtraError: Amazon's library is missing, which knows profiles and roles.
    """
    from obstore.exceptions import BaseError

    try:
        return _s3_store(bucket, conf) if scheme in S3_SCHEMES else _gcs_store(bucket, conf)
    except (ValueError, BaseError) as error:
        raise BadInputError(f"{scheme}://{bucket}: {_first_line(error)}") from error


def _s3_store(bucket_name: str, conf: Mapping[str, str]) -> S3Store:
    """The client for a bucket of S3. Hadoop's counterparts: S3AUtils.propagateBucketOptions,
    DefaultS3ClientFactory.
    """
    from obstore.store import S3Store

    def bucket_or_common_option(option_name: str) -> str | None:
        bucket_option = conf.get(f"fs.s3a.bucket.{bucket_name}.{option_name}")
        return (bucket_option or conf.get(f"fs.s3a.{option_name}") or "").strip() or None

    provider_names = bucket_or_common_option("aws.credentials.provider") or ""
    endpoint_url = urlsplit(
        _with_scheme(
            bucket_or_common_option("endpoint"),
            tls_option=bucket_or_common_option("connection.ssl.enabled"),
        )
    )
    access_key, secret_key, region = (
        bucket_or_common_option("access.key"),
        bucket_or_common_option("secret.key"),
        bucket_or_common_option("endpoint.region"),
    )
    if (access_key is None) != (secret_key is None):
        raise ValueError("fs.s3a.access.key and fs.s3a.secret.key go together")
    is_virtual = bucket_or_common_option("path.style.access") != "true" and not _is_address(
        endpoint_url.hostname
    )
    host_text = f"{bucket_name}.{endpoint_url.netloc}" if is_virtual else endpoint_url.netloc
    store_config: dict[str, Any] = {
        "endpoint": f"{endpoint_url.scheme}://{host_text}" if endpoint_url.netloc else None,
        "region": region,
        "virtual_hosted_style_request": is_virtual,
        "skip_signature": True
        if _ANONYMOUS_PROVIDER in provider_names and access_key is None
        else None,
    }
    credential_by_name = {
        "access_key_id": access_key,
        "secret_access_key": secret_key,
        "session_token": bucket_or_common_option("session.token"),
    }
    if "AssumedRole" in provider_names:
        store_config["credential_provider"] = _role_provider(
            credential_by_name,
            region=region,
            sts_endpoint=_with_scheme(bucket_or_common_option("assumed.role.sts.endpoint")) or None,
            RoleArn=bucket_or_common_option("assumed.role.arn"),
            RoleSessionName=bucket_or_common_option("assumed.role.session.name") or "txnsim",
            ExternalId=bucket_or_common_option("assumed.role.external.id"),
        )
    elif access_key is None and any(
        option_name in os.environ for option_name in _PROFILE_VARIABLES
    ):
        store_config["credential_provider"] = _profile_provider()
    else:
        store_config |= credential_by_name
    options = {
        option_name: option_value
        for option_name, option_value in store_config.items()
        if option_value is not None
    }
    client_config: ClientConfig = {"allow_http": endpoint_url.scheme == "http"}
    return S3Store(bucket_name, retry_config=_RETRY_CONFIG, client_options=client_config, **options)


def _role_provider(
    credential_by_name: Mapping[str, str | None],
    *,
    region: str | None,
    sts_endpoint: str | None,
    **role_arguments: str | None,
) -> Callable[[], Mapping[str, Any]]:
    """A credential provider that assumes a role, with the given keys or those of the
    environment.
    """
    boto_name_by_key = {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
    }
    boto_credentials = {
        boto_name_by_key.get(key_name, f"aws_{key_name}"): key_value
        for key_name, key_value in credential_by_name.items()
    }
    client = (
        _boto3()
        .Session(region_name=region, **boto_credentials)
        .client("sts", endpoint_url=sts_endpoint)
    )
    assume_role_arguments = {
        key_name: key_value
        for key_name, key_value in role_arguments.items()
        if key_value is not None
    }

    def provide() -> Mapping[str, Any]:
        credentials = client.assume_role(**assume_role_arguments)["Credentials"]
        return {
            "access_key_id": credentials["AccessKeyId"],
            "secret_access_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expires_at": credentials["Expiration"].astimezone(UTC),
        }

    return provide


def _profile_provider() -> Any:
    """A credential provider for the keys of an AWS profile."""
    _boto3()
    from obstore.auth.boto3 import Boto3CredentialProvider

    return Boto3CredentialProvider()


def _boto3() -> Any:
    try:
        import boto3
    except ImportError as error:
        raise MissingExtraError("profiles and roles of Amazon's take its library, boto3") from error
    return boto3


def _gcs_store(bucket_name: str, conf: Mapping[str, str]) -> GCSStore:
    """The client for a bucket of Google Cloud Storage. Counterpart: the connector's
    GoogleHadoopFileSystemConfiguration.
    """
    from obstore.store import GCSStore

    endpoint_url = _with_scheme(conf.get("fs.gs.storage.root.url"))
    store_config: dict[str, Any] = {
        "base_url": endpoint_url or None,
        "service_account": conf.get("fs.gs.auth.service.account.json.keyfile"),
        "skip_signature": conf.get("fs.gs.auth.type") == "UNAUTHENTICATED" or None,
    }
    options = {
        option_name: option_value
        for option_name, option_value in store_config.items()
        if option_value is not None
    }
    client_config: ClientConfig = {"allow_http": endpoint_url.startswith("http:")}
    return GCSStore(
        bucket_name, retry_config=_RETRY_CONFIG, client_options=client_config, **options
    )


def _with_scheme(endpoint_text: str | None, *, tls_option: str | None = None) -> str:
    """An address as a URL; empty if there is no address."""
    if not endpoint_text or "://" in endpoint_text:
        return endpoint_text or ""
    return f"{'http' if tls_option == 'false' else 'https'}://{endpoint_text}"


def _is_address(host: str | None) -> bool:
    """Whether a host is an IP address, below which buckets can't have names."""
    try:
        ip_address(host or "")
    except ValueError:
        return host == "localhost"
    return True


@contextmanager
def _raised_as_os_errors(uri: str) -> Iterator[None]:
    """Raise errors of a store as the OSError that reading a local file would raise, with the file's
    name.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (OSError, BaseError) as error:
        raise os_error(error, uri) from error


def os_error(error: Exception, uri: str) -> OSError:
    """The OSError for an error of ``obstore``, with the file's name."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)
    if isinstance(error, UnauthenticatedError):
        return PermissionError(errno.EACCES, _first_line(error), uri)
    if isinstance(error, PermissionDeniedError | PermissionError):
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), uri)
    return OSError(errno.EIO, _first_line(error), uri)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _uri_in_same_bucket(uri_in_bucket: str, path: str) -> str:
    """The URI of another path in the same bucket."""
    scheme, _, bucket_and_path = uri_in_bucket.partition("://")
    return f"{scheme}://{bucket_and_path.partition('/')[0]}/{path}"


def _folder_status(uri: str) -> FileStatus:
    return FileStatus(uri=uri, is_folder=True, size=0, modified_ns=0)


def _file_statuses(uri: str, object_metas: Sequence[ObjectMeta]) -> tuple[FileStatus, ...]:
    """The listed files, without the empty objects that some tools create for folders."""
    folder_paths = {object_meta["path"].rpartition("/")[0] for object_meta in object_metas}
    return tuple(
        FileStatus(
            uri=_uri_in_same_bucket(uri, object_meta["path"]),
            is_folder=False,
            size=object_meta["size"],
            modified_ns=int(object_meta["last_modified"].timestamp() * 1_000) * 1_000_000,
        )
        for object_meta in object_metas
        if object_meta["path"] not in folder_paths
    )
