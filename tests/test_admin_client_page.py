"""The programs of docs/admin-client.md, run one after the other against a cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.txnsim_server import TxnsimServer

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "admin-client.md"
ADDRESS: Final = "127.0.0.1:9092"

SAID: Final = (
    "3 brokers",
    None,
    "broker 99 is not in the cluster, whose brokers are 1, 2, 3",
    "No transaction holds readers back",
    "Could not find any open transactions starting at offset 0 on partition orders-0",
)


@pytest.mark.costly
@pytest.mark.slow
def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.M)
    assert len(programs) == len(SAID)
    with TxnsimServer() as server:
        for program, expected_output in zip(programs, SAID, strict=True):
            finished_process = subprocess.run(
                [sys.executable, "-c", program.replace(ADDRESS, server.bootstrap)],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
            )
            assert (finished_process.returncode, finished_process.stderr) == (0, "")
            assert expected_output is None or expected_output in finished_process.stdout, (
                finished_process.stdout
            )
