"""One moment, any id and the application once more in Debian's Firefox ESR, over WebDriver BiDi.

The tests are those of Chromium, in a process of their own: Playwright 1.60 drives this Firefox, and
1.65 asks it for a command that it lacks (``emulation.setMediaFeaturesOverride`` in ESR 153).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.lab.browser.conftest import CACHE
from tests.support.apache_kafka import make_once

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

PLAYWRIGHT: Final = "playwright==1.60.0"
HERE: Final = Path(__file__).parent
ASKED: Final = ("test_one_moment.py", "test_any_id.py", "test_application.py")


def fetch(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--target", str(folder), PLAYWRIGHT], check=True, timeout=300)


def test_firefox_says_and_shows_what_chromium_does() -> None:
    firefox = shutil.which("firefox-esr")
    if firefox is None:
        missing = "no Firefox ESR (apt-get install firefox-esr)"
        if os.environ.get("TXNSIM_NEEDS_BROWSER"):
            pytest.fail(missing)
        pytest.skip(reason=missing)
    driver_file = make_once(CACHE / "playwright-1.60", fetch, lock_file=CACHE / "playwright.lock")
    process = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-m", "browser and not nightly", *(str(HERE / file_name) for file_name in ASKED)),
        ],
        env={**os.environ, "PYTHONPATH": str(driver_file), "TXNSIM_FIREFOX": firefox},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-4_000:]
    passed_count = re.search(r"(\d+) passed", process.stdout)
    assert passed_count is not None
    assert int(passed_count[1]) > len(ASKED)
    assert "skipped" not in process.stdout
