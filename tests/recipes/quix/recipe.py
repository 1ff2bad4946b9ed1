"""Quix Streams: exactly-once processing, by a service that fails and is started again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.recipes.lab import Lab, outside
from tests.recipes.making import python_project
from tests.recipes.recipe import Recipe

FOLDER: Final = Path(__file__).parent
_ORDERS: Final = 20
# Nothing of the repository's own settings for pytest.
_PYTEST: Final = ("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "test_receipts.py")


def play(lab: Lab) -> str:
    """The test on a cluster that was there before, then on one that it starts itself."""
    project = python_project(FOLDER)
    python = str(project / "venv" / "bin" / "python")
    lab.run([python, *_PYTEST], directory=project)
    receipts = lab.judge.only_topic("receipts-")
    lab.judge.assert_exactly_once(
        receipts, (f"receipt of order {number}" for number in range(_ORDERS))
    )
    aborted = len(lab.judge.everything(receipts)) - len(lab.judge.committed(receipts))
    ids = lab.judge.transactional_ids()
    lab.run([python, *_PYTEST], directory=project, environment=outside())
    return f"{_ORDERS} orders, {_ORDERS} receipts, {aborted} aborted; {len(ids)} transactional ids"


RECIPE: Final = Recipe("quix", play)
