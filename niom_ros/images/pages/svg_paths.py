"""The small languages inside SVG attributes: path data, transforms, lengths, style sheets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import math
import re

import numpy as np

from niom_ros.images.decoding import ImageError
from niom_ros.images.pages.line_work import SubPath

NUMBER = re.compile(r'[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?')
TOKEN = re.compile(rf'([MmLlHhVvCcSsQqTtAaZz])|({NUMBER.pattern})')
ARGUMENTS = {'M': 2, 'L': 2, 'H': 1, 'V': 1, 'C': 6, 'S': 4, 'Q': 4, 'T': 2, 'A': 7, 'Z': 0}
# The flags of an arc need no space before the next number.
ARC = re.compile(
    rf'\s*,?\s*({NUMBER.pattern})\s*,?\s*({NUMBER.pattern})\s*,?\s*({NUMBER.pattern})'
    rf'\s*,?\s*([01])\s*,?\s*([01])\s*,?\s*({NUMBER.pattern})\s*,?\s*({NUMBER.pattern})'
)
PIXELS = {  # per unit of length
    '': 1.0, 'px': 1.0, 'in': 96.0, 'mm': 96 / 25.4, 'cm': 96 / 2.54, 'pt': 96 / 72, 'pc': 16.0,
    'q': 96 / 101.6, 'em': 16.0, 'ex': 8.0,
}  # fmt: skip
MAX_NUMBER = 1e15  # larger than any drawing, and its square does not overflow
CIRCLE = 4 / 3 * (math.sqrt(2) - 1)  # distance of control points from the ends of a quarter circle

Point = tuple[float, float]


def path_data(text: str) -> list[SubPath]:
    """Return the sub-paths of path data, up to the first error, in absolute coordinates."""
    return PathReader().read(text)


class PathReader:
    """Follows the pen through path data."""

    def __init__(self) -> None:
        self._found: list[SubPath] = []
        self._start: Point = (0.0, 0.0)
        self._pen: Point = (0.0, 0.0)
        self._control: Point | None = None  # of the last curve, which S and T mirror
        self._curve = ''
        self._steps: list[tuple[float, ...]] = []

    def read(self, text: str) -> list[SubPath]:
        """Return the sub-paths."""
        for command, numbers in commands_in(text):
            self._draw(command, numbers)
        self._finish(closed=False)
        return self._found

    def _finish(self, closed: bool) -> None:
        if self._steps:
            self._found.append(SubPath(self._start, tuple(self._steps), closed))
        self._steps = []

    def _draw(self, command: str, numbers: list[float]) -> None:
        kind = command.upper()
        x, y = self._pen if command.islower() else (0.0, 0.0)
        curve, control = '', None
        if kind == 'Z':
            self._finish(closed=True)
            self._pen = self._start
        elif kind == 'M':
            self._finish(closed=False)
            self._start = self._pen = numbers[0] + x, numbers[1] + y
        elif kind == 'A':
            end = numbers[5] + x, numbers[6] + y
            self._steps += arc(self._pen, numbers[:5], end)
            self._pen = end
        elif kind in 'LHV':
            across = numbers[0] + x if kind != 'V' else self._pen[0]
            down = self._pen[1] if kind == 'H' else numbers[-1] + y
            self._line(across, down)
        else:
            points = [(a + x, b + y) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
            curve = 'cubic' if kind in 'CS' else 'quadratic'
            if kind in 'ST':
                points.insert(0, self._mirrored(curve))
            control = points[-2]
            if curve == 'quadratic':
                points = raised(self._pen, *points)
            self._steps.append(tuple(value for point in points for value in point))
            self._pen = points[-1]
        self._curve, self._control = curve, control

    def _line(self, x: float, y: float) -> None:
        self._steps.append((x, y))
        self._pen = x, y

    def _mirrored(self, curve: str) -> Point:
        if self._control is None or self._curve != curve:
            return self._pen
        return 2 * self._pen[0] - self._control[0], 2 * self._pen[1] - self._control[1]


def commands_in(text: str) -> Iterator[tuple[str, list[float]]]:
    """Yield each command with its numbers; like a browser, stop at the first error."""
    place, command = 0, ''
    numbers: list[float] = []
    while (token := TOKEN.search(text, place)) is not None:
        place = token.end()
        if token.group(1):
            command, numbers = token.group(1), []
            if command in 'Zz':
                yield command, []
                continue
            if command in 'Aa':
                while (arcs := ARC.match(text, place)) is not None:
                    place = arcs.end()
                    yield command, [value_of(number) for number in arcs.groups()]
            continue
        if not command or command in 'ZzAa':
            return
        numbers.append(value_of(token.group(2)))
        if len(numbers) == ARGUMENTS[command.upper()]:
            yield command, numbers
            numbers = []
            # Further pairs after a move are lines.
            command = {'M': 'L', 'm': 'l'}.get(command, command)


def value_of(number: str) -> float:
    """Return a number, unless it is too large to draw with."""
    value = float(number)
    if not abs(value) < MAX_NUMBER:
        raise ImageError(f'the number {number[:40]} in it is too large: export it again')
    return value


def raised(start: Point, control: Point, end: Point) -> list[Point]:
    """Return a quadratic curve as a cubic one, without its start."""
    first = start[0] + 2 / 3 * (control[0] - start[0]), start[1] + 2 / 3 * (control[1] - start[1])
    second = end[0] + 2 / 3 * (control[0] - end[0]), end[1] + 2 / 3 * (control[1] - end[1])
    return [first, second, end]


def arc(start: Point, numbers: list[float], end: Point) -> list[tuple[float, ...]]:
    """Return an elliptical arc as Bezier curves, after appendix B.2 of SVG 2."""
    rx, ry, degrees, large, sweep = numbers
    rx, ry = abs(rx), abs(ry)
    if math.dist(start, end) < 1e-12:
        return []
    if rx < 1e-12 or ry < 1e-12:
        return [end]
    turn = np.radians(degrees)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    first, last = np.array(start), np.array(end)
    half = rotation.T @ (first - last) / 2
    unit = half / (rx, ry)
    square = float(unit @ unit)
    if square > 1:  # too small to reach the end: scale it up
        rx, ry, square = rx * math.sqrt(square), ry * math.sqrt(square), 1.0
    size = np.array([rx, ry])
    unit = half / size
    side = -1.0 if bool(large) == bool(sweep) else 1.0
    middle = side * math.sqrt(max(0.0, 1 / square - 1)) * np.array([unit[1], -unit[0]])
    begin = math.atan2(*(unit - middle)[::-1])
    angle = math.atan2(*(-unit - middle)[::-1]) - begin
    if sweep and angle < 0:
        angle += 2 * math.pi
    elif not sweep and angle > 0:
        angle -= 2 * math.pi
    centre = rotation @ (middle * size) + (first + last) / 2
    count = max(1, math.ceil(abs(angle) / (math.pi / 2) - 1e-9))
    step = angle / count
    reach = 4 / 3 * math.tan(step / 4)
    curves = []
    for index in range(count):
        a, b = begin + index * step, begin + (index + 1) * step
        local = np.array(
            [
                [math.cos(a) - reach * math.sin(a), math.sin(a) + reach * math.cos(a)],
                [math.cos(b) + reach * math.sin(b), math.sin(b) - reach * math.cos(b)],
                [math.cos(b), math.sin(b)],
            ]
        )
        points = (local * size) @ rotation.T + centre
        curves.append(tuple(points.ravel().tolist()))
    return curves


def ellipse(cx: float, cy: float, rx: float, ry: float) -> SubPath:
    """Return an ellipse."""
    kx, ky = CIRCLE * rx, CIRCLE * ry
    return SubPath(
        (cx + rx, cy),
        (
            (cx + rx, cy + ky, cx + kx, cy + ry, cx, cy + ry),
            (cx - kx, cy + ry, cx - rx, cy + ky, cx - rx, cy),
            (cx - rx, cy - ky, cx - kx, cy - ry, cx, cy - ry),
            (cx + kx, cy - ry, cx + rx, cy - ky, cx + rx, cy),
        ),
        True,
    )


def as_path_data(sub_paths: list[SubPath]) -> str:
    """Return sub-paths as path data."""
    words = []
    for sub_path in sub_paths:
        words.append('M{:.9g} {:.9g}'.format(*sub_path.start))
        for step in sub_path.steps:
            numbers = ' '.join(f'{number:.9g}' for number in step)
            words.append(('L' if len(step) == 2 else 'C') + numbers)
        if sub_path.closed:
            words.append('Z')
    return ' '.join(words)


def transform(text: str) -> np.ndarray:
    """Return the matrix (3 x 3) of a transform attribute; unreadable parts are ignored."""
    matrix = np.eye(3)
    for name, inside in re.findall(r'(\w+)\s*\(([^)]*)\)', text):
        numbers = [value_of(number) for number in NUMBER.findall(inside)]
        matrix = matrix @ one_transform(name, numbers)
    return matrix


def one_transform(name: str, numbers: list[float]) -> np.ndarray:
    """Return the matrix of one function of a transform."""
    count = len(numbers)
    if name == 'matrix' and count == 6:
        a, b, c, d, e, f = numbers
        return np.array([[a, c, e], [b, d, f], [0, 0, 1]])
    if name == 'translate' and count in (1, 2):
        return moved(numbers[0], numbers[1] if count == 2 else 0.0)
    if name == 'scale' and count in (1, 2):
        return np.diag([numbers[0], numbers[-1], 1.0])
    if name == 'rotate' and count in (1, 3):
        turn = math.radians(numbers[0])
        cosine, sine = math.cos(turn), math.sin(turn)
        x, y = numbers[1:] if count == 3 else (0.0, 0.0)
        rotation = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
        return moved(x, y) @ rotation @ moved(-x, -y)
    if name in ('skewX', 'skewY') and count == 1:
        skewed = np.eye(3)
        skewed[(0, 1) if name == 'skewX' else (1, 0)] = math.tan(math.radians(numbers[0]))
        return skewed
    return np.eye(3)


def moved(x: float, y: float) -> np.ndarray:
    """Return the matrix (3 x 3) of a translation."""
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1.0]])


def length(text: str | None, whole: float = 0.0, otherwise: float = 0.0) -> float:
    """Return a length in pixels of 1/96 inch; a percentage is of the whole."""
    found = re.fullmatch(rf'\s*({NUMBER.pattern})\s*([a-zA-Z]*|%)\s*', text or '')
    if found is None:
        return otherwise
    value, unit = value_of(found.group(1)), found.group(2).lower()
    if unit == '%':
        return value / 100 * whole
    return value * PIXELS[unit] if unit in PIXELS else otherwise


def view_matrix(
    view_box: list[float] | None, width: float, height: float, aspect: str
) -> np.ndarray:
    """Return the matrix (3 x 3) from a view box to a viewport with its origin at 0."""
    if view_box is None:
        return np.eye(3)
    x, y, w, h = view_box
    across, down = width / w, height / h
    if 'none' in aspect:
        return np.diag([across, down, 1.0]) @ moved(-x, -y)
    scale = max(across, down) if 'slice' in aspect else min(across, down)
    shares = {'Min': 0.0, 'Mid': 0.5, 'Max': 1.0}
    aligned = re.search(r'x(Min|Mid|Max)Y(Min|Mid|Max)', aspect)
    left, top = aligned.groups() if aligned else ('Mid', 'Mid')
    offset = moved(shares[left] * (width - scale * w), shares[top] * (height - scale * h))
    return offset @ np.diag([scale, scale, 1.0]) @ moved(-x, -y)


def view_box(text: str | None) -> list[float] | None:
    """Return the four numbers of a view box, if they are valid."""
    numbers = [float(number) for number in NUMBER.findall(text or '')]
    usable = len(numbers) == 4 and all(map(math.isfinite, numbers)) and min(numbers[2:]) > 0
    return numbers if usable else None


@dataclass(frozen=True)
class StyleRule:
    """A rule of a style sheet, for elements with this name, all of these classes and this id."""

    tag: str  # '' or '*': any
    classes: frozenset[str]
    ids: frozenset[str]
    declared: dict[str, str]
    place: int  # in the sheet

    @property
    def weight(self) -> tuple[int, int, bool, int]:
        """Return the specificity: the greater one wins."""
        return len(self.ids), len(self.classes), self.tag not in ('', '*'), self.place

    @property
    def key(self) -> str:
        """Return what an element must have for the rule to apply: #id, .class or name."""
        for sign, names in (('#', self.ids), ('.', self.classes)):
            if names:
                return sign + min(names)
        return self.tag or '*'


