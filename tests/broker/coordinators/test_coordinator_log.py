"""What an error of a coordinator's log is called towards clients."""

from __future__ import annotations

import pytest

from txnsim.coordinators._coordinator_log import append_error
from txnsim.errors import ErrorCode

MAPPED = {3: 15, 19: 15, 20: 15, 7: 15, 6: 16, 56: 16, 10: -1, 18: -1}


@pytest.mark.parametrize("error", [each for each in ErrorCode if each is not ErrorCode.none])
def test_every_error_has_its_name(error: ErrorCode) -> None:
    assert append_error(error) == MAPPED.get(error, error)
