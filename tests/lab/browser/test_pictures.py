"""The ten pictures of docs/ten-pictures.md are accessible in both themes: axe, and the contrast of
every text with what lies behind it, which axe does not look at in a picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest

from tests.support.ten_pictures import FOLDER, PICTURES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

ROOT: Final = Path(__file__).parents[3]
CONTRAST_LEAST: Final = 4.5  # WCAG 2.1, 1.4.3
FAINT: Final = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((one) => one / 255)
      .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const text of document.querySelectorAll('svg text')) {
    const { x, y, width, height } = text.getBoundingClientRect();
    const behind = document.elementsFromPoint(x + width / 2, y + height / 2)
      .filter((one) => ['rect', 'circle', 'path', 'polygon'].includes(one.tagName))
      .map((one) => getComputedStyle(one).fill).find((fill) => fill.startsWith('rgb'));
    if (!behind) { found.push(`nothing behind ${text.textContent}`); continue; }
    const [low, high] = [light(getComputedStyle(text).fill), light(behind)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < LEAST) found.push(`${text.textContent}: ${contrast.toFixed(2)}`);
  }
  return [document.querySelectorAll('svg text').length, found];
}""".replace("LEAST", str(CONTRAST_LEAST))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_picture_is_accessible(
    theme: Literal["light", "dark"], browser: Browser, axe: str
) -> None:
    context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 1600})
    violations_by_picture = {}
    page = context.new_page()
    for picture in PICTURES:
        svg = (ROOT / FOLDER / f"ten-{picture.name}.svg").read_text("utf-8")
        page.set_content(
            '<!doctype html><html lang="en"><head><title>A picture</title>'
            f'<meta name="color-scheme" content="light dark"></head><body><main><h1>It</h1>{svg}'
            "</main></body></html>"
        )
        texts, faint = page.evaluate(FAINT)
        assert texts > 5
        page.evaluate(axe)
        result = page.evaluate("axe.run({ resultTypes: ['violations'] })")
        problems = [*faint, *(violation_rule["id"] for violation_rule in result["violations"])]
        if problems:
            violations_by_picture[picture.name] = problems
    context.close()
    assert violations_by_picture == {}
