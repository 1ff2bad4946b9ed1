"""S3 and Google's Cloud Storage by ``pyarrow.fs``: no JVM, no file of this machine between.

Settings are those of Hadoop's connectors, so that one configuration serves Spark's own sources and
this one: ``fs.s3a.…``, also ``fs.s3a.bucket.NAME.…``, and ``fs.gs.…``. What they leave open comes
from where Amazon's and Google's own tools look for it: environment, profile, metadata service.

A request to a store takes tens of milliseconds, so what is going to be read is asked for early, by
threads: the next block of a file that is read from beginning to end, and the first blocks of the
files behind it (``expect``).
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from txnsim.errors import BadInputError
from txnsim.pipeline.stores.uris import S3, Status, is_pattern, regex_of

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo, FileSystem

BLOCK_BYTES: Final = 8 << 20
AHEAD_BYTES: Final = 64 << 20
"""So much of files that come next is held at most."""
RECENT_BYTES: Final = 32 << 20
SMALL_BYTES: Final = 1 << 20
"""A file of so much is read at once, wherever somebody looks."""
THREADS: Final = 32
"""Requests that wait at a time."""
_ANONYMOUS: Final = "AnonymousAWSCredentialsProvider"


class NativeStore:
    """Object stores, as settings say how to reach them."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._conf = conf
        self._systems: dict[str, FileSystem] = {}
        self._pool = ThreadPoolExecutor(THREADS)
        self._lock = threading.Lock()
        self._ahead = _Ahead(lambda file: self._recent.get(file) or self._file(file))
        self._recent: OrderedDict[Status, ObjectFile] = OrderedDict()
        """Files of one block: many are opened several times, one after the other."""
        self._recent_bytes = 0

    # Names

    def globbed(self, uri: str) -> tuple[Status, ...]:
        """The folders that a name or a pattern stands for.

        Raises:
            BadInputError: The store can't be asked; the message says why.
        """
        scheme, _, rest = uri.partition("://")
        bucket, *parts = rest.strip("/").split("/")
        found = [f"{scheme}://{bucket}"]
        try:
            for part in parts:
                found = list(self._below(found, part))
            asked = self._infos(found)
        except OSError as error:
            raise BadInputError(f"{uri}: {error}") from error
        return tuple(one for one in asked if one.is_folder)

    def _below(self, folders: Iterable[str], part: str) -> Iterator[str]:
        if not is_pattern(part):
            yield from (f"{folder}/{part}" for folder in folders)
            return
        wanted = regex_of(part)
        for folder in folders:
            for one in self.listed(folder):
                if one.is_folder and wanted.fullmatch(one.uri.rpartition("/")[2]):
                    yield one.uri

    def _infos(self, uris: Iterable[str]) -> Iterator[Status]:
        for uri in uris:
            system, path = self._at(uri)
            yield _status(uri, system.get_file_info(path))

    def below(self, uri: str) -> tuple[Status, ...]:
        """All files below a folder.

        Raises:
            BadInputError: The store can't be asked.
        """
        try:
            return self._listed(uri, is_recursive=True)
        except OSError as error:
            raise BadInputError(f"{uri}: {error}") from error

    def listed(self, uri: str) -> tuple[Status, ...]:
        """Files and folders in a folder.

        Raises:
            OSError: It can't be listed.
        """
        return self._listed(uri, is_recursive=False)

    def _listed(self, uri: str, *, is_recursive: bool) -> tuple[Status, ...]:
        from pyarrow.fs import FileSelector

        system, path = self._at(uri)
        found = system.get_file_info(FileSelector(path, recursive=is_recursive))
        scheme = uri.partition("://")[0]
        return tuple(_status(f"{scheme}://{one.path}", one) for one in found)

    # Bytes

    def open(self, file: Status, *, is_sequential: bool) -> ObjectFile:
        """A file; the first read asks for it.

        Raises:
            BadInputError: The settings make no sense.
        """
        with self._lock:
            is_known = file in self._recent
            found = self._recent.pop(file, None) or self._ahead.taken(file)
            if found is None:
                found = self._file(file, is_sequential=is_sequential)
            if file.size <= BLOCK_BYTES and found.is_held:
                self._recent[file] = found
                self._recent_bytes += 0 if is_known else file.size
                while self._recent_bytes > RECENT_BYTES:
                    self._recent_bytes -= self._recent.popitem(last=False)[0].size
        return found

    def expect(self, files: Sequence[Status]) -> None:
        """Some files are going to be read, from beginning to end and in this order."""
        with self._lock:
            self._ahead.begin(files)

    def _file(self, file: Status, *, is_sequential: bool = True) -> ObjectFile:
        system, path = self._at(file.uri)
        is_held = is_sequential or file.size <= SMALL_BYTES
        pool = self._pool if is_held else None
        return ObjectFile(lambda: system.open_input_file(path), pool, file)

    def _at(self, uri: str) -> tuple[FileSystem, str]:
        scheme, _, path = uri.partition("://")
        bucket = path.partition("/")[0]
        if bucket not in self._systems:
            self._systems[bucket] = file_system_of(scheme, bucket, self._conf)
        return self._systems[bucket], path.rstrip("/")


