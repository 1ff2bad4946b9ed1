"""``python -m tests.lab.browser.sheet``: the pictures of docs/see-it.md, from those of the tests.

``pytest -m browser`` leaves a picture of every view in both themes below ``.cache/browser``. This
puts them on one sheet, light beside dark, small enough to be kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PIL import Image

from tests.lab.browser.test_page import PICTURES, VIEWS

DOCS: Final = Path(__file__).parents[3] / "docs" / "pictures"
WIDTH: Final = 420
COLOURS: Final = 48


def small(image: Image.Image, width: int) -> Image.Image:
    height = round(image.height * width / image.width)
    return image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)


def main() -> None:
    """Write ``page-views.png`` and ``page-stage.png`` into the docs."""
    rows = [
        [small(Image.open(PICTURES / f"{view}-{theme}.png"), WIDTH) for theme in ("light", "dark")]
        for view in VIEWS
    ]
    height = rows[0][0].height
    sheet = Image.new("RGB", (2 * WIDTH + 8, len(rows) * (height + 8)), "#808080")
    for number, row in enumerate(rows):
        for column, image in enumerate(row):
            sheet.paste(image, (column * (WIDTH + 8), number * (height + 8)))
    story = Image.open(PICTURES / "story-light.png").convert("RGB")
    story.quantize(32, dither=Image.Dither.NONE).save(DOCS / "page-stage.png", optimize=True)
    # By octree: the few orange ones are kept as well.
    reduced_sheet = sheet.quantize(
        COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    reduced_sheet.save(DOCS / "page-views.png", optimize=True)


if __name__ == "__main__":
    main()