class StyleSheet:
    """Style rules for element names, classes and ids; other selectors are ignored."""

    def __init__(self, text: str) -> None:
        self._rules: dict[str, list[StyleRule]] = {}
        place = 0
        text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
        for selectors, declared in re.findall(r'([^{}]+)\{([^{}]*)\}', text):
            style = declarations(declared)
            for selector in selectors.split(','):
                found = re.fullmatch(r'(\*|[\w-]+)?((?:[.#][\w-]+)*)', selector.strip())
                if found is not None:
                    tag, names = found.group(1) or '', found.group(2)
                    classes = frozenset(re.findall(r'\.([\w-]+)', names))
                    ids = frozenset(re.findall(r'#([\w-]+)', names))
                    rule = StyleRule(
                        tag=tag, classes=classes, ids=ids, declared=style, place=place
                    )
                    self._rules.setdefault(rule.key, []).append(rule)
                    place += 1

    def style_of(self, tag: str, attributes: Mapping[str, str]) -> dict[str, str]:
        """Return the properties that the rules give an element."""
        classes, ids = set(attributes.get('class', '').split()), {attributes.get('id', '')}
        keys = [tag, '*', *(f'.{name}' for name in classes), *(f'#{name}' for name in ids)]
        rules = [
            rule
            for key in keys
            for rule in self._rules.get(key, ())
            if rule.tag in ('', '*', tag) and rule.classes <= classes and rule.ids <= ids
        ]
        style: dict[str, str] = {}
        for rule in sorted(rules, key=lambda rule: rule.weight):
            style.update(rule.declared)
        return style


def declarations(text: str) -> dict[str, str]:
    """Return the properties of a style attribute or the body of a rule."""
    pairs = (entry.split(':', 1) for entry in text.split(';') if ':' in entry)
    return {name.strip().lower(): value.replace('!important', '').strip() for name, value in pairs}
