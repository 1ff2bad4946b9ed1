"""Places that stand for those of a store; stores themselves: tests/spark/pipeline/test_stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim.storage.regular_file import RangeFile
from txnsim_spark.stores.mirror import Mirror
from txnsim_spark.stores.settings import StoreSettings
from txnsim_spark.stores.uris import FileStatus


class Fake:
    """A store that has names and sizes of files, without their contents."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = {f"s3a://b/kafka/{name.replace('_', '-')}": sizes[name] for name in sizes}
        self.listings = 0

    def folders_matching(self, uri: str) -> tuple[FileStatus, ...]:
        """The folder of this URI, if a file lies in it."""
        is_there = any(size_bytes.startswith(f"{uri}/") for size_bytes in self.sizes)
        return (self._status(uri, is_folder=True),) if is_there else ()

    def files_below(self, uri: str) -> tuple[FileStatus, ...]:
        self.listings += 1
        return tuple(
            self._status(size_bytes)
            for size_bytes in self.sizes
            if size_bytes.startswith(f"{uri}/")
        )

    def list_folder(self, uri: str) -> tuple[FileStatus, ...]:
        """The files that lie directly in the folder."""
        return tuple(file for file in self.files_below(uri) if "/" not in file.uri[len(uri) + 1 :])

    def open(self, file: FileStatus, *, is_sequential: bool) -> RangeFile:
        raise AssertionError(file)

    def expect(self, files: Sequence[FileStatus]) -> None:
        raise AssertionError(files)

    def _status(self, uri: str, *, is_folder: bool = False) -> FileStatus:
        size_bytes = self.sizes.get(uri, 0)
        return FileStatus(uri=uri, is_folder=is_folder, size=size_bytes, modified_ns=7_000_000_000)


def mirror_of(root: Path, fake_store: Fake) -> Mirror:
    """A mirror below a folder."""
    mirror = Mirror(StoreSettings(root=str(root)))
    mirror.__dict__["_store"] = fake_store
    return mirror


@pytest.mark.parametrize(
    ("uri", "location", "expected_text"),
    [
        ("s3a://logs/kafka/broker-1", "s3a/logs/kafka/broker-1", "s3a://logs/kafka/broker-1"),
        ("gs://logs/a/", "gs/logs/a", "gs://logs/a"),
    ],
)
def test_a_place_is_shown_as_the_store_has_it(
    uri: str, location: str, expected_text: str, tmp_path: Path
) -> None:
    mirror = mirror_of(tmp_path, Fake())
    path = mirror.path_of(uri)
    assert path == tmp_path / location
    assert mirror.has(path)
    assert (
        mirror.with_store_names(f"{path}/a: torn; {path}")
        == f"{expected_text}/a: torn; {expected_text}"
    )


def test_other_places_are_left_as_they_are(tmp_path: Path) -> None:
    mirror = mirror_of(tmp_path / "root", Fake())
    assert not mirror.has(tmp_path)
    assert mirror.with_store_names(str(tmp_path)) == str(tmp_path)
    mirror.fill([tmp_path / "none"])


def test_names_sizes_and_times_are_those_of_the_store_now(tmp_path: Path) -> None:
    fake_store = Fake(a_0=5, b_0=0)
    mirror = mirror_of(tmp_path, fake_store)
    (local_folder,) = mirror.local_folders(["s3a://b/kafka"])
    expected_files = {
        path.name: (path.stat().st_size, path.stat().st_mtime) for path in local_folder.iterdir()
    }
    assert expected_files == {"a-0": (5, 7.0), "b-0": (0, 7.0)}
    fake_store.sizes = {"s3a://b/kafka/a-0": 9}
    mirror.local_folders(["s3a://b/kafka"])
    assert {path.name: path.stat().st_size for path in local_folder.iterdir()} == {"a-0": 9}


def test_a_folder_that_was_planned_on_this_machine_is_not_listed_again(tmp_path: Path) -> None:
    planned_mirror = mirror_of(tmp_path, Fake(a_0=5))
    (local_folder,) = planned_mirror.local_folders(["s3a://b/kafka"])
    fake_store = Fake(a_0=9)
    mirror = Mirror(planned_mirror.settings)
    mirror.__dict__["_store"] = fake_store
    mirror.fill([local_folder])
    assert fake_store.listings == 0
    other_mirror = Mirror(
        StoreSettings(root=str(tmp_path), listed_ms=planned_mirror.settings.listed_ms + 1)
    )
    other_mirror.__dict__["_store"] = fake_store
    for _ in range(2):
        other_mirror.fill([local_folder])
    assert fake_store.listings == 1
    assert (local_folder / "a-0").stat().st_size == 9


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="s3a://b/none is no directory"):
        mirror_of(tmp_path, Fake()).local_folders(["s3a://b/none"])