class ObjectFile:
    """An open file of a store (``storage.regular_file.RangeFile``).

    Args:
        opened: Opens it.
        pool: Reads its blocks, one ahead; None: each range is read when it is asked for.
        file: Its name and size.
    """

    def __init__(
        self, opened: Callable[[], NativeFile], pool: ThreadPoolExecutor | None, file: Status
    ) -> None:
        self._open = opened
        self._pool = pool
        self._uri = file.uri
        self.size = file.size
        self._lock = threading.Lock()
        self._file: NativeFile | None = None
        self._blocks: dict[int, Future[memoryview]] = {}

    def read_into(self, view: memoryview, position: int) -> int:
        """A range of it."""
        count = max(0, min(len(view), self.size - position))
        if not count:
            return 0
        try:
            if self._pool is None:
                found = self._range(position, count)
            else:
                number, at = divmod(position, BLOCK_BYTES)
                found = self._block(number)[at : at + count]
        except OSError as error:
            raise os_error(error, self._uri) from error
        view[: len(found)] = found
        return len(found)

    @property
    def is_held(self) -> bool:
        """Whether what was read of it is kept for the next reader."""
        return self._pool is not None

    def begin(self) -> None:
        """It is going to be read."""
        if self.size:
            self._ask(0)

    def close(self) -> None:
        """It is read no more, unless another one opens it."""
        if self.size > BLOCK_BYTES:
            self.forget()

    def forget(self) -> None:
        """Nobody is going to read it."""
        for block in self._blocks.values():
            block.cancel()
        self._blocks.clear()

    def _block(self, number: int) -> memoryview:
        for passed in [one for one in self._blocks if one < number]:
            self._blocks.pop(passed).cancel()
        self._ask(number)
        if (number + 1) * BLOCK_BYTES < self.size:
            self._ask(number + 1)
        return self._blocks[number].result()

    def _ask(self, number: int) -> None:
        if number not in self._blocks:
            assert self._pool is not None
            start = number * BLOCK_BYTES
            count = min(BLOCK_BYTES, self.size - start)
            self._blocks[number] = self._pool.submit(self._range, start, count)

    def _range(self, position: int, count: int) -> memoryview:
        with self._lock:
            if self._file is None:
                self._file = self._open()
        return memoryview(self._file.read_at(count, position))


class _Ahead:
    """Files that are going to be read, the next ones of them asked for already."""

    def __init__(self, open_one: Callable[[Status], ObjectFile]) -> None:
        self._open = open_one
        self._files: Sequence[Status] = ()
        self._numbers: dict[Status, int] = {}
        self._next = 0
        """Number of the first one that is not asked for."""
        self._asked: dict[int, ObjectFile] = {}

    def begin(self, files: Sequence[Status]) -> None:
        """These come next; others do not, unless these are among them."""
        if files and all(self._numbers.get(one, -1) >= self._done for one in files):
            return
        self._pass(self._next)
        self._files = files
        self._numbers = {one: number for number, one in enumerate(files)}
        self._next = 0
        self._ask()

    def taken(self, file: Status) -> ObjectFile | None:
        """A file that was asked for; those before it were passed by."""
        number = self._numbers.get(file)
        if number is None:
            return None
        found = self._asked.pop(number, None)
        self._pass(number)
        self._next = max(self._next, number + 1)
        self._ask()
        return found

    @property
    def _done(self) -> int:
        return self._next - len(self._asked)

    def _pass(self, number: int) -> None:
        for passed in [one for one in self._asked if one < number]:
            self._asked.pop(passed).forget()

    def _ask(self) -> None:
        held = sum(min(one.size, BLOCK_BYTES) for one in self._asked.values())
        while self._next < len(self._files) and held < AHEAD_BYTES and len(self._asked) < THREADS:
            file = self._asked[self._next] = self._open(self._files[self._next])
            file.begin()
            held += min(file.size, BLOCK_BYTES)
            self._next += 1


