"""Mirrors a store's files as empty local files of the same names, sizes and times. Planning reads
only these, so it need not know that a directory is in a store. ``s3a://bucket/logs/broker-1`` is
mirrored at ``ROOT/s3a/bucket/logs/broker-1``, on the driver and on every worker. Output has the
store's names (``with_store_names``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from txnsim.errors import BadInputError
from txnsim.runtime.wall_clock import wall_ms
from txnsim.storage.names import PartitionDirectory
from txnsim.storage.regular_file import MOUNTS, RangeFile
from txnsim_spark.stores._native import REQUEST_THREADS, NativeStore
from txnsim_spark.stores.settings import StoreSettings
from txnsim_spark.stores.uris import FileStatus

LISTED_NAME: Final = ".listed"
"""File in the mirror's root; its time says when the planning process last listed the store."""


class Store(Protocol):
    """What the mirror needs of a store (``_native``)."""

    def folders_matching(self, uri: str) -> tuple[FileStatus, ...]: ...

    def files_below(self, uri: str) -> tuple[FileStatus, ...]:
        """All files below a folder; raises BadInputError with the reason if that fails."""
        ...

    def list_folder(self, uri: str) -> tuple[FileStatus, ...]:
        """Files and folders in a folder; raises OSError with the reason if that fails."""
        ...

    def open(self, file: FileStatus, *, is_sequential: bool) -> RangeFile: ...

    def expect(self, files: Sequence[FileStatus]) -> None:
        """Files that are going to be read from beginning to end, in this order."""
        ...


class Mirror:
    """The mirrored files of a store: those in the folders that were listed so far."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._listed_folders: set[Path] = set()
        self._known_files: dict[str, FileStatus] = {}
        """Local path -> status of the file in the store."""
        self.pattern = rf"{re.escape(settings.root)}/([^/\s]+)/"
        """Matches a mirrored path: scheme, then bucket."""

    @property
    def settings(self) -> StoreSettings:
        return self._settings

    @cached_property
    def _store(self) -> Store:
        return NativeStore(self._settings.conf)

    # Places

    def path_of(self, uri: str) -> Path:
        """The mirrored path of a file or folder."""
        return Path(self._path_text_of(uri))

    def _path_text_of(self, uri: str) -> str:
        scheme, _, path = uri.partition("://")
        return "/".join((self._settings.root, scheme, path.rstrip("/")))

    def with_store_names(self, text: str) -> str:
        """The text, with the store's URIs instead of mirrored paths."""
        return re.sub(self.pattern, r"\1://", text)

    def _uri_of(self, path: Path) -> str:
        return self.with_store_names(str(path))

    def has(self, path: Path) -> bool:
        """Whether a path lies below the mirror's root."""
        return str(path).startswith(f"{self._settings.root}/")

    # Filling

    def local_folders(self, uris: Iterable[str]) -> tuple[Path, ...]:
        """The mirrored folders for paths and patterns, with all that is below them, and with the
        small files around a replica's folder.

        Raises:
            BadInputError: The store can't be asked, or there is nothing of this name.
        """
        start_ms = wall_ms()
        self.drop_older_listings(start_ms)
        uri_by_folder: dict[Path, str] = {}
        for uri in uris:
            matching_uris = sorted(uri.uri for uri in self._store.folders_matching(uri))
            if not matching_uris:
                raise BadInputError(f"{uri} is no directory, and there is none of this pattern")
            uri_by_folder |= {self.path_of(uri): uri for uri in matching_uris}
        with ThreadPoolExecutor(REQUEST_THREADS) as pool:
            statuses_by_folder = pool.map(self._store.files_below, uri_by_folder.values())
            for folder, statuses in zip(uri_by_folder, statuses_by_folder, strict=True):
                self._take_listing(folder, statuses)
        for folder in uri_by_folder:
            if PartitionDirectory.parse(folder) is not None:
                self._fill_folder(folder.parent)
        (Path(self._settings.root) / LISTED_NAME).write_text(str(start_ms))
        return tuple(uri_by_folder)

    def fill(self, folders: Iterable[Path]) -> None:
        """Mirror on this machine the folders that the planning process has listed.

        Raises:
            OSError: The store can't be asked.
        """
        for folder in folders:
            if not self.has(folder) or folder in self._listed_folders:
                continue
            if not (self._is_planned_here and folder.is_dir()):
                self._fill_folder(folder)
            self._listed_folders.add(folder)

    def drop_older_listings(self, listed_ms: int) -> None:
        """Drop all listings made before ``listed_ms``; the store is asked again."""
        if listed_ms > self._settings.listed_ms:
            self._settings = msgspec.structs.replace(self._settings, listed_ms=listed_ms)
            self._listed_folders.clear()
            self._known_files.clear()
            self.__dict__.pop("_is_planned_here", None)

    @cached_property
    def _is_planned_here(self) -> bool:
        """Whether the planning process runs on this machine."""
        try:
            noted_ms = int((Path(self._settings.root) / LISTED_NAME).read_text())
        except OSError:
            return False
        return noted_ms >= self._settings.listed_ms

    def _fill_folder(self, folder: Path) -> None:
        statuses = self._store.list_folder(self._uri_of(folder))
        self._take_listing(folder, statuses, is_deep=False)

    def _take_listing(
        self, folder: Path, statuses: Iterable[FileStatus], *, is_deep: bool = True
    ) -> None:
        """Make a mirrored folder hold exactly the files that the store lists."""
        folder.mkdir(parents=True, exist_ok=True)
        stale_paths = set(_files_below(str(folder), is_deep=is_deep))
        # No reader knows a folder before its first listing, so its files need no exchange.
        make_file = _replace_file if stale_paths else _make_file
        made_folders: set[str] = set()
        for status in statuses:
            path = self._path_text_of(status.uri)
            stale_paths.discard(path)
            parent_folder = path if status.is_folder else path.rpartition("/")[0]
            if parent_folder not in made_folders:
                os.makedirs(parent_folder, exist_ok=True)
                made_folders.add(parent_folder)
            if not status.is_folder:
                make_file(path, status)
                self._known_files[path] = status
        for path in stale_paths:
            Path(path).unlink(missing_ok=True)
            self._known_files.pop(path, None)

    # Reading

    def open(self, path: Path, is_sequential: bool) -> RangeFile:  # noqa: FBT001 - Mounted's
        """Open the store's file for a mirrored path.

        Raises:
            OSError: It can't be opened.
        """
        file = self._status_of(path)
        return self._store.open(file, is_sequential=is_sequential)

    def expect(self, paths: Sequence[Path]) -> None:
        """Announce files that will be read from beginning to end, in this order."""
        files: list[FileStatus] = []
        for path in paths:
            with suppress(OSError):  # gone: told by who opens it
                files.append(self._status_of(path))
        if files:
            self._store.expect(files)

    def _status_of(self, path: Path) -> FileStatus:
        path_text = str(path)
        if path_text not in self._known_files:
            self.fill([path.parent])
            stat_result = path.stat()
            self._known_files[path_text] = FileStatus(
                uri=self._uri_of(path),
                is_folder=False,
                size=stat_result.st_size,
                modified_ns=stat_result.st_mtime_ns,
            )
        return self._known_files[path_text]


