"""A command within a session that was submitted; one that really is, is in tests/spark/pipeline."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from txnsim.cli import main
from txnsim_spark import session
from txnsim_spark.cli import submit


def test_a_command_runs_in_the_session_which_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[object] = []

    class Session:
        def stop(self) -> None:
            sessions.append("stopped")

    def start_session(*, app_name: str) -> Session:
        sessions.append(app_name)
        return Session()

    def command(arguments: list[str]) -> int:
        sessions.append(arguments)
        return 1

    monkeypatch.setattr(session, "spark_session", start_session)
    monkeypatch.setattr(main, "main", command)
    assert submit.run(["logs", "verify", "/logs"]) == 1
    assert sessions == ["txnsim logs verify", ["logs", "verify", "/logs"], "stopped"]


def test_a_script_s_own_folder_hides_no_module_of_python_s(tmp_path: Path) -> None:
    shutil.copy(submit.__file__, tmp_path)
    (tmp_path / "trace.py").write_text("")
    code = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1]);"
        " runpy.run_path(sys.argv[1] + '/submit.py'); import trace; print(trace.__file__)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert Path(process.stdout.strip()).parent != tmp_path


def test_a_python_without_txnsim_is_told_which_one_to_name(tmp_path: Path) -> None:
    package_folder = tmp_path / "lib" / "python3.12" / "site-packages" / "txnsim"
    (package_folder / "cli").mkdir(parents=True)
    script_file = package_folder / "cli" / "submit.py"
    script_file.write_bytes(Path(submit.__file__).read_bytes())
    assert "spark.pyspark.python=/path/to/python," in submit.advice_for_other_python(package_folder)
    python_program = tmp_path / "bin" / "python"
    python_program.parent.mkdir()
    python_program.touch()
    # Without site-packages and without PYTHONPATH: no Python of this machine has txnsim so.
    command = [sys.executable, "-I", "-S", str(script_file), "logs", "verify", "/logs"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (
        2,
        f"{submit.advice_for_other_python(package_folder)}\n",
    )
    assert f"--conf spark.pyspark.python={python_program}," in process.stderr
    assert f"spark-submit runs {sys.executable}, in which txnsim is not installed" in process.stderr
