"""Names, sizes and times of a store's files as local files without content, so that planning, which
goes by these alone, need not know where a directory lies. What is in a file comes from the store
when somebody opens it (``storage.regular_file.mount``).

``s3a://bucket/logs/broker-1`` stands at ``ROOT/s3a/bucket/logs/broker-1``, on the driver and on
every worker. Output for people has the store's names (``shown``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from txnsim.errors import BadInputError
from txnsim.pipeline.hadoop.gateway import Gateway, Status, launched, of_session
from txnsim.pipeline.hadoop.settings import HadoopSettings
from txnsim.storage import names
from txnsim.storage.regular_file import RangeFile, mount

NO_AUTHORITY: Final = "-"
"""Stands for the missing one of ``file:///``."""


class Mirror:
    """A store's files as far as somebody asked for them."""

    def __init__(self, settings: HadoopSettings, gateway: Callable[[], Gateway]) -> None:
        self._settings = settings
        self._new_gateway = gateway
        self._known: Gateway | None = None
        # The scheme; an authority follows, or NO_AUTHORITY, which is dropped.
        self.pattern = rf"{re.escape(settings.root)}/([^/\s]+)/(?:{NO_AUTHORITY}/)?"

    @property
    def settings(self) -> HadoopSettings:
        """What another process needs to have the same."""
        return self._settings

    @property
    def _gateway(self) -> Gateway:
        if self._known is None:
            self._known = self._new_gateway()
        return self._known

    # Places

    def place_of(self, uri: str) -> Path:
        """Where a file or folder stands."""
        url = urlsplit(uri)
        _, _, rest = uri.partition(":")
        path = rest[2 + len(url.netloc) :] if rest.startswith("//") else rest
        folder = Path(self._settings.root, url.scheme, url.netloc or NO_AUTHORITY)
        return folder / path.strip("/")

    def shown(self, text: str) -> str:
        """A text with the store's names."""
        return re.sub(self.pattern, self._begin, text)

    def _begin(self, found: re.Match[str]) -> str:
        return f"{found[1]}:///" if found[0].endswith(f"/{NO_AUTHORITY}/") else f"{found[1]}://"

    def _uri_of(self, place: Path) -> str:
        return self.shown(str(place))

    # Filling

    def located(self, uris: Iterable[str]) -> tuple[Path, ...]:
        """The folders that paths and patterns stand for, with all that is below them, and the notes
        around a replica's folder.

        Raises:
            BadInputError: The store can't be asked, or there is nothing of this name.
        """
        found: list[Path] = []
        for uri in uris:
            folders = [one for one in self._gateway.globbed(uri) if one.is_folder]
            if not folders:
                raise BadInputError(f"{uri} is no directory, and there is none of this pattern")
            for folder in sorted(folders, key=lambda one: one.uri):
                place = self.place_of(folder.uri)
                self._make_folder(place)
                for status in self._gateway.below(folder.uri):
                    self._make(status)
                if names.topic_partition_of(place.name) is not None:
                    self._fill(place.parent)
                found.append(place)
        return tuple(dict.fromkeys(found))

    def fill(self, folders: Iterable[Path]) -> None:
        """Have the names in folders at hand, where this process has not asked for them yet.

        Raises:
            OSError: The store can't be asked.
        """
        for folder in folders:
            if self.has(folder) and not folder.is_dir():
                self._fill(folder)

    def has(self, place: Path) -> bool:
        """Whether it stands for something of a store."""
        return str(place).startswith(f"{self._settings.root}/")

    def _fill(self, folder: Path) -> None:
        listed = self._gateway.listed(self._uri_of(folder))
        self._make_folder(folder)
        for status in listed:
            self._make(status)

    def _make_folder(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)

    def _make(self, status: Status) -> None:
        place = self.place_of(status.uri)
        if status.is_folder:
            self._make_folder(place)
            return
        self._make_folder(place.parent)
        fresh = place.with_name(f".{place.name}.{os.getpid()}")
        # Not even its owner may read it: what forgets to ask the store is refused, not misled.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT, 0o200)
        try:
            os.truncate(descriptor, status.size)
            os.utime(descriptor, ns=(status.modified_ms * 1_000_000,) * 2)
        finally:
            os.close(descriptor)
        os.rename(fresh, place)

    def open(self, place: Path, is_sequential: bool) -> RangeFile:  # noqa: FBT001 - OpenThere
        """What a place stands for, to be read.

        Raises:
            OSError: It can't be.
        """
        self.fill([place.parent])
        size = place.stat().st_size
        return self._gateway.open(self._uri_of(place), size, is_sequential=is_sequential)


# Of this process

_HERE: dict[str, Mirror] = {}
"""Root -> what is mounted there: one where a process reads for one session."""


def mounted(settings: HadoopSettings) -> Mirror:
    """The mirror of these settings; from now on files below its root are read from the store."""
    known = _HERE.get(settings.root)
    if known is None or known.settings != settings:
        known = _HERE[settings.root] = Mirror(settings, lambda: of_session() or launched(settings))
        mount(Path(settings.root), known.open)
    return known


def carried() -> tuple[HadoopSettings, ...]:
    """What a task has to mount on a worker, so that it reads what this process reads."""
    return tuple(mirror.settings for mirror in _HERE.values())


def carry(settings: Iterable[HadoopSettings]) -> None:
    """Mount what another process has."""
    for one in settings:
        mounted(one)


def is_mirrored(path: Path) -> bool:
    """Whether a path stands for one in a store."""
    return any(mirror.has(path) for mirror in _HERE.values())


def fill(folders: Iterable[Path]) -> None:
    """Have the names in folders at hand, of those that stand for one in a store.

    Raises:
        OSError: The store can't be asked.
    """
    for folder in folders:
        for mirror in _HERE.values():
            mirror.fill([folder])


def shown(text: str) -> str:
    """A text with the stores' names."""
    for mirror in _HERE.values():
        text = mirror.shown(text)
    return text
