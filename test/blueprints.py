"""A blueprint that tests draw as a PDF or an SVG file: a plate with holes and all around it.

Coordinates are millimetres from the top left corner of an A4 sheet in landscape.
"""

from dataclasses import dataclass
from itertools import pairwise
import math

WIDTH, HEIGHT = 297.0, 210.0
THIN, THICK = 0.25, 0.5
KAPPA = 0.5522847498


@dataclass(frozen=True)
class Line:
    points: tuple
    width: float = THIN
    closed: bool = False
    filled: bool = False
    dashes: tuple = ()


@dataclass(frozen=True)
class Circle:
    x: float
    y: float
    radius: float
    width: float = THICK
    dashes: tuple = ()


@dataclass(frozen=True)
class Text:
    x: float
    y: float
    words: str
    size: float = 3.5


def rectangle(x, y, width, height, pen=THICK):
    return Line(((x, y), (x + width, y), (x + width, y + height), (x, y + height)), pen, True)


def plate(width=THICK):
    """Return what is the object: a plate with a cut corner, four holes, a bore and a slot."""
    outline = ((70, 60), (210, 60), (230, 80), (230, 150), (70, 150))
    holes = [Circle(x, y, 5, width) for x in (85, 205) for y in (75, 135)]
    slot = rectangle(175, 95, 15, 20, width)
    return [Line(outline, width, True), *holes, Circle(140, 105, 22, width), slot]


def arrow(tip, direction, kind='filled', size=3.0):
    """Return the head of an arrow that points in a direction."""
    (x, y), (dx, dy) = tip, direction
    half = size * math.tan(math.radians(10))
    back = x - size * dx, y - size * dy
    left = back[0] - half * dy, back[1] + half * dx
    right = back[0] + half * dy, back[1] - half * dx
    if kind == 'filled':
        return [Line((tip, left, right), THIN, True, True)]
    if kind == 'outlined':
        return [Line((tip, left, right), THIN, True)]
    if kind == 'bent':
        return [Line((left, tip, right))]
    if kind == 'strokes':
        return [Line((left, tip)), Line((tip, right))]
    assert kind == 'ticks'
    return [Line(((x - 1.5, y + 1.5), (x + 1.5, y - 1.5)))]


def horizontal_dimension(x0, x1, y, edge, words, kind='filled'):
    """Return a dimension line between x0 and x1, with extension lines from the edge."""
    beyond = 2.0 if y > edge else -2.0
    return [
        Line(((x0, y), (x1, y))),
        *arrow((x0, y), (-1, 0), kind),
        *arrow((x1, y), (1, 0), kind),
        *(Line(((x, edge + beyond / 2), (x, y + beyond))) for x in (x0, x1)),
        Text((x0 + x1) / 2 - 4, y - 1.5, words),
    ]


def vertical_dimension(y0, y1, x, edge, words, kind='filled'):
    beyond = 2.0 if x > edge else -2.0
    return [
        Line(((x, y0), (x, y1))),
        *arrow((x, y0), (0, -1), kind),
        *arrow((x, y1), (0, 1), kind),
        *(Line(((edge + beyond / 2, y), (x + beyond, y))) for y in (y0, y1)),
        Text(x + 1.5, (y0 + y1) / 2, words),
    ]


def leader(tip, knee, words, kind='filled'):
    length = math.dist(tip, knee)
    direction = (tip[0] - knee[0]) / length, (tip[1] - knee[1]) / length
    return [
        Line((knee, tip)),
        *arrow(tip, direction, kind),
        Line((knee, (knee[0] + 15, knee[1]))),
        Text(knee[0] + 1, knee[1] - 1, words),
    ]


def dimensions(kind='filled'):
    """Return five dimension lines and a leader, which has an arrow where others have ticks."""
    pointed = 'filled' if kind == 'ticks' else kind
    return [
        *horizontal_dimension(70, 230, 170, 150, '160', kind),
        *horizontal_dimension(85, 205, 162, 135, '120', kind),
        *vertical_dimension(60, 150, 45, 70, '90', kind),
        *vertical_dimension(75, 135, 55, 85, '60', kind),
        *horizontal_dimension(175, 190, 45, 95, '15', kind),
        *leader((140 + 22 * math.sqrt(0.5), 105 - 22 * math.sqrt(0.5)), (170, 75), 'D44', pointed),
    ]


def centre_lines():
    dashes = (6.0, 1.5, 1.0, 1.5)
    return [
        Line(((112, 105), (168, 105)), THIN, dashes=dashes),
        Line(((140, 77), (140, 133)), THIN, dashes=dashes),
    ]


