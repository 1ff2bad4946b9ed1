"""HTML as a tree of elements: text is escaped where it is written, never by those who make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None


def element(tag: str, *children: Child, **attributes: str | float) -> Element:
    """An element.

    Args:
        tag: Its name.
        children: Elements and texts, in order; None is left out.
        attributes: ``class_`` for ``class``; other underscores stand for hyphens.
    """
    made = Element(
        tag,
        {name.rstrip("_").replace("_", "-"): _text(value) for name, value in attributes.items()},
    )
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child is not None and len(made):
            made[-1].tail = (made[-1].tail or "") + child
        elif child is not None:
            made.text = (made.text or "") + child
    return made


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[Child]]) -> Element:
    """A table with a caption and a row of headers."""
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *(element("th", one, scope="col") for one in headers))),
            element(
                "tbody",
                *(element("tr", *(element("td", cell) for cell in row)) for row in rows),
            ),
        ),
        class_="wide",
        role="region",
        aria_label=caption,
        tabindex="0",
    )


def document(*, title: str, remark: str, style: str, policy: str, body: Iterable[Element]) -> str:
    """A page that needs nothing beside it: its style sheet is in it, ``policy`` is what a browser
    may load for it (Content-Security-Policy), ``remark`` stands above it as a comment.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    page = element("html", head, element("body", element("main", *body)), lang="en")
    return f"<!doctype html>\n<!-- {remark} -->\n{tostring(page, 'unicode', method='html')}\n"


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"
