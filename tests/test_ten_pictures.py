"""What docs/ten-pictures.md says of its pictures is so in their runs.

``test_docs.py`` sees that page and pictures are current.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.support.ten_pictures import PICTURES, Picture, run_of, svg
from txnsim_lab.scenario.teaching.trace_facts import fact


@pytest.mark.parametrize("picture", PICTURES, ids=lambda entry: entry.name)
def test_what_is_said_below_a_picture_is_so_in_its_run(picture: Picture) -> None:
    recording = run_of(picture.name)
    assert picture.says
    assert {words: fact(recording, words) for words in picture.says} == picture.says


def test_a_picture_is_readable_alone_and_in_both_themes() -> None:
    assert len(PICTURES) == 10
    for picture in PICTURES:
        text = svg(picture)
        root = ElementTree.fromstring(text)
        assert root.find("{http://www.w3.org/2000/svg}title") is not None
        assert "prefers-color-scheme:dark" in text
        assert "The coordinator believes" in text
        assert all(
            f"The partition believes: {partition_name}" in text for partition_name in picture.tape
        )
        assert "What happened last" in text