def frame(as_lines=False):
    x, y, right, bottom = 20, 10, WIDTH - 10, HEIGHT - 10
    if not as_lines:
        return [rectangle(x, y, right - x, bottom - y)]
    corners = ((x, y), (right, y), (right, bottom), (x, bottom))
    return [Line((corners[i - 1], corners[i]), THICK) for i in range(4)]


def title_block():
    """Return the table in the lower right corner of the frame."""
    left, top, right, bottom = WIDTH - 110, HEIGHT - 38, WIDTH - 10, HEIGHT - 10
    lines = [Line(((left, bottom), (left, top))), Line(((left, top), (right, top)))]
    lines += [Line(((left, y), (right, y))) for y in (top + 9, top + 18)]
    lines.append(Line(((left + 55, top), (left + 55, bottom))))
    lines.append(Circle(right - 12, bottom - 5, 3, THIN))
    words = ('PLATE', 'DRAWN 3.4.', 'STEEL', 'SCALE 1:1', 'NO. 4711')
    places = [(left + 3 + 55 * (i % 2), top + 6 + 9 * (i // 2)) for i in range(5)]
    return lines + [Text(*place, word) for place, word in zip(places, words, strict=True)]


def blueprint(kind='filled', frame_as_lines=False, with_sheet=True):
    """Return the whole page."""
    sheet = [*frame(frame_as_lines), *title_block()] if with_sheet else []
    return [*plate(), *dimensions(kind), *centre_lines(), *sheet]


# The same in other words, as programs for drawing write it


STROKES = {
    '0': [[(0, 0), (4, 0), (4, 6), (0, 6), (0, 0)]],
    '1': [[(1, 1), (2, 0), (2, 6)]],
    '2': [[(0, 1), (1, 0), (3, 0), (4, 1), (4, 2), (0, 6), (4, 6)]],
    '4': [[(3, 6), (3, 0), (0, 4), (4, 4)]],
    '5': [[(4, 0), (0, 0), (0, 2.5), (3, 2.5), (4, 3.5), (4, 5), (3, 6), (0, 6)]],
    '6': [[(4, 0), (1, 1), (0, 3), (0, 6), (4, 6), (4, 3), (0, 3)]],
    '9': [[(0, 6), (3, 5), (4, 3), (4, 0), (0, 0), (0, 3), (4, 3)]],
    'A': [[(0, 6), (2, 0), (4, 6)], [(0.67, 4), (3.33, 4)]],
    'D': [[(0, 0), (0, 6), (2, 6), (4, 4), (4, 2), (2, 0), (0, 0)]],
    'E': [[(4, 0), (0, 0), (0, 6), (4, 6)], [(0, 3), (3, 3)]],
    'L': [[(0, 0), (0, 6), (4, 6)]],
    'P': [[(0, 6), (0, 0), (3, 0), (4, 1), (4, 2), (3, 3), (0, 3)]],
    'S': [[(4, 0), (0, 0), (0, 3), (4, 3), (4, 6), (0, 6)]],
    'T': [[(0, 0), (4, 0)], [(2, 0), (2, 6)]],
    '.': [[(1, 5.7), (1.2, 6)]],
}


def with_drawn_letters(parts):
    """Return parts with each text drawn with a pen; letters it has not learnt are left out."""
    drawn = []
    for part in parts:
        if not isinstance(part, Text):
            drawn.append(part)
            continue
        scale = 0.7 * part.size / 6
        for place, letter in enumerate(part.words):
            left, top = part.x + place * part.size * 0.7, part.y - 6 * scale
            for line in STROKES.get(letter, []):
                points = tuple((left + scale * x, top + scale * y) for x, y in line)
                drawn.append(Line(points))
    return drawn


def in_single_lines(parts):
    """Return parts with every line from corner to corner, and every dash, on its own."""
    single = []
    for part in parts:
        if not isinstance(part, Line) or part.filled:
            single.append(part)
            continue
        points = part.points + part.points[:1] * part.closed
        for start, stop in pairwise(points):
            for a, b in dashes_of(part, math.dist(start, stop)):
                ends = (
                    tuple(p + (q - p) * t for p, q in zip(start, stop, strict=True))
                    for t in (a, b)
                )
                single.append(Line(tuple(ends), part.width))
    return single


def dashes_of(part, length):
    """Return where along a line the pen is down, as fractions."""
    if not part.dashes:
        return [(0.0, 1.0)]
    found, along = [], 0.0
    for index, dash in enumerate(part.dashes * 100):
        if along >= length:
            break
        if index % 2 == 0:
            found.append((along / length, min(1.0, (along + dash) / length)))
        along += dash
    return found


# Files


def pdf_operators(parts, together=False):
    """Return parts as PDF writes them; together: all lines of a pen are one path."""
    scale = 72 / 25.4
    words = [f'{scale:.9f} 0 0 {-scale:.9f} 0 {HEIGHT * scale:.9f} cm']
    batches = {}
    for part in parts:
        if isinstance(part, Text):
            words.append(
                f'BT /F1 {part.size} Tf 1 0 0 -1 {part.x} {part.y} Tm ({part.words}) Tj ET'
            )
            continue
        paint = 'f' if getattr(part, 'filled', False) else 'S'
        key = (part.width, part.dashes, paint)
        batches.setdefault(key if together else (*key, len(batches)), []).append(outline(part))
    for (width, dashes, paint, *_), outlines in batches.items():
        dash = ' '.join(map(str, dashes))
        words.append(f'{width} w [{dash}] 0 d {" ".join(outlines)} {paint}')
    return '\n'.join(words)


def outline(part):
    if isinstance(part, Circle):
        x, y, r, k = part.x, part.y, part.radius, part.radius * KAPPA
        return (
            f'{x + r} {y} m {x + r} {y + k} {x + k} {y + r} {x} {y + r} c '
            f'{x - k} {y + r} {x - r} {y + k} {x - r} {y} c '
            f'{x - r} {y - k} {x - k} {y - r} {x} {y - r} c '
            f'{x + k} {y - r} {x + r} {y - k} {x + r} {y} c h'
        )
    first, *others = (f'{x:.6f} {y:.6f}' for x, y in part.points)
    return f'{first} m ' + ' '.join(f'{other} l' for other in others) + ' h' * part.closed


def pdf_file(pages, rotation=0, in_form=False, extra=''):
    """Return a PDF file of pages, each given by its operators."""
    size = f'{WIDTH * 72 / 25.4:.4f} {HEIGHT * 72 / 25.4:.4f}'
    objects = [
        '<< /Type /Catalog /Pages 2 0 R >>',
        '',
        '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ]
    kids = []
    for operators in pages:
        resources = '/Resources << /Font << /F1 3 0 R >> >>'
        if in_form:
            inner = f'q 0.5 0 0 0.5 20 30 cm {operators} Q'
            objects.append(
                f'<< /Type /XObject /Subtype /Form /BBox [-5000 -5000 5000 5000] '
                f'/Matrix [2 0 0 2 -40 -60] {resources} /Length {len(inner)} >>\n'
                f'stream\n{inner}\nendstream'
            )
            resources = f'/Resources << /XObject << /X1 {len(objects)} 0 R >> >>'
            operators = '/X1 Do'
        objects.append(f'<< /Length {len(operators)} >>\nstream\n{operators}\nendstream')
        contents = len(objects)
        objects.append(
            f'<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size}] /Rotate {rotation} {resources} '
            f'/Contents {contents} 0 R >>'
        )
        kids.append(f'{len(objects)} 0 R')
    objects[1] = f'<< /Type /Pages /Count {len(kids)} /Kids [{" ".join(kids)}] >>'
    data, places = b'%PDF-1.4\n', []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += f'{number} 0 obj\n{content}\nendobj\n'.encode('latin-1')
    table = ''.join(f'{place:010} 00000 n \n' for place in places)
    trailer = f'trailer << /Size {len(objects) + 1} /Root 1 0 R {extra} >>'
    head = f'xref\n0 {len(objects) + 1}\n0000000000 65535 f \n'
    return data + f'{head}{table}{trailer}\nstartxref\n{len(data)}\n%%EOF\n'.encode()


def svg_elements(parts, together=False):
    """Return parts as SVG elements."""
    words, batches = [], {}
    for part in parts:
        if isinstance(part, Text):
            words.append(
                f'<text x="{part.x}" y="{part.y}" font-size="{part.size}">{part.words}</text>'
            )
        elif isinstance(part, Circle):
            dashes = ' '.join(map(str, part.dashes)) or 'none'
            words.append(
                f'<circle cx="{part.x}" cy="{part.y}" r="{part.radius}" fill="none" '
                f'stroke="black" stroke-width="{part.width}" stroke-dasharray="{dashes}"/>'
            )
        else:
            key = (part.width, part.dashes, part.filled)
            corners = ' L'.join(f'{x:.6f} {y:.6f}' for x, y in part.points)
            line = f'M{corners}' + 'Z' * part.closed
            batches.setdefault(key if together else (*key, len(batches)), []).append(line)
    for (width, dashes, filled, *_), lines in batches.items():
        paint = 'fill="black"' if filled else f'fill="none" stroke="black" stroke-width="{width}"'
        dash = f' stroke-dasharray="{" ".join(map(str, dashes))}"' if dashes else ''
        words.append(f'<path d="{" ".join(lines)}" {paint}{dash}/>')
    return '\n'.join(words)


def svg_file(content, size='width="297mm" height="210mm" viewBox="0 0 297 210"'):
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{size}>\n{content}\n</svg>\n'
    )
