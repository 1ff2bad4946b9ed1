"""The examples of docs/testing.md, docs/time.md and README.md are tests, and pass as they stand."""

from __future__ import annotations

import pytest

from tests.test_readme import Block, blocks

pytestmark = pytest.mark.clients

PAGES = ("docs/testing.md", "docs/time.md", "README.md")


def examples() -> list[Block]:
    return [
        block
        for block in blocks()
        if block.page in PAGES and block.language == "python" and "def test_" in block.text
    ]


@pytest.mark.costly
def test_every_example_passes(pytester: pytest.Pytester) -> None:
    """All in one run of pytest, each in a file that is named after its place."""
    found_blocks = examples()
    assert {block.page for block in found_blocks} == set(PAGES)
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider -p no:asyncio\n")
    for block in found_blocks:
        page_text = block.page.removesuffix(".md").replace("/", "_")
        (pytester.path / f"test_{page_text}_{block.line}.py").write_text(block.text)
    result = pytester.runpytest_subprocess("-W", "ignore::DeprecationWarning")
    outcomes = result.parseoutcomes()
    assert outcomes.keys() - {"warnings"} == {"passed"}
    # An example may be parametrized: one function, several tests.
    assert outcomes["passed"] >= sum(block.text.count("def test_") for block in found_blocks)
