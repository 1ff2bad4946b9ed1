"""HTML that is made of elements."""

from __future__ import annotations

from xml.etree.ElementTree import tostring

from txnsim.pipeline.report_page.elements import document, element, table


def html(made: object) -> str:
    return tostring(made, "unicode", method="html")  # type: ignore[call-overload, no-any-return]


def test_texts_and_attributes_are_escaped() -> None:
    made = element("p", "a < b", element("b", "&"), " & c", None, title='"<')
    assert html(made) == '<p title="&quot;<">a &lt; b<b>&amp;</b> &amp; c</p>'


def test_names_of_attributes_and_numbers() -> None:
    assert html(element("i", class_="x", aria_label="y", width=2.5)) == (
        '<i class="x" aria-label="y" width="2.5"></i>'
    )


def test_a_table_has_a_caption_and_headers() -> None:
    told = html(table("Things", ("A", "B"), [("1", element("b", "2")), ("3", None)]))
    assert "<caption>Things</caption>" in told
    assert '<th scope="col">A</th><th scope="col">B</th>' in told
    assert "<tr><td>1</td><td><b>2</b></td></tr><tr><td>3</td><td></td></tr>" in told


def test_a_style_sheet_is_kept_as_it_is() -> None:
    told = document(
        title="T & U", remark="nothing", style="a > b {}", policy="none", body=[element("h1", "T")]
    )
    assert told.startswith('<!doctype html>\n<!-- nothing -->\n<html lang="en">')
    assert "<style>a > b {}</style>" in told
    assert "<title>T &amp; U</title>" in told
