"""The file that says that the cluster is ready."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from txnsim.cli import ready_file
from txnsim.errors import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_written_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_text("of before, and longer")
    ready_file.check(path)
    ready_file.write(path, b"{}", is_secret=False)
    assert path.read_bytes() == b"{}"
    assert list(tmp_path.iterdir()) == [path]


def test_with_a_token_it_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.touch(mode=0o666)
    ready_file.write(path, b"{}", is_secret=True)
    assert mode(path) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere", tmp_path / "ready"
    link.symlink_to(target)
    ready_file.check(link)
    ready_file.write(link, b"{}", is_secret=False)
    assert link.is_symlink()
    assert target.read_bytes() == b"{}"


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path, *, is_link: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = pipe
    if is_link:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ready_file.check(path)
        ready_file.write(path, b"{}", is_secret=True)
        assert os.read(reader, 10) == b"{}"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_missing_folder_and_a_folder_are_told_before_anything_starts(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "ready"
    with pytest.raises(ConfigError, match=r"--ready-file .*: there is no directory .*missing"):
        ready_file.check(missing)
    with pytest.raises(ConfigError, match=r"--ready-file .*: is a directory"):
        ready_file.check(tmp_path)


def test_a_folder_that_goes_away_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--ready-file .*ready: No such file or directory"):
        ready_file.write(tmp_path / "missing" / "ready", b"{}", is_secret=False)


OURS = b'{"bootstrap":"127.0.0.1:1","http":null,"pid":%d}'


def test_what_a_run_before_has_left_is_removed(tmp_path: Path) -> None:
    path, link = tmp_path / "ready", tmp_path / "link"
    link.symlink_to(path)
    for name in (path, link):
        path.write_bytes(OURS % 1)
        ready_file.remove_old(name)
        assert not path.exists()
    ready_file.remove_old(path)


def test_at_the_end_only_our_own_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_bytes(OURS % 1)
    ready_file.remove_ours(path)
    assert path.exists()
    path.write_bytes(OURS % os.getpid())
    ready_file.remove_ours(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"precious",
        b"[1]",
        b'{"pid": 1}',
        b"\xff",
        b'{"bootstrap":"a","http":1,"pid":1}' * 50_000,
    ],
)
def test_what_is_not_ours_is_never_removed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    ready_file.remove_old(path)
    assert path.read_bytes() == content
    ready_file.remove_old(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ready_file.remove_old(pipe)
    assert pipe.exists()


def test_a_folder_that_may_not_be_written_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ready"
    path.write_bytes(OURS % 1)

    def refuse(_self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        ready_file.remove_old(path)
