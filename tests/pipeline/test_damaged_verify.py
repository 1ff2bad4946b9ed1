"""``logs verify`` on damaged directories (``tests.pipeline.damaged``), in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.pipeline.damaged import files
from tests.pipeline.damaged.make import unpacked
from tests.pipeline.damaged.recipes import QUIET, SPREAD, made, variants
from tests.support.engines import verify_here
from txnsim.cli.main import main
from txnsim.pipeline.soundness.verify import plan
from txnsim.pipeline.soundness.violations import Invariant, Severity, Violation

VARIANTS: Final = {one.name: one for one in variants()}
LINES_MAX: Final = 6
"""That one flipped bit may give."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept directory as files; not to be changed."""
    return unpacked(tmp_path_factory.mktemp("kept"))


def found_in(log_dir: Path) -> list[Violation]:
    return verify_here(plan([log_dir]))


def errors_in(log_dir: Path) -> list[Violation]:
    return [one for one in found_in(log_dir) if one.severity is Severity.ERROR]


@pytest.mark.parametrize("stage", ["clean", "killed"])
def test_what_a_real_broker_left_is_sound(kept: Path, stage: str) -> None:
    assert errors_in(kept / stage) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["clean/control-type-unknown", "killed/control-type-unknown-early"]
)
def test_a_control_record_of_an_unknown_type_is_an_error(
    kept: Path, tmp_path: Path, name: str
) -> None:
    found = errors_in(made(VARIANTS[name], kept, tmp_path / "b"))
    assert Invariant.UNREADABLE_MARKER in {one.rule for one in found}
    (told,) = [one for one in found if one.rule is Invariant.UNREADABLE_MARKER]
    assert told.found == "a control record of type 99"


@pytest.mark.slow
def test_one_flipped_bit_gives_few_lines(kept: Path, tmp_path: Path) -> None:
    """In every sixth byte of a segment."""
    log_dir = made(VARIANTS["killed/untouched"], kept, tmp_path / "b")
    for other in log_dir.iterdir():
        if other.is_dir() and other.name not in (QUIET, SPREAD):
            files.to_itself(other)
    expected = len(found_in(log_dir))
    path = files.logs(log_dir / QUIET)[1]
    content = path.read_bytes()
    silent = []
    for at in range(0, len(content), 6):
        files.flip(path, at)
        more = len(found_in(log_dir)) - expected
        assert more <= LINES_MAX, at
        if not more:
            silent.append(at)
        path.write_bytes(content)
    assert silent == []


UNREADABLE: Final = {
    "clean/segment-is-fifo": "a named pipe, not a file",
    "clean/segment-is-folder": "a folder, not a file",
    "clean/segment-is-link-to-itself": "Too many levels of symbolic links",
    "clean/folder-is-link-to-itself": "Too many levels of symbolic links; passed by",
    "clean/folder-is-file": "Not a directory; passed by",
    "clean/index-is-folder": "a folder, not a file",
    "clean/snapshot-is-folder": "a folder, not a file",
    "clean/high-watermarks-is-folder": "a folder, not a file",
    "clean/high-watermarks-huge": "209715200 bytes, no more than 33554432 are read",
}


@pytest.mark.parametrize(("name", "told"), UNREADABLE.items(), ids=UNREADABLE)
def test_what_can_not_be_read_is_a_finding(
    kept: Path, tmp_path: Path, name: str, told: str
) -> None:
    found = found_in(made(VARIANTS[name], kept, tmp_path / "b"))
    assert told in [one.found for one in found if one.rule is Invariant.UNREADABLE_FILE]


def test_the_command_needs_no_spark_for_what_is_little(
    kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["logs", "verify", str(kept / "clean")]) == 0
    assert capsys.readouterr().err.endswith(": sound\n")
