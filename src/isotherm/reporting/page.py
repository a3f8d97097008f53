"""One self-contained HTML page of tables, figures and text.

It needs no network and suits light and dark mode, phones and printers. Text is escaped; only the `Html` that the
functions of this module return is inserted unchanged.
"""

import base64
import dataclasses
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from isotherm.text import as_html


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading and its content."""

    title: str
    parts: Sequence[Html]


def _html(value: Any) -> Html:
    return value if isinstance(value, Html) else Html(_escaped(value))


def _escaped(value: Any) -> str:
    return as_html(str(value))


def prose(text: str) -> Html:
    """Text in which names in backticks are set as code."""
    return Html(re.sub(r"`([^`]+)`", r"<code>\1</code>", _escaped(text)))


def paragraph(text: str) -> Html:
    """A paragraph."""
    return Html(f"<p>{_html(text)}</p>")


def strong(text: str) -> Html:
    """Emphasised text, for the best cell of a table."""
    return Html(f"<strong>{_html(text)}</strong>")


def badge(text: str, kind: str) -> Html:
    """A word in a coloured box, `good`, `fair` or `bad`; the word carries the meaning without the colour."""
    return Html(f'<span class="badge {escape(kind)}">{_html(text)}</span>')


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str = "") -> Html:
    """A table whose first column names the row; on a narrow screen every row becomes a card."""
    head = "".join(f'<th scope="col">{_html(h)}</th>' for h in header)
    body = []
    for row in rows:
        cells = [f'<th scope="row">{_html(row[0])}</th>']
        cells += [
            f'<td data-label="{_escaped(h)}"><span>{_html(x)}</span></td>'
            for h, x in zip(header[1:], row[1:], strict=True)
        ]
        body.append(f"<tr>{''.join(cells)}</tr>")
    title = f"<caption>{_html(caption)}</caption>" if caption else ""
    return Html(
        f'<table class="cards">{title}<thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'
    )


def numbers(header: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str) -> Html:
    """A table of numbers. On a narrow screen it scrolls sideways under its first column."""
    head = "".join(f'<th scope="col">{_html(h)}</th>' for h in header)
    body = "".join(
        f'<tr><th scope="row">{_html(row[0])}</th>{"".join(f"<td>{_html(x)}</td>" for x in row[1:])}</tr>'
        for row in rows
    )
    return Html(
        f'<p class="caption">{_html(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_escaped(caption)}"><table class="numbers">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def verbatim(text: str) -> Html:
    """Preformatted text, such as a BibTeX entry."""
    return Html(f"<pre>{_html(text)}</pre>")


def bullets(items: Sequence[str]) -> Html:
    """A list."""
    return Html("<ul>" + "".join(f"<li>{_html(x)}</li>" for x in items) + "</ul>")


def definitions(items: Mapping[str, Any]) -> Html:
    """Names and values, such as settings and versions."""
    return Html(
        "<dl>" + "".join(f"<dt>{_html(k)}</dt><dd>{_html(v)}</dd>" for k, v in items.items()) + "</dl>"
    )


def figure(image: Path | bytes, *, alt: str, caption: str, kind: str = "wide") -> Html:
    """A PNG embedded in the page.

    On a narrow screen a `wide` figure scrolls sideways and a `narrow` one fits. A `narrow` one follows dark mode.
    """
    data = base64.b64encode(image.read_bytes() if isinstance(image, Path) else image).decode()
    image_tag = f'<img src="data:image/png;base64,{data}" alt="{_escaped(alt)}">'
    return Html(
        f'<figure class="{escape(kind)}">{image_tag}<figcaption>{_html(caption)}</figcaption></figure>'
    )


def side_by_side(parts: Sequence[Html]) -> Html:
    """The parts in two columns if the screen is wide enough."""
    return Html(f'<div class="columns">{"".join(parts)}</div>')


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document."""
    body = "".join(f"<section><h2>{_html(s.title)}</h2>{''.join(s.parts)}</section>" for s in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_html(title)}</title><style>{_STYLE}</style></head>"
        f'<body><main><h1>{_html(title)}</h1><p class="lead">{_html(lead)}</p>{body}</main></body></html>\n'
    )


_STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --soft: #5b6068; --page: #fdfdfc; --line: #d9dbdf;
  --good: #0a6b4b; --fair: #8a5a00; --bad: #a3260f; }
@media screen and (prefers-color-scheme: dark) { :root { --text: #e7e8ea; --soft: #a4a9b1; --page: #17191c;
  --line: #3a3e44; --good: #5fd0a5; --fair: #f0b64d; --bad: #ff8f78; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
p, ul, dl { max-width: 46rem; }
.lead { font-size: 1.1rem; color: var(--soft); }
table { width: 100%; border-collapse: collapse; font-size: .92rem; margin: 0 0 1.5rem; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .45rem .8rem .45rem 0; overflow-wrap: break-word;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 500; }
tbody th { font-weight: 500; }
td { font-variant-numeric: tabular-nums; }
.badge { display: inline-block; padding: 0 .5em; border: 1px solid currentColor; border-radius: .3em;
  font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); }
figure { margin: 0 0 2rem; }
figure img { display: block; width: 100%; height: auto; background: #fff; border-radius: .4rem; padding: .4rem; }
figcaption { color: var(--soft); font-size: .92rem; max-width: 46rem; }
figure.narrow { max-width: 40rem; }
.columns { columns: 26rem 2; column-gap: 2rem; } .columns figure { break-inside: avoid; padding-bottom: .1rem; }
@media screen and (prefers-color-scheme: dark) { figure.narrow img { filter: invert(.91) hue-rotate(180deg); } }
.caption { font-weight: 600; margin: 0 0 .4rem; }
.scroll { overflow-x: auto; margin: 0 0 1.5rem; background:
  linear-gradient(to left, var(--page) 40%, transparent) right / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--line), transparent) right / 1rem 100% no-repeat scroll; }
.scroll table { margin: 0; }
.numbers th, .numbers td { white-space: nowrap; } .numbers :is(td, thead th:not(:first-child)) { text-align: right; }
.numbers th:first-child { position: sticky; left: 0; background: var(--page); min-width: 7rem; max-width: 14rem;
  white-space: normal; overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.4; padding: .7rem .9rem; border: 1px solid var(--line);
  border-radius: .4rem; }
dl { display: grid; grid-template-columns: minmax(7rem, 12rem) 1fr; gap: .25rem 1rem; font-size: .95rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 44rem) {
  figure.wide { overflow-x: auto; } figure.wide img { width: 52rem; max-width: none; }
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .cards, .cards :is(tbody, tr, th, td, caption) { display: block; }
  .cards tr { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .7rem; margin-bottom: .7rem; }
  .cards :is(th, td) { border: 0; padding: .15rem 0; }
  .cards td { display: grid; grid-template-columns: 6.5rem 1fr; gap: .5rem; }
  .cards tbody th { font-weight: 650; }
  .cards td::before { content: attr(data-label); color: var(--soft); }
}
@media print { :root { color-scheme: light; } body { font-size: 10pt; } main { max-width: none; padding: 0; }
  figure, tr { break-inside: avoid; } .scroll, pre { overflow: visible; } pre { white-space: pre-wrap; }
  h2 { break-after: avoid; } }
"""
