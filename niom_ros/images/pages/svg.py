"""Pages of SVG files: what is drawn on them, and rendering them with parts left out.

Nothing but the file itself is read: references to other files are refused.
"""

from base64 import b64decode
from collections.abc import Mapping, Set
from copy import deepcopy
from dataclasses import dataclass
import re
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import resvg_py

from niom_ros.core.faults import reason
from niom_ros.images.decoding import decode_image, ImageError, MAX_PIXELS
from niom_ros.images.pages import svg_paths
from niom_ros.images.pages.line_work import Kind, MAX_STEPS, Piece, shapes_of, SubPath

SVG = '{http://www.w3.org/2000/svg}'
PIXELS_PER_INCH = 96
# Limits after every <use> has been expanded.
MAX_ELEMENTS = 200_000
MAX_CHARACTERS = 30_000_000
DEEPEST = 100  # elements in elements
# Drawn only where something refers to it, or not at all.
NOT_DRAWN = {
    'clipPath', 'defs', 'desc', 'filter', 'foreignObject', 'linearGradient', 'marker', 'mask',
    'metadata', 'pattern', 'radialGradient', 'script', 'style', 'symbol', 'title',
}  # fmt: skip
INHERITED = (
    'fill', 'font-size', 'marker-end', 'marker-start', 'stroke', 'stroke-dasharray',
    'stroke-width', 'text-anchor', 'visibility',
)  # fmt: skip
SHAPES = ('path', 'line', 'polyline', 'polygon', 'rect', 'circle', 'ellipse')
PICTURE_DATA = re.compile(r'\s*data:image/(png|jpeg|jpg|gif|webp)\s*[;,]', re.I)
WHITE = re.compile(r'white|#fff(fff)?|rgb\(\s*(255|100%)\s*(,\s*(255|100%)\s*){2}\)', re.I)


@dataclass(frozen=True)
class LetterParameters:
    """The average size of letters, relative to that of the font; fonts are not read."""

    width: float = 0.55
    height: float = 0.72


LETTER = LetterParameters()


@dataclass(frozen=True)
class SvgPart:
    """Where a piece of a page comes from."""

    element: ElementTree.Element
    parent: ElementTree.Element
    sub_paths: tuple[int, ...] = ()


@dataclass(frozen=True)
class DrawingCost:
    """How much there is to draw."""

    elements: int
    characters: int
    pixels: int  # of embedded pictures

    def __add__(self, other: 'DrawingCost') -> 'DrawingCost':
        return DrawingCost(
            self.elements + other.elements,
            self.characters + other.characters,
            self.pixels + other.pixels,
        )