# Settings


def file_system_of(scheme: str, bucket: str, conf: Mapping[str, str]) -> FileSystem:
    """What reads a bucket, as Hadoop's settings say.

    Raises:
        BadInputError: A setting makes no sense.
    """
    from pyarrow import ArrowException

    try:
        return _s3(bucket, conf) if scheme in S3 else _gcs(conf)
    except (ValueError, OSError, ArrowException) as error:
        raise BadInputError(f"{scheme}://{bucket}: {error}") from error


def _s3(bucket: str, conf: Mapping[str, str]) -> FileSystem:
    """Hadoop's counterpart: S3AUtils.propagateBucketOptions, DefaultS3ClientFactory."""
    from pyarrow.fs import S3FileSystem

    def told(name: str) -> str | None:
        own = conf.get(f"fs.s3a.bucket.{bucket}.{name}")
        return (own or conf.get(f"fs.s3a.{name}") or "").strip() or None

    providers = told("aws.credentials.provider") or ""
    endpoint = urlsplit(_with_scheme(told("endpoint"), is_tls=told("connection.ssl.enabled")))
    key, secret, token = told("access.key"), told("secret.key"), told("session.token")
    role = told("assumed.role.arn") if "AssumedRole" in providers else None
    if role is not None:
        # The role is assumed with the keys of the environment, and asked for at its address.
        asked = {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_SESSION_TOKEN": token,
            "AWS_ENDPOINT_URL_STS": _with_scheme(told("assumed.role.sts.endpoint")),
        }
        os.environ.update({name: value for name, value in asked.items() if value})
        key = secret = token = None
    is_anonymous = _ANONYMOUS in providers and key is None
    is_virtual = told("path.style.access") != "true" and not _is_address(endpoint.hostname)
    return S3FileSystem(
        access_key=key,
        secret_key=secret,
        session_token=token,
        anonymous=is_anonymous,
        role_arn=role,
        session_name=None if role is None else told("assumed.role.session.name"),
        external_id=None if role is None else told("assumed.role.external.id"),
        region=told("endpoint.region"),
        scheme=endpoint.scheme or "https",
        endpoint_override=endpoint.netloc or None,
        force_virtual_addressing=bool(endpoint.netloc) and is_virtual,
    )


def _gcs(conf: Mapping[str, str]) -> FileSystem:
    """Counterpart: the Cloud Storage connector's GoogleHadoopFileSystemConfiguration."""
    from pyarrow.fs import GcsFileSystem

    endpoint = urlsplit(_with_scheme(conf.get("fs.gs.storage.root.url")))
    key_file = conf.get("fs.gs.auth.service.account.json.keyfile")
    if key_file:
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = key_file
    return GcsFileSystem(
        anonymous=conf.get("fs.gs.auth.type") == "UNAUTHENTICATED",
        scheme=endpoint.scheme or "https",
        endpoint_override=endpoint.netloc or None,
        project_id=conf.get("fs.gs.project.id"),
    )


def _with_scheme(endpoint: str | None, *, is_tls: str | None = None) -> str:
    """An address as a URL; empty where there is none."""
    if not endpoint or "://" in endpoint:
        return endpoint or ""
    return f"{'http' if is_tls == 'false' else 'https'}://{endpoint}"


def _is_address(host: str | None) -> bool:
    """Whether a host has no names below it, for buckets."""
    try:
        ip_address(host or "")
    except ValueError:
        return host == "localhost"
    return True


def os_error(error: OSError, uri: str) -> OSError:
    """What ``pyarrow`` raised, with its kind and the file's name."""
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)
    if isinstance(error, PermissionError) or "ACCESS_DENIED" in text:
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), uri)
    return OSError(errno.EIO, text.partition("\n")[0], uri)


def _status(uri: str, info: FileInfo) -> Status:
    from pyarrow.fs import FileType

    return Status(
        uri=uri,
        is_folder=info.type == FileType.Directory,
        size=info.size or 0,
        modified_ns=info.mtime_ns or 0,
    )
