"""An environment in which txnsim is installed as pip installs it, from a wheel: nothing of this
work tree is on its path. Its libraries are those of the running Python, as Spark alone is 400 MB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.apache_kafka import REPOSITORY


def installed_package(environment: Path) -> Path:
    """Make the environment.

    Args:
        environment: Where; its owner removes it.

    Returns:
        Its Python.
    """
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    own = Path(
        sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)})
    )
    # A line of a .pth file names a folder; files of its kind in that folder are not followed, so a
    # txnsim that is installed there in edit mode stays out.
    (own / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    command = [*pip, "install", "--quiet", "--no-deps", str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return python


def bare_environment(home: Path) -> dict[str, str]:
    """What a program finds that is called by its path in a new shell: no environment activated, no
    variable of Python's or Spark's.
    """
    java = shutil.which("java")
    assert java is not None
    path = [os.path.dirname(java), "/usr/local/bin", "/usr/bin", "/bin"]
    kept = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    return {"PATH": os.pathsep.join(dict.fromkeys(path)), "HOME": str(home), **kept}