class SvgPage:
    """The page of an SVG file."""

    def __init__(self, root: ElementTree.Element) -> None:
        """Read what is drawn on the page."""
        self._root = root
        self._size = size_of(root)
        self.inches = self._size[0] / PIXELS_PER_INCH, self._size[1] / PIXELS_PER_INCH
        self.pieces: list[Piece] = []
        self._parts: list[SvgPart] = []
        self._far: list[SvgPart] = []  # too far away: with these, resvg would draw nothing at all
        self._paths: dict[ElementTree.Element, list[SubPath]] = {}
        self._steps = 0
        styles = '\n'.join(e.text or '' for e in root.iter() if name_of(e) == 'style')
        self._sheet = svg_paths.StyleSheet(styles)
        root.attrib.update(width=str(self._size[0]), height=str(self._size[1]))
        for place in ('x', 'y'):
            root.attrib.pop(place, None)
        self._to_page = np.diag([1 / max(self._size), 1 / max(self._size), 1.0])
        self._read(root, root, np.eye(3), {}, self._size)

    def picture_without(self, pieces: Set[int], size: tuple[int, int]) -> np.ndarray:
        """Render the page as an RGB image of width x height pixels, without some pieces."""
        gone: dict[ElementTree.Element, set[int]] = {}
        left_out = [*(self._parts[index] for index in pieces), *self._far]
        for part in left_out:
            gone.setdefault(part.element, set()).update(part.sub_paths)
        for part in {id(part.element): part for part in left_out}.values():
            paths = self._paths.get(part.element, [])
            stays = [p for index, p in enumerate(paths) if index not in gone[part.element]]
            if stays:
                part.element.set('d', svg_paths.as_path_data(stays))
            else:
                part.parent.remove(part.element)
        # Inside another <svg>, so that both sides are scaled to whole pixels.
        width, height = size
        page = ElementTree.Element(
            f'{SVG}svg',
            {
                'width': str(width),
                'height': str(height),
                'viewBox': '0 0 {:.9g} {:.9g}'.format(*self._size),
                'preserveAspectRatio': 'none',
            },
        )
        page.append(self._root)
        has_text = any(name_of(element) == 'text' for element in self._root.iter())
        try:
            png = resvg_py.svg_to_bytes(
                svg_string=ElementTree.tostring(page, encoding='unicode'),
                background='white',
                # Searching for fonts takes longer than rendering.
                skip_system_fonts=not has_text,
            )
        except Exception as error:  # including a panic in Rust
            raise ImageError(f'the SVG file cannot be drawn: {reason(error)}') from None
        return decode_image(bytes(png))

    def _read(
        self,
        element: ElementTree.Element,
        parent: ElementTree.Element,
        matrix: np.ndarray,
        above: Mapping[str, str],
        viewport: tuple[float, float],
    ) -> None:
        """Read an element and its children; the matrix (3 x 3) maps it to the page."""
        name = name_of(element)
        if name in NOT_DRAWN:
            return
        style = self._style(element, above)
        if style.get('display') == 'none':
            return
        matrix = matrix @ svg_paths.transform(element.get('transform', ''))
        if name == 'svg':
            viewport, matrix = nested_view(element, viewport, matrix)
        if name in SHAPES:
            self._add_shape(element, parent, matrix, style, viewport)
        elif name == 'text':
            self._add_text(element, parent, matrix, style)
        elif name == 'image':
            place = [number(element, key, viewport) for key in ('x', 'y', 'width', 'height')]
            self._add(corners(*place), matrix, SvgPart(element, parent), kind=Kind.IMAGE)
        else:
            for child in list(element):
                self._read(child, element, matrix, style, viewport)

    def _style(self, element: ElementTree.Element, above: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of an element: inherited, attributes, rules, its own style."""
        style = {key: value for key, value in above.items() if key in INHERITED}
        own = {key: value for key, value in element.attrib.items() if key in STYLED}
        own |= self._sheet.style_of(name_of(element), element.attrib)
        own |= svg_paths.declarations(element.get('style', ''))
        if 'marker' in own:
            own |= {'marker-start': own['marker'], 'marker-end': own['marker']}
        style.update((key, value) for key, value in own.items() if value != 'inherit')
        return style

    def _add(
        self, points: np.ndarray, matrix: np.ndarray, part: SvgPart, **fields: object
    ) -> None:
        place = (self._to_page @ matrix)[:2]
        moved = points @ place[:, :2].T + place[:, 2]
        piece = Piece(moved, **fields)  # type: ignore[arg-type]
        if piece.is_near:
            self.pieces.append(piece)
            self._parts.append(part)
        else:
            self._far.append(part)

    def _add_shape(
        self,
        element: ElementTree.Element,
        parent: ElementTree.Element,
        matrix: np.ndarray,
        style: Mapping[str, str],
        viewport: tuple[float, float],
    ) -> None:
        sub_paths = outline(element, viewport)
        self._steps += sum(len(sub_path.steps) for sub_path in sub_paths)
        if self._steps > MAX_STEPS:
            raise ImageError(f'it draws more than {MAX_STEPS} lines: simplify it')
        filled = is_ink(style.get('fill', 'black')) and name_of(element) != 'line'
        stroked = is_ink(style.get('stroke', 'none'))
        width = svg_paths.length(style.get('stroke-width'), max(viewport), 1.0)
        stroked = stroked and width > 0
        if not sub_paths or not (filled or stroked) or style.get('visibility') == 'hidden':
            return
        if name_of(element) == 'path':
            self._paths[element] = sub_paths
        lines = [sub_path.flattened(np.eye(3)[:2]) for sub_path in sub_paths]
        # An open line that is only meant to be stroked encloses no area.
        filled = filled and any(area(points) > 1e-9 for points in lines)
        scale = float(np.sqrt(abs(np.linalg.det((self._to_page @ matrix)[:2, :2]))))
        dashes = svg_paths.NUMBER.findall(style.get('stroke-dasharray', ''))
        pattern = len(dashes) * (1 + len(dashes) % 2) if any(map(float, dashes)) else 0
        pointed = tuple(style.get(key, 'none') != 'none' for key in ('marker-start', 'marker-end'))
        groups = shapes_of(lines) if filled else [[index] for index in range(len(lines))]
        for group in groups:
            outer = max(group, key=lambda index: float(np.ptp(lines[index], axis=0).sum()))
            ends_meet = len(lines[outer]) > 3 and np.allclose(lines[outer][0], lines[outer][-1])
            self._add(
                lines[outer],
                matrix,
                SvgPart(element, parent, tuple(group)),
                closed=filled or sub_paths[outer].closed or ends_meet,
                filled=filled,
                has_holes=len(group) > 1,
                line_width=max(width * scale, 1e-5) if stroked else 0.0,
                dash_pattern=pattern if stroked else 0,
                pointed=pointed if len(lines) == 1 else (False, False),
            )

    def _add_text(
        self,
        element: ElementTree.Element,
        parent: ElementTree.Element,
        matrix: np.ndarray,
        style: Mapping[str, str],
    ) -> None:
        """Add the box of a text, estimated from the average width of letters."""
        boxes = []
        x = y = 0.0
        for part in element.iter():
            own = style if part is element else self._style(part, style)
            x, y = first_length(part.get('x'), x), first_length(part.get('y'), y)
            words = (part.text or '').strip()
            if words:
                size = svg_paths.length(own.get('font-size'), 16.0, 16.0)
                wide = LETTER.width * size * len(words)
                shift = {'middle': 0.5, 'end': 1.0}.get(own.get('text-anchor', ''), 0.0)
                left = x - shift * wide
                tall = LETTER.height * size
                boxes.append(corners(left, y - tall, wide, tall))
        if boxes:
            self._add(np.concatenate(boxes), matrix, SvgPart(element, parent), kind=Kind.TEXT)


STYLED = {*INHERITED, 'display', 'marker'}


def svg_page(data: bytes) -> SvgPage:
    """Read the page of an SVG file; references to anything outside of it are refused."""
    check_xml(data)
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ImageError(f'the SVG file is damaged: {reason(error)}') from None
    if root.tag != f'{SVG}svg':
        raise ImageError(
            f'its root element is <{name_of(root)[:40]}>, not <svg xmlns="{SVG[1:-1]}">: '
            'export it as SVG'
        )
    pixels = check_references(root)
    check_expansion(root, pixels)
    expand_uses(root)
    return SvgPage(root)


# What a file must not do


def check_xml(data: bytes) -> None:
    """Refuse declarations, which may read files or expand without end, and deep nesting."""
    parser = expat.ParserCreate()
    depth = elements = 0

    def refuse_declaration(*_: object) -> None:
        raise ImageError('it declares entities or attributes: save it as plain SVG')

    def refuse_instruction(target: str, content: str) -> None:
        if target == 'xml-stylesheet':
            raise ImageError(
                f'it takes styles from another file ({content[:60]}): save it as plain SVG'
            )

    def enter(*_: object) -> None:
        nonlocal depth, elements
        depth, elements = depth + 1, elements + 1
        if depth > DEEPEST:
            raise ImageError(f'its elements are nested more than {DEEPEST} deep: simplify it')
        if elements > MAX_ELEMENTS:
            raise ImageError(f'it has more than {MAX_ELEMENTS} elements: simplify it')

    def leave(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.EntityDeclHandler = refuse_declaration
    parser.AttlistDeclHandler = refuse_declaration
    parser.ProcessingInstructionHandler = refuse_instruction
    parser.StartElementHandler = enter
    parser.EndElementHandler = leave
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise ImageError(f'the SVG file is damaged: {reason(error)}') from None


def check_references(root: ElementTree.Element) -> dict[ElementTree.Element, int]:
    """Refuse scripts and references to other files; return the pixels of embedded images."""
    pixels: dict[ElementTree.Element, int] = {}
    total = 0
    for element in root.iter():
        name = name_of(element)
        if name == 'script':
            raise ImageError('it contains a script: save it as plain SVG')
        for key, value in element.attrib.items():
            if local_name(key) == 'href' and name != 'a' and element.tag.startswith(SVG):
                in_picture = checked_href(name, value)
                pixels[element] = pixels.get(element, 0) + in_picture
                total += in_picture
                check_cost(DrawingCost(0, 0, total))  # before more images are decoded
            check_urls(value)
        if name == 'style':
            if '@import' in (element.text or '').lower():
                raise ImageError('it imports styles from another file: save it as plain SVG')
            check_urls(element.text or '')
    return pixels


def checked_href(name: str, value: str) -> int:
    """Refuse a link out of the file; return the pixels of an embedded image."""
    value = value.strip()
    if value.startswith('#') or not value:
        return 0
    if name not in ('image', 'feImage') or not PICTURE_DATA.match(value):
        raise ImageError(
            f'<{name}> refers to something outside of the file ({value[:60]}): embed it'
        )
    head, _, data = value.partition(',')
    try:
        content = b64decode(data) if head.endswith(';base64') else unquote_to_bytes(data)
        # resvg would allocate memory for as many pixels as the image claims to have.
        picture = decode_image(content)
    except (ValueError, ImageError) as error:
        raise ImageError(f'a picture in it cannot be used: {reason(error)}') from None
    return picture.shape[0] * picture.shape[1]


def check_urls(text: str) -> None:
    """Refuse url(...) that points out of the file."""
    for target in re.findall(r'url\(\s*[\'"]?\s*([^\'")\s]*)', text, re.I):
        if not target.startswith(('#', 'data:')):
            raise ImageError(
                f'it refers to something outside of the file ({target[:60]}): embed it'
            )


def check_cost(cost: DrawingCost) -> None:
    """Refuse what would take too long to draw."""
    if cost.elements > MAX_ELEMENTS:
        raise ImageError(f'it draws more than {MAX_ELEMENTS} elements: simplify it')
    if cost.characters > MAX_CHARACTERS:
        raise ImageError(
            f'what it draws takes more than {MAX_CHARACTERS // 10**6} million characters: '
            'simplify it'
        )
    if cost.pixels > MAX_PIXELS:
        raise ImageError(
            f'its pictures have more than {MAX_PIXELS // 10**6} million pixels: scale them down'
        )


def check_expansion(root: ElementTree.Element, pixels: Mapping[ElementTree.Element, int]) -> None:
    """Refuse a small file whose references expand to too much, or without end."""
    by_id = {element.get('id', ''): element for element in root.iter() if element.get('id')}
    costs: dict[ElementTree.Element, DrawingCost] = {}

    def cost(element: ElementTree.Element, path: frozenset[ElementTree.Element]) -> DrawingCost:
        if element in path or len(path) > 2 * DEEPEST:
            raise ImageError('its elements refer to each other in a circle: simplify it')
        if element not in costs:
            path = path | {element}
            own = DrawingCost(1, characters_of(element), pixels.get(element, 0))
            shown = [*element, *(by_id[target] for target in targets(element, by_id))]
            costs[element] = sum((cost(one, path) for one in shown), own)
            check_cost(costs[element])
        return costs[element]

    cost(root, frozenset())


def characters_of(element: ElementTree.Element) -> int:
    """Return the number of characters in an element and its attributes."""
    written = (element.text, element.tail, *element.attrib.values())
    return sum(len(text) for text in written if text)


def targets(element: ElementTree.Element, by_id: Mapping[str, object]) -> list[str]:
    """Return the ids of the elements that an element refers to."""
    found = []
    for key, value in element.attrib.items():
        if local_name(key) == 'href' and name_of(element) != 'a':
            found.append(value.strip().removeprefix('#'))
        found += re.findall(r'url\(\s*[\'"]?\s*#([^\'")\s]*)', value)
    return [target for target in found if target in by_id]


# What is drawn


def expand_uses(root: ElementTree.Element) -> None:
    """Replace every <use> by a copy of its target, so that each piece can be left out alone."""
    by_id = {element.get('id', ''): element for element in root.iter() if element.get('id')}
    uses = [element for element in root.iter() if name_of(element) == 'use']
    shown = {target for use in uses for target in targets(use, by_id)}
    # Copied before anything in them is replaced.
    originals = {name: deepcopy(by_id[name]) for name in shown}

    def expand(parent: ElementTree.Element) -> None:
        for index, child in enumerate(parent):
            if name_of(child) == 'use':
                child = used(child, originals)
                parent[index] = child
            if name_of(child) not in NOT_DRAWN:
                expand(child)

    expand(root)


def used(
    use: ElementTree.Element, originals: Mapping[str, ElementTree.Element]
) -> ElementTree.Element:
    """Return a group with a copy of the target of a <use>."""
    kept = {}
    target = ''
    for key, value in use.attrib.items():
        if local_name(key) == 'href':
            target = value.strip().removeprefix('#')
        elif key not in ('x', 'y', 'width', 'height', 'id'):
            kept[key] = value
    group = ElementTree.Element(f'{SVG}g', kept)
    if target not in originals:
        return group
    x, y = (svg_paths.length(use.get(key)) for key in ('x', 'y'))
    group.set('transform', f'{use.get("transform", "")} translate({x:.9g} {y:.9g})'.strip())
    shown = deepcopy(originals[target])
    if name_of(shown) in ('symbol', 'svg'):
        shown.tag = f'{SVG}svg'
        for key in ('width', 'height'):
            shown.set(key, use.get(key) or shown.get(key) or '100%')
    group.append(shown)
    return group


def size_of(root: ElementTree.Element) -> tuple[float, float]:
    """Return width and height of the page in pixels of 1/96 inch."""
    box = svg_paths.view_box(root.get('viewBox'))
    sides = []
    for index, key in ((2, 'width'), (3, 'height')):
        given = (root.get(key) or '').strip()
        side = 0.0 if given.endswith('%') else svg_paths.length(given)
        sides.append(side if side > 0 else (box[index] if box is not None else 0.0))
    width, height = sides
    if not (0 < width < 1e7 and 0 < height < 1e7):
        raise ImageError('it has no size: give <svg> a width and a height, or a viewBox')
    return width, height


def nested_view(
    element: ElementTree.Element, viewport: tuple[float, float], matrix: np.ndarray
) -> tuple[tuple[float, float], np.ndarray]:
    """Return the size and matrix (3 x 3) inside an <svg> element."""
    width = svg_paths.length(element.get('width'), viewport[0], viewport[0])
    height = svg_paths.length(element.get('height'), viewport[1], viewport[1])
    box = svg_paths.view_box(element.get('viewBox'))
    x, y = number(element, 'x', viewport), number(element, 'y', viewport)
    aspect = element.get('preserveAspectRatio', '')
    matrix = matrix @ svg_paths.moved(x, y) @ svg_paths.view_matrix(box, width, height, aspect)
    return ((box[2], box[3]) if box is not None else (width, height)), matrix


def outline(element: ElementTree.Element, viewport: tuple[float, float]) -> list[SubPath]:
    """Return the lines of a shape in its own coordinates."""
    name = name_of(element)
    if name == 'path':
        return svg_paths.path_data(element.get('d', ''))
    if name in ('polyline', 'polygon'):
        values = [
            svg_paths.value_of(found)
            for found in svg_paths.NUMBER.findall(element.get('points', ''))
        ]
        points = list(zip(values[::2], values[1::2], strict=False))
        if len(points) < 2:
            return []
        return [SubPath(points[0], tuple(points[1:]), name == 'polygon')]
    if name == 'line':
        x1, y1, x2, y2 = (number(element, key, viewport) for key in ('x1', 'y1', 'x2', 'y2'))
        return [SubPath((x1, y1), ((x2, y2),), False)]
    if name == 'rect':
        x, y, width, height = (
            number(element, key, viewport) for key in ('x', 'y', 'width', 'height')
        )
        if width <= 0 or height <= 0:
            return []
        steps = ((x + width, y), (x + width, y + height), (x, y + height))
        return [SubPath((x, y), steps, True)]
    cx, cy = number(element, 'cx', viewport), number(element, 'cy', viewport)
    rx, ry = (number(element, key if name == 'ellipse' else 'r', viewport) for key in ('rx', 'ry'))
    return [svg_paths.ellipse(cx, cy, rx, ry)] if rx > 0 and ry > 0 else []


def number(element: ElementTree.Element, key: str, viewport: tuple[float, float]) -> float:
    """Return an attribute that is a length."""
    whole = viewport[1] if key in ('y', 'y1', 'y2', 'cy', 'height', 'ry') else viewport[0]
    return svg_paths.length(element.get(key), whole)


def first_length(text: str | None, otherwise: float) -> float:
    """Return the position of the first letter; a text may list one for each letter."""
    places = (text or '').replace(',', ' ').split()
    return svg_paths.length(places[0], otherwise=otherwise) if places else otherwise


def corners(x: float, y: float, width: float, height: float) -> np.ndarray:
    """Return the corners of a box."""
    return np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])


def area(points: np.ndarray) -> float:
    """Return the area that a closed line encloses, as a share of the square around it."""
    x, y = (points - points[0]).T
    enclosed = abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2
    return enclosed / max(float(np.ptp(points, axis=0).max()) ** 2, 1e-12)


def is_ink(paint: str) -> bool:
    """Return whether a paint is visible on white paper."""
    return paint not in ('none', 'transparent', '') and not WHITE.fullmatch(paint)


def name_of(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return local_name(element.tag)


def local_name(name: object) -> str:
    """Return a name without its namespace; comments have none."""
    return name.rpartition('}')[2] if isinstance(name, str) else ''