def _replace_file(path: str, status: FileStatus) -> None:
    """Give a mirrored file the size and time that the store lists: put a new file in its place, in
    one step.
    """
    with suppress(FileNotFoundError):
        stat_result = os.stat(path)
        if (stat_result.st_size, stat_result.st_mtime_ns) == (status.size, status.modified_ns):
            return
    new_path = f"{path}.{os.getpid()}"
    _make_file(new_path, status)
    os.rename(new_path, path)


def _make_file(path: str, status: FileStatus) -> None:
    # Not even its owner may read it: what forgets to ask the store is refused, not misled.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o200)
    try:
        os.truncate(descriptor, status.size)
        os.utime(descriptor, ns=(status.modified_ns, status.modified_ns))
    finally:
        os.close(descriptor)


def _files_below(folder: str, *, is_deep: bool) -> Iterator[str]:
    with os.scandir(folder) as folder_entries:
        for folder_entry in folder_entries:
            if not folder_entry.is_dir():
                yield folder_entry.path
            elif is_deep:
                yield from _files_below(folder_entry.path, is_deep=True)


# Of this process

_MIRROR_BY_ROOT: dict[str, Mirror] = {}
"""Root -> the mirror mounted there."""


def mount(settings: StoreSettings) -> Mirror:
    """Create the mirror for these settings. From then on files below its root are read from the
    store.
    """
    mirror = _MIRROR_BY_ROOT.get(settings.root)
    if mirror is None or not mirror.settings.reaches_as(settings):
        mirror = _MIRROR_BY_ROOT[settings.root] = Mirror(settings)
        MOUNTS.mount(Path(settings.root), mirror)
    mirror.drop_older_listings(settings.listed_ms)
    return mirror


def mounted_settings() -> tuple[StoreSettings, ...]:
    """The settings that a worker has to mount, so that it reads what this process reads."""
    return tuple(mirror.settings for mirror in _MIRROR_BY_ROOT.values())


def mount_all(settings: Iterable[StoreSettings]) -> None:
    """Mount the stores of another process."""
    for store_settings in settings:
        mount(store_settings)


def is_mirrored(path: Path) -> bool:
    return any(mirror.has(path) for mirror in _MIRROR_BY_ROOT.values())


@contextmanager
def overlapping_map(paths: Iterable[str]) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield ``map``, which uses a thread pool if a path is in a store, so that requests overlap."""
    if not any(is_mirrored(Path(path)) for path in paths):
        yield map
        return
    with ThreadPoolExecutor(REQUEST_THREADS) as pool:
        yield pool.map


def with_store_names(text: str) -> str:
    """The text, with stores' URIs instead of mirrored paths."""
    for mirror in _MIRROR_BY_ROOT.values():
        text = mirror.with_store_names(text)
    return text
