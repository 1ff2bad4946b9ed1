"""The slides of ``make handouts``, printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import handouts
from tests.lab.browser.conftest import CHROMIUM
from tests.support.ten_pictures import PICTURES

pytestmark = pytest.mark.browser


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to print with")
def test_each_slide_is_a_page(tmp_path: Path) -> None:
    page_file = tmp_path / "slides.html"
    page_file.write_text(handouts.slides(), "utf-8")
    handouts.print_pdf(page_file)
    pdf_bytes = page_file.with_suffix(".pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf_bytes)) == len(PICTURES) + 1
