"""The exam as tests of a library, in a pytest of their own."""

from __future__ import annotations

import pytest

from tests.lab.exam.test_exam import BARE, KNOWS_ITS_NAME, YES, driver

TEST = """
import pytest

@pytest.mark.txnsim_exam(driver={driver!r}, only=["reads-open"], levels=[2], known={known!r})
def test_my_library(txnsim_exam):
    txnsim_exam()
"""


def outcomes(pytester: pytest.Pytester, program: str, known_misses: list[str]) -> pytest.RunResult:
    """Run pytest with the exam's plugin; return its result."""
    pytester.makepyfile(TEST.format(driver=driver(program), known=known_misses))
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs")


@pytest.mark.costly
def test_a_miss_fails_with_its_reason(pytester: pytest.Pytester) -> None:
    result = outcomes(pytester, YES, [])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_my_library?reads-open@2?*", "*the reader of open gets*"])


@pytest.mark.costly
def test_a_known_miss_is_expected(pytester: pytest.Pytester) -> None:
    outcomes(pytester, YES, ["reads-open@2"]).assert_outcomes(xfailed=1)


@pytest.mark.costly
def test_what_does_not_apply_is_skipped(pytester: pytest.Pytester) -> None:
    outcomes(pytester, KNOWS_ITS_NAME, []).assert_outcomes(skipped=1)


@pytest.mark.costly
def test_a_driver_that_is_none_is_told(pytester: pytest.Pytester) -> None:
    result = outcomes(pytester, BARE, [])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*describe failed*"])
