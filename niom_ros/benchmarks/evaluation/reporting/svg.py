"""Figures of matplotlib as inline SVG, coloured by the page that contains them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from markupsafe import Markup
import matplotlib
from matplotlib.figure import Figure

UNITS_PER_INCH = 72  # of matplotlib's SVG
SVG = '{http://www.w3.org/2000/svg}'
LINK = '{http://www.w3.org/1999/xlink}href'

# matplotlib does not support CSS variables. It draws with placeholder colours, which are replaced
# by variables of the page, so that a plot is readable on light and dark pages and on paper.
INK, SOFT, LINE, PAPER = '#010101', '#010102', '#010103', '#010104'
SERIES = tuple(f'#0101{number:02x}' for number in range(16, 24))
VARIABLES = {
    INK: 'var(--ink)',
    SOFT: 'var(--soft)',
    LINE: 'var(--line)',
    PAPER: 'var(--paper)',
    **{colour: f'var(--c{number})' for number, colour in enumerate(SERIES)},
}


@contextmanager
def own_settings(settings: Mapping[Any, Any]) -> Iterator[None]:
    """Draw with matplotlib's defaults and these settings, whatever the user's matplotlibrc says.

    Names come from data: a dollar sign in them does not start a formula.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({'text.parse_math': False, **settings})
        yield


def inline_svg(
    figure: Figure,
    css_class: str,
    title: str = '',
    description: str = '',
    full_names: Mapping[str, str] | None = None,
) -> Markup:
    """Return a figure as an element of a page, the same for the same figure.

    The title and the description are for people who cannot see it; without them it is hidden from
    screen readers. `full_names` are those of labels that were cut, shown on hovering.
    """
    buffer = BytesIO()
    figure.savefig(buffer, format='svg', metadata={'Date': None})
    drawn = ElementTree.fromstring(buffer.getvalue())
    svg = Element('svg', {'class': css_class, 'viewBox': drawn.get('viewBox', '')})
    if title:
        svg.attrib |= {'role': 'img', 'aria-label': f'{title}. {description}'}
        SubElement(svg, 'title').text = title
        SubElement(svg, 'desc').text = description
    else:
        width, height = drawn.get('viewBox', '').split()[2:]
        svg.attrib |= {'width': width, 'height': height, 'aria-hidden': 'true'}
    for shape in visible_shapes(drawn):
        svg.append(shape)
        if full_name := (full_names or {}).get(shape.text or ''):
            whole = SubElement(shape, 'title')
            whole.text, whole.tail, shape.text = full_name, shape.text, None
    html = ElementTree.tostring(svg, encoding='unicode', method='html')
    for placeholder, variable in VARIABLES.items():
        html = html.replace(f': {placeholder}', f': {variable}')
    return Markup(html)


def visible_shapes(drawn: Element) -> Iterator[Element]:
    """Return the paths and texts of an SVG without ids, which must be unique within a page."""
    markers = {f'#{path.get("id")}': path for path in drawn.iter(f'{SVG}path') if path.get('id')}
    for node in drawn.iter():
        if node.tag == f'{SVG}use':
            marker = markers[node.attrib[LINK]]
            yield Element(
                'path',
                {
                    'd': marker.attrib['d'],
                    'style': f'{node.attrib["style"]}; {marker.attrib["style"]}',
                    'transform': f'translate({node.attrib["x"]} {node.attrib["y"]})',
                },
            )
        elif node.tag in (f'{SVG}path', f'{SVG}text') and 'id' not in node.attrib:
            shape = Element(node.tag.removeprefix(SVG), node.attrib)
            shape.attrib.pop('clip-path', None)
            shape.text = node.text
            yield shape
