"""The look of the report: one HTML file that needs no network, no script and no font."""

from collections.abc import Sequence

from niom_ros.benchmarks.evaluation.reporting.markup import Content, element, joined, Markup

GENERATOR = 'niom eval'

# The colours of Okabe and Ito; in the dark, those too dark to see are lighter.
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --shade: #f4f6f8;
  --link: #0a5ca8; --mark: #0a5ca8; --warn: #a83f00;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7;
  --c4: #e69f00; --c5: #56b4e9; --c6: #6e7781; --c7: #1b1f24;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e6e9ec; --soft: #a3acb5; --line: #3a424b; --shade: #1e2329;
    --link: #79bdf2; --mark: #79bdf2; --warn: #f39c60;
    --c0: #3d9fdb; --c1: #e8762b; --c2: #1fb98f; --c3: #d98fb8;
    --c4: #e69f00; --c5: #9bd3f5; --c6: #a3acb5; --c7: #f0e442;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 74rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;
  overflow-wrap: break-word;
}
h1, h2, h3, h4, h5 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.9rem; margin: 0 0 .5rem; }
h2 {
  font-size: 1.5rem; margin: 3.5rem 0 .5rem; padding-top: 1rem;
  border-top: 2px solid var(--line);
}
h3 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
h4 { font-size: 1rem; margin: 1.4rem 0 .5rem; }
p, li, dd { max-width: 46rem; }
p { margin: .6rem 0; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
code { font: .88em ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
pre {
  overflow-x: auto; padding: .7rem .9rem; margin: .5rem 0;
  background: var(--shade); border: 1px solid var(--line); border-radius: 6px;
}
.skip { position: absolute; left: -99rem; }
.skip:focus { position: static; }
.lead { font-size: 1.08rem; }
.note { color: var(--soft); font-size: .92rem; }
.warn { border-left: 4px solid var(--warn); padding: .1rem 0 .1rem .8rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.2rem; padding: 0; list-style: none; }
dl.facts {
  display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 1rem 0;
}
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; min-width: 0; }
dl.words dt { margin-top: .6rem; font-weight: 600; }
dl.words dd { margin: 0 0 0 1.2rem; }

.scroll { overflow-x: auto; margin: 1rem 0; position: relative; }
table {
  border-collapse: separate; border-spacing: 0; font-size: .94rem;
  font-variant-numeric: tabular-nums lining-nums;
}
caption {
  caption-side: top; text-align: left; padding-bottom: .5rem; color: var(--soft);
  font-size: .92rem;
}
caption span { display: block; max-width: min(46rem, calc(100vw - 2.5rem)); }
th, td { padding: .42rem .9rem .42rem .5rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; line-height: 1.3; }
tbody th, tbody td { border-bottom: 1px solid var(--line); }
thead th, tbody th { font-weight: 600; }
th[scope=row] {
  position: sticky; left: 0; background: var(--paper); max-width: 15rem; min-width: 8.5rem;
  overflow-wrap: anywhere;
}
th small, td small { display: block; font-weight: 400; color: var(--soft); font-size: .8rem; }
td small { white-space: nowrap; }
.together { white-space: nowrap; }
.best .value { font-weight: 700; }
.tag {
  display: inline-block; margin-left: .45rem; padding: 0 .4rem; border-radius: 3px;
  font-size: .74rem; font-weight: 600; border: 1px solid currentColor; color: var(--mark);
}
.tag.worse { color: var(--warn); border-style: dashed; }
.tag.open { color: var(--soft); border-color: transparent; padding: 0; font-weight: 400; }
.missing { color: var(--soft); font-style: italic; white-space: nowrap; }
.swatch { vertical-align: -.15em; margin-right: .4rem; }

details { margin: 1rem 0; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
.plots, .pairs {
  display: grid; gap: 1.6rem 2.2rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr));
}
figure { margin: 0; min-width: 0; break-inside: avoid; }
figcaption { font-size: .92rem; margin-bottom: .4rem; }
.pairs figcaption { margin: .4rem 0 1.4rem; }
.pairs h5 { font-size: .95rem; margin: 0 0 .4rem; }
figcaption b { display: block; }
.plots figure { display: flex; flex-direction: column; }
.plots .plot { margin-top: auto; }
figure img { display: block; width: 100%; height: auto; border-radius: 4px; background: #000; }
.legend {
  display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; padding: 0; margin: 2rem 0 .5rem;
  list-style: none; font-size: .92rem;
}
.plot {
  display: block; width: 100%; height: auto; max-width: 36rem; font-size: 13px;
  font-variant-numeric: tabular-nums;
}
.plot text { fill: var(--ink); }
.plot .tick, .plot .muted { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); stroke-width: .7; }
.axis { stroke: var(--soft); stroke-width: 1.2; }
.interval { stroke-width: 2.4; }
.end { stroke-width: 1.4; }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.mark { stroke: var(--paper); stroke-width: .8; }
.own { fill: none; stroke: var(--ink); stroke-width: 1.4; }
.chance { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 3 2; }
COLOURS
@media (max-width: 34rem) {
  body { padding-inline: .9rem; }
  h1 { font-size: 1.55rem; } h2 { font-size: 1.3rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .5rem; }
  th[scope=row] { max-width: 9rem; min-width: 6.5rem; }
  table { width: max-content; }
  thead th { max-width: 9rem; }
  th .swatch { display: block; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #bbbbbb; --shade: #f4f4f4;
    --link: #000000; --mark: #0a5ca8; --warn: #a83f00;
    --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7;
    --c4: #e69f00; --c5: #56b4e9; --c6: #6e7781; --c7: #000000;
  }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav, .skip, .on-screen { display: none; }
  .scroll { overflow: visible; }
  th[scope=row] { position: static; }
  .plots, .pairs { grid-template-columns: 1fr 1fr; gap: 1rem; }
  tr, figure { break-inside: avoid; }
  h2, h3, h4, h5, caption, .legend { break-after: avoid; }
  .scroll { break-inside: avoid; }
  details .scroll { break-inside: auto; }
  thead { display: table-header-group; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
""".replace(
    'COLOURS',
    '\n'.join(
        f'.mark.c{n} {{ fill: var(--c{n}); }} '
        f'.interval.c{n}, .end.c{n}, .curve.c{n} {{ stroke: var(--c{n}); }}'
        for n in range(8)
    ),
)


def page(title: str, *body: Content) -> str:
    """Return a whole page."""
    head = element(
        'head',
        element('meta', charset='utf-8'),
        element('meta', name='viewport', content='width=device-width, initial-scale=1'),
        element('meta', name='generator', content=GENERATOR),
        element('meta', name='color-scheme', content='light dark'),
        element('title', title),
        element('style', Markup(STYLE)),
    )
    return f'<!DOCTYPE html>\n{element("html", head, element("body", *body), lang="en")}\n'


def table(
    caption: str, head: Sequence[Content], rows: Sequence[tuple[Content, Sequence[Markup]]]
) -> Markup:
    """Return a table: names of columns, and rows of a name and of cells.

    Too wide for the screen, it scrolls by itself, also with the keyboard.
    """
    columns = element('tr', (element('th', name, scope='col') for name in head))
    lines = (element('tr', element('th', name, scope='row'), cells) for name, cells in rows)
    whole = element(
        'table',
        element('caption', element('span', caption)),
        element('thead', columns),
        element('tbody', lines),
    )
    return element('div', whole, class_='scroll', role='region', tabindex='0', aria_label=caption)


def facts(entries: Sequence[tuple[str, Content]], kind: str = 'facts') -> Markup:
    """Return a list of names and what belongs to each."""
    return element(
        'dl',
        (joined(element('dt', name), element('dd', what)) for name, what in entries),
        class_=kind,
    )
