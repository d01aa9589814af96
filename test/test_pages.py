"""Pages of PDF and SVG files as references: what is drawn of them, and what is left out."""

import base64
from functools import partial
import io
import math
import subprocess
import sys
import threading
import time

from blueprints import (
    arrow,
    blueprint,
    centre_lines,
    Circle,
    dimensions,
    frame,
    HEIGHT,
    horizontal_dimension,
    in_single_lines,
    Line,
    pdf_file,
    pdf_operators,
    plate,
    rectangle,
    svg_elements,
    svg_file,
    Text,
    THICK,
    THIN,
    title_block,
    WIDTH,
    with_drawn_letters,
)
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
import pytest
from test_images import claimed_png

from niom_ros.cli.main import main
from niom_ros.images.decoding import ImageError
from niom_ros.images.pages.annotations import AnnotationParameters, find_annotations
from niom_ros.images.pages.drawing import draw_page
from niom_ros.images.pages.pdf import pdf_page
from niom_ros.images.pages.reading import environment_of_reader, read_reference_picture
from niom_ros.images.pages.svg import svg_page
from niom_ros.images.pages.svg_paths import as_path_data, path_data, StyleSheet
from niom_ros.references.folder import read_reference

FAST = 72.0  # pixels per inch, where they do not matter
ALL = 'left out of page 0: 11 texts, 6 dimension lines, 2 centre lines, frame, title block'


@pytest.fixture
def in_this_process(monkeypatch):
    """Read pages in the process of the tests: starting another one takes longer than reading."""
    monkeypatch.setattr('niom_ros.images.pages.reading.read_apart', draw_page)


@pytest.fixture
def read(tmp_path, in_this_process):
    """Return a function that reads the picture of a file with this content."""

    def read(data, name='page.pdf', page=0, page_dpi=FAST):
        file = tmp_path / name
        file.write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_reference_picture(file, page, page_dpi)

    return read


def as_pdf(parts, **how):
    return pdf_file([pdf_operators(parts, **how)])


def as_svg(parts, **how):
    return svg_file(svg_elements(parts, **how))


def ink(picture):
    return picture[:, :, 1] < 224  # the thinnest lines are grey


def assert_shows(picture, expected, tolerance=0):
    """Compare the ink of two pictures; the tolerance is for ends and corners of lines."""
    assert picture.shape == expected.shape
    shown, wanted = ink(picture), ink(expected)
    assert wanted.sum() > 1000
    assert (shown & ~wanted).sum() <= tolerance, 'something was not left out'
    assert (wanted & ~shown).sum() <= tolerance, 'something of the object is missing'


# What is left out


@pytest.mark.parametrize('write', [as_pdf, as_svg])
@pytest.mark.parametrize('kind', ['filled', 'outlined', 'bent', 'strokes', 'ticks'])
@pytest.mark.parametrize('together', [False, True])
def test_only_the_object_is_left_of_a_blueprint(read, write, kind, together):
    page = read(write(blueprint(kind, frame_as_lines=together), together=together))
    assert_shows(page.image, read(write(plate())).image)
    assert page.notes == (ALL,)


def test_each_kind_of_annotation_is_left_out_alone(read):
    expected = read(as_pdf(plate())).image
    for parts, words in (
        (dimensions(), '6 texts, 6 dimension lines'),
        (centre_lines(), '2 centre lines'),
        ([*frame(), *title_block()], '5 texts, frame, title block'),
        ([Text(100, 40, 'PLATE')], '1 text'),
    ):
        page = read(as_pdf([*plate(), *parts]))
        assert_shows(page.image, expected)
        assert page.notes == (f'left out of page 0: {words}',)


def test_one_pen_for_everything_is_not_an_obstacle(read):
    parts = [
        Line(part.points, THIN, part.closed, part.filled, part.dashes)
        if isinstance(part, Line)
        else part
        for part in [*plate(THIN), *dimensions(), *centre_lines(), *frame(), *title_block()]
    ]
    expected = read(as_pdf(plate(THIN))).image
    assert_shows(read(as_pdf(parts)).image, expected)
    # The corners of an outline of single lines are not mitred.
    assert_shows(read(as_pdf(in_single_lines(parts), together=True)).image, expected, 20)


def test_letters_that_are_drawn_with_a_pen(read):
    page = read(as_pdf(with_drawn_letters(blueprint())))
    assert_shows(page.image, read(as_pdf(plate())).image)
    assert '6 dimension lines' in page.notes[0]
    assert 'title block' in page.notes[0]


@pytest.mark.parametrize('ending', ['pdf', 'svg'])
def test_a_page_of_another_program(read, ending):
    # Matplotlib writes letters as outlines into SVG, and arrows as curves with bent heads.
    def drawn(annotated):
        figure = plt.figure(figsize=(WIDTH / 25.4, HEIGHT / 25.4))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        axes.axis('off')
        for part in plate():
            if isinstance(part, Circle):
                shape = plt.Circle((part.x, part.y), part.radius, fill=False)
            else:
                shape = plt.Polygon(part.points, closed=True, fill=False)
            axes.add_patch(shape)
        if annotated:
            for start, stop, style in (
                ((70, 170), (230, 170), '<->'),
                ((45, 60), (45, 150), '<|-|>'),
            ):
                arrows = {'arrowstyle': style, 'shrinkA': 0, 'shrinkB': 0, 'lw': 0.5}
                axes.annotate('', start, stop, arrowprops=arrows)
            axes.text(140, 168, '160.5')
            axes.text(43, 105, '90', rotation=90)
            axes.plot([112, 168], [105, 105], 'k-.', lw=0.5)
        file = io.BytesIO()
        figure.savefig(file, format=ending)
        plt.close(figure)
        return file.getvalue()

    page = read(drawn(True))
    assert page.notes == ('left out of page 0: 2 texts, 2 dimension lines, 1 centre line',)
    assert_shows(page.image, read(drawn(False)).image)


def test_forms_and_turned_pages(read):
    expected = read(as_pdf(plate())).image
    for together in (False, True):
        operators = pdf_operators(blueprint(), together)
        in_form = read(pdf_file([operators], in_form=True))
        assert in_form.notes == (ALL,)
        assert_shows(in_form.image, expected)
        turned = read(pdf_file([operators], rotation=90))
        assert turned.notes == (ALL,)
        assert_shows(np.rot90(turned.image), expected, 20)


def test_groups_styles_symbols_and_markers(read):
    holes = ''.join(
        f'<use xlink:href="#hole" x="{x - 10}" y="{y - 10}" width="20" height="20"/>'
        for x in (85, 205)
        for y in (75, 135)
    )
    content = f"""
      <style>.d {{ stroke: #000; stroke-width: .25; fill: none }} line.w {{ stroke: white }}
      </style>
      <defs>
        <marker id="a" markerWidth="8" markerHeight="8" orient="auto" refX="8" refY="4">
          <path d="M0 2 L8 4 L0 6 z"/>
        </marker>
        <symbol id="hole" viewBox="0 0 20 20">
          <circle cx="10" cy="10" r="5" style="fill: none; stroke: black; stroke-width: 0.5"/>
        </symbol>
        <line id="extension" y1="151" y2="172"/>
      </defs>
      <g transform="translate(10 20) scale(2)"><g transform="translate(-5,-10) scale(.5)">
        {svg_elements([plate()[0], *plate()[5:]])}
      </g></g>
      {holes}
      <line class="d" x1="70" y1="170" x2="230" y2="170" style="marker: url(#a)"/>
      <g class="d"><use href="#extension" x="70"/></g>
      <g class="d" transform="rotate(90 230 160)"><path d="M221 160 h21"/></g>
      <g transform="rotate(-90 60 100)"><text><tspan x="60" y="100">90</tspan></text></g>
      <line class="w" x1="100" y1="100" x2="130" y2="120"/>
      {svg_elements([*frame(), *title_block()])}
    """
    page = read(svg_file(content))
    expected = f'{svg_elements(plate())}<path d="M100 100 L130 120" stroke="white"/>'
    assert_shows(page.image, read(svg_file(expected)).image)
    words = 'left out of page 0: 6 texts, 1 dimension line, frame, title block'
    assert page.notes == (words,)


def test_zones_and_marks_belong_to_the_frame(read):
    marks = [Line(((x, 5), (x, 10))) for x in range(50, 290, 50)]
    zones = [Text(x + 20, 9, str(x // 50)) for x in range(50, 250, 50)]
    outer = rectangle(5, 5, WIDTH - 10, HEIGHT - 10, THIN)
    across = Line(((WIDTH / 2, 0), (WIDTH / 2, 15)), 0.7)
    page = read(as_pdf([*plate(), outer, rectangle(10, 10, 277, 190), *marks, *zones, across]))
    assert page.notes == ('left out of page 0: 4 texts, frame',)
    assert_shows(page.image, read(as_pdf(plate())).image)


def test_a_dimension_line_that_its_text_cuts_in_two(read):
    halves = [
        Line(((70, 170), (140, 170))),
        Line(((160, 170), (230, 170))),
        *arrow((70, 170), (-1, 0)),
        *arrow((230, 170), (1, 0)),
    ]
    expected = read(as_pdf(plate())).image
    for extra in ([], [Text(145, 171, '160')]):
        page = read(as_pdf([*plate(), *halves, *extra]))
        assert_shows(page.image, expected)


# What stays


def screws():
    """Return rows of bolts and screws, and rhombs with an axis, which resemble arrows."""
    parts = []
    for x in range(60, 240, 18):
        hexagon = [
            (x + 6 * math.cos(a * math.pi / 3), 90 + 6 * math.sin(a * math.pi / 3))
            for a in range(6)
        ]
        parts += [Line(tuple(hexagon), THICK, True), Circle(x, 90, 3), Circle(x, 130, 3)]
        parts += [Line(((x - 2, 130), (x + 2, 130)), THICK), Line(((x, 128), (x, 132)), THICK)]
        rhomb = Line(((x - 6, 50), (x, 46), (x + 6, 50), (x, 54)), THICK, True)
        parts += [*in_single_lines([rhomb]), Line(((x - 6, 50), (x + 6, 50)), THICK)]
    return parts


def panel():
    """Return a plate that fills the page, with knobs and rows of small holes."""
    knobs = [Circle(40 + 30 * i, 100, 8) for i in range(8)]
    holes = [Circle(40 + 6 * i, 150, 2) for i in range(12)]
    return [rectangle(3, 3, WIDTH - 6, HEIGHT - 6), *knobs, *holes, rectangle(200, 150, 60, 40)]


def hatching():
    return [
        rectangle(70, 60, 100, 60),
        *(Line(((70 + 2 * i, 120), (73 + 2 * i, 117))) for i in range(45)),
        *(Line(((70, 60 + 2 * i), (73, 58 + 2 * i))) for i in range(1, 29)),
        Line(((60, 90), (180, 90)), THICK, dashes=(4.0, 2.0)),  # a hidden edge
    ]


def leave_out_only_texts_above(max_pieces, monkeypatch):
    limited = partial(find_annotations, parameters=AnnotationParameters(max_pieces=max_pieces))
    monkeypatch.setattr('niom_ros.images.pages.drawing.find_annotations', limited)


@pytest.mark.parametrize('parts', [plate(), screws(), panel(), hatching()])
@pytest.mark.parametrize('write', [as_pdf, as_svg])
def test_nothing_of_a_bare_object_is_left_out(read, write, parts, monkeypatch):
    page = read(write(parts))
    assert page.notes == ()
    leave_out_only_texts_above(0, monkeypatch)
    assert_shows(page.image, read(write(parts)).image)


def test_a_plate_that_fills_the_page_is_not_a_frame(read):
    texts = [Text(35 + 30 * i, 120, 'IN') for i in range(8)]
    page = read(as_pdf([*panel(), *texts]))
    assert_shows(page.image, read(as_pdf(panel())).image)
    assert page.notes[0] == 'left out of page 0: 8 texts'
    assert 'if it is a frame, give a region' in page.notes[1]
    # The dimension line ends on its edges.
    measured = [*panel(), *horizontal_dimension(3, 294, 180, 180, '291')]
    assert_shows(read(as_pdf(measured)).image, read(as_pdf(panel())).image)


def test_a_page_of_nothing_but_annotations_is_kept(read):
    for write in (as_pdf, as_svg):
        page = read(write([Text(20, 100, 'NOTHING BUT LETTERS', 20)]))
        assert page.notes == ('page 0 would be empty without 1 text: they were kept',)
    # SVG is not compared: the letters depend on the fonts of the machine.
    assert ink(read(as_pdf([Text(20, 100, 'NOTHING BUT LETTERS', 20)])).image).sum() > 3000


def test_a_scan_is_reported(read):
    buffer = io.BytesIO()
    Image.fromarray(np.full((300, 400), 200, np.uint8)).save(buffer, 'PDF')
    page = read(buffer.getvalue())
    assert 'is a scan or a photo' in page.notes[0]
    assert page.image.shape == (300, 400, 3)


def test_too_many_lines_are_reported(read, monkeypatch):
    leave_out_only_texts_above(20, monkeypatch)
    page = read(as_pdf(blueprint()))
    assert page.notes[0] == 'left out of page 0: 11 texts'
    assert 'too many to tell dimension lines' in page.notes[1]
    assert ink(page.image).sum() > ink(read(as_pdf(plate())).image).sum()


# Pages and resolution


def test_pages_are_counted_from_0(read):
    first, second = pdf_operators(plate()), pdf_operators([Circle(100, 100, 50)])
    pages = pdf_file([first, second])
    assert_shows(read(pages).image, read(pdf_file([first])).image)
    assert_shows(read(pages, page=1).image, read(pdf_file([second])).image)
    with pytest.raises(
        ImageError, match=r'page\.pdf: there is no page 2: it has 2 pages, counted from 0'
    ):
        read(pages, page=2)
    with pytest.raises(ImageError, match='there is no page 1: an SVG file has one page'):
        read(as_svg(plate()), page=1)


@pytest.mark.parametrize('write', [as_pdf, as_svg])
def test_resolution(read, write):
    assert read(write(plate()), page_dpi=0.0).image.shape == (1131, 1600, 3)
    page = read(write(blueprint()), page_dpi=100.0).image
    assert page.shape == (827, 1169, 3)
    # The left edge of the plate is 70 mm from that of the page, its lower one 150 mm.
    dark = 255 - page[:, :, 1].astype(int)
    columns = dark[500:550, 250:300].mean(axis=0)
    rows = dark[560:620, 400:500].mean(axis=1)
    assert (columns @ np.arange(250.5, 300)) / columns.sum() == pytest.approx(275.6, abs=0.4)
    assert (rows @ np.arange(560.5, 620)) / rows.sum() == pytest.approx(590.6, abs=0.4)


@pytest.mark.parametrize(
    ('size', 'shape'),
    [
        ('width="297" height="210"', (1131, 1600, 3)),
        ('viewBox="0 0 297 210"', (1131, 1600, 3)),
        ('width="100%" height="100%" viewBox="0 0 297 210"', (1131, 1600, 3)),
        # 100 pixels of paper above and below it.
        ('width="29.7cm" height="247.125mm" viewBox="0 0 297 210"', (1331, 1600, 3)),
    ],
)
def test_sizes_of_svg_pages(read, size, shape):
    page = read(svg_file(svg_elements(blueprint(with_sheet=False)), size), page_dpi=0.0).image
    assert page.shape == shape
    middle = page[(shape[0] - 1131) // 2 :][:1131]
    assert_shows(middle, read(as_svg(plate()), page_dpi=0.0).image, 20)


def test_the_content_tells_what_a_file_is(read, coffee, tmp_path):
    Image.fromarray(coffee).save(tmp_path / 'photo.png')
    photo = (tmp_path / 'photo.png').read_bytes()
    assert (read(photo, 'photo.pdf', page_dpi=0.0).image == coffee).all()
    assert read(as_pdf(plate()), 'page.png').image.shape == (595, 842, 3)
    assert read(b'\xef\xbb\xbf\n' + as_svg(plate()).split('?>')[1].encode()).notes == ()
    utf16 = as_svg(plate()).replace('UTF-8', 'UTF-16').encode('utf-16')
    assert read(utf16, 'page').image.shape == (595, 842, 3)


def test_an_image_has_no_resolution_to_choose(read, coffee_file):
    with pytest.raises(ImageError, match='page_dpi is for PDF and SVG: leave it at 0'):
        read_reference_picture(coffee_file, page_dpi=300.0)
    assert read_reference_picture(coffee_file).notes == ()


# The process that reads


def test_threads_may_read_pages_at_once(tmp_path):
    file = tmp_path / 'plate.pdf'
    file.write_bytes(as_pdf(plate()))
    with file.open('rb') as stream:
        expected = draw_page(stream, 'pdf', 0, FAST).image
    file = tmp_path / 'page.pdf'
    file.write_bytes(as_pdf(blueprint()))
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(read_reference_picture(file, page_dpi=FAST)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 2
    for page in seen:
        assert page.notes == (ALL,)
        assert_shows(page.image, expected)
    seen[0].image[:] = 0  # it may be written to


def test_a_page_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    blurred = '<g filter="url(#f)"><rect width="297" height="210"/></g>' * 20
    blur = '<filter id="f"><feGaussianBlur stdDeviation="50"/></filter>'
    file = tmp_path / 'page.svg'
    file.write_text(svg_file(f'{blur}{blurred}'))
    monkeypatch.setattr('niom_ros.images.pages.reading.DEADLINE', 1.0)
    began = time.monotonic()
    with pytest.raises(ImageError, match=r'page\.svg: it takes too long to draw: simplify it'):
        read_reference_picture(file)
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    ('program', 'words'),
    [
        ('import os; os.abort()', 'crashed the reader: give a picture of it instead$'),
        ('undefined', r'crashed the reader: .* \(NameError: '),
        (
            'from niom_ros.images.pages import child, drawing; '
            'drawing.draw_page = lambda *_: bytearray(5 * 10**9); child.main()',
            'it takes too much memory to draw: simplify it',
        ),
    ],
)
def test_a_reader_that_crashes_is_reported(tmp_path, monkeypatch, program, words):
    file = tmp_path / 'page.pdf'
    file.write_bytes(as_pdf(plate()))
    monkeypatch.setattr('niom_ros.images.pages.reading.READER', ('-c', program))
    with pytest.raises(ImageError, match=words):
        read_reference_picture(file, page_dpi=FAST)


def test_the_reader_takes_no_modules_from_where_the_user_is(tmp_path, monkeypatch):
    file = tmp_path / 'page.pdf'
    file.write_bytes(b'%PDF-1.4')
    (tmp_path / 'json.py').write_text('raise SystemExit(1)')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImageError, match=r'^page\.pdf: the PDF file is damaged'):
        read_reference_picture('page.pdf')


def test_the_reader_starts_without_networks():
    program = (
        'import sys, niom_ros.images.pages.child, niom_ros.images.pages.drawing; '
        'sys.exit("torch" in sys.modules)'
    )
    assert (
        subprocess.run([sys.executable, '-c', program], env=environment_of_reader()).returncode
        == 0
    )


# What is refused


def encrypted():
    secret = '41' * 32
    rules = f'/Filter /Standard /V 1 /R 2 /P -4 /O <{secret}> /U <{secret}>'
    return pdf_file([''], extra=f'/Encrypt << {rules} >> /ID [<00> <00>]')


def with_image(target):
    return svg_file(f'{svg_elements(plate())}<image xlink:href="{target}" width="9" height="9"/>')


def png_data(content):
    return 'data:image/png;base64,' + base64.b64encode(content).decode()


def drawn_as(path):
    return svg_file(f'<path d="{path}" stroke="black"/>')


def bomb():
    levels = ''.join(
        f'<g id="l{i}">' + f'<use href="#l{i - 1}"/>' * 10 + '</g>' for i in range(1, 9)
    )
    return svg_file(f'<defs><path id="l0" d="M0 0h1"/>{levels}</defs><use href="#l8"/>')


DOCTYPE = '<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
DEFAULTS = '<!DOCTYPE svg [<!ATTLIST rect style CDATA "fill: red">]>'
OBJECT = svg_file('<rect width="9" height="9"/>')
BAD_FILES = {
    'it is encrypted: save it without a password': encrypted(),
    'the PDF file is damaged': b'%PDF-1.4\nnothing of the kind',
    'page 0 is empty: name a page': pdf_file(['']),
    'page 0 is empty': svg_file('<defs><path d="M0 0 L9 9" stroke="black"/></defs>'),
    'the SVG file is damaged': '<svg xmlns="http://www.w3.org/2000/svg"><g></svg>',
    'declares entities or attributes: save': OBJECT.replace('<svg', f'{DOCTYPE}<svg'),
    'declares entities or attributes': OBJECT.replace('<svg', f'{DEFAULTS}<svg'),
    'its root element is <html>': '<html><svg/></html>',
    r'its root element is <svg>, not <svg xmlns=': '<svg width="9" height="9"/>',
    'contains a script': svg_file('<script>alert(1)</script>'),
    r'<image> refers to something outside of the file \(/etc': with_image('/etc/a.png'),
    r'outside of the file \(https://': with_image('https://example.org/a.png'),
    r'outside of the file \(data:image/svg': with_image('data:image/svg+xml,&lt;svg/&gt;'),
    r'<use> refers to something outside': svg_file('<use href="other.svg#a"/>'),
    r'refers to something outside of the file \(a.png\)': svg_file('<g fill="url(a.png)"/>'),
    'imports styles from another file': svg_file('<style>@import "a.css";</style>'),
    'takes styles from another file': '<?xml-stylesheet href="a.css"?>' + OBJECT.split('?>')[1],
    'has no size: give <svg> a width': svg_file('<g/>', size=''),
    'draws more than 200000 elements': bomb(),
    'takes more than 30 million characters': svg_file(
        f'<path id="a" d="M0 0{"h1 h-1" * 5000}"/>' + '<use href="#a"/>' * 2000
    ),
    'the number 1e200 in it is too large': drawn_as('M0 0 A 1e200 1e200 0 0 1 9 9'),
    'the number 1e999 in it is too large': drawn_as('M0 0 A5 5 1e999 0 1 9 9'),
    'the number -1e99 in it is too large': drawn_as('M0 0 L -1e99 0'),
    'the number 1e98 in it is too large': svg_file('<polyline points="0,0 1e98,9"/>'),
    'the number 1e97 in it is too large': svg_file('<line x2="1e97" stroke="red"/>'),
    'the number 1e96 in it is too large': svg_file('<g transform="scale(1e96)"/>'),
    'refer to each other in a circle': svg_file('<g id="a"><use href="#a"/></g>'),
    'nested more than 100 deep': svg_file('<g>' * 200 + '</g>' * 200),
    'compressed: unpack it': b'\x1f\x8b\x08\x00',
    'a picture in it cannot be used: the image has more pixels than': with_image(
        png_data(claimed_png(60_000, 60_000))
    ),
    'a picture in it cannot be used: not an image': with_image('data:image/png;base64,AAAA'),
}


@pytest.mark.parametrize('words', BAD_FILES)
def test_bad_files_are_refused_with_a_reason(read, words):
    name = 'page.svg' if 'compressed' in words else 'page'
    with pytest.raises(ImageError, match=words):
        read(BAD_FILES[words], name)


def test_an_embedded_picture_is_drawn(read, monkeypatch):
    buffer = io.BytesIO()
    Image.new('RGB', (4, 4), (0, 0, 200)).save(buffer, 'PNG')
    page = with_image(png_data(buffer.getvalue()))
    assert read(page).image[10, 10].tolist() == [0, 0, 200]
    monkeypatch.setattr('niom_ros.images.pages.svg.MAX_PIXELS', 15)
    with pytest.raises(ImageError, match='its pictures have more than'):
        read(page)


def test_pictures_and_lines_count_as_often_as_they_are_drawn(read, monkeypatch):
    buffer = io.BytesIO()
    Image.new('RGB', (4, 4)).save(buffer, 'PNG')
    picture = with_image(png_data(buffer.getvalue())).replace('<image', '<image id="a"')
    line = svg_file('<path id="a" d="M0 0 L200 9 L9 200" stroke="black"/>')
    twice = '<use href="#a"/><use href="#a"/></svg>'
    monkeypatch.setattr('niom_ros.images.pages.svg.MAX_PIXELS', 47)
    monkeypatch.setattr('niom_ros.images.pages.svg.MAX_STEPS', 30)
    read(picture)
    with pytest.raises(ImageError, match='its pictures have more than'):
        read(picture.replace('</svg>', twice))
    monkeypatch.setattr('niom_ros.images.pages.svg.MAX_STEPS', 5)
    read(line)
    with pytest.raises(ImageError, match='draws more than 5 lines'):
        read(line.replace('</svg>', twice))


def test_forms_count_as_objects(read, monkeypatch):
    page = pdf_file([pdf_operators([Circle(100, 100, 50)])], in_form=True)
    read(page)
    monkeypatch.setattr('niom_ros.images.pages.pdf.MAX_OBJECTS', 1)
    with pytest.raises(ImageError, match='more than 1 objects'):
        read(page)


@pytest.mark.parametrize(
    'far', ['M0 0 L1e14 0', 'M10 10 h1e14 v1e14', 'M0 0 A 5 5 0 0 1 1e-200 0 L 9 1e14']
)
def test_what_is_drawn_far_from_the_page_is_not_an_obstacle(read, far):
    page = read(svg_file(svg_elements(blueprint()) + f'<path d="{far}" stroke="black"/>'))
    assert_shows(page.image, read(as_svg(plate())).image)
    assert page.notes == (ALL,)


@pytest.mark.parametrize('error', [ZeroDivisionError('by zero'), ValueError('by zero')])
def test_numbers_that_cannot_be_computed_with_are_reported(read, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr('niom_ros.images.pages.drawing.find_annotations', fail)
    with pytest.raises(ImageError, match=r'its numbers make no sense \(by zero\): give a picture'):
        read(as_pdf(plate()))


@pytest.mark.parametrize('page_dpi', [-1.0, math.nan, math.inf])
def test_a_resolution_without_meaning_is_refused(read, page_dpi):
    with pytest.raises(ImageError, match=r'page_dpi is .*: give pixels per inch, or 0'):
        read(as_pdf(plate()), page_dpi=page_dpi)


@pytest.mark.parametrize('write', [as_pdf, as_svg])
def test_a_page_of_too_many_pixels_is_refused_before_it_is_drawn(read, write, monkeypatch):
    with pytest.raises(
        ImageError, match=r'at 2000 dpi the page has 23386 x 16535 pixels.*at most 719 dpi'
    ):
        read(write(plate()), page_dpi=2000.0)
    monkeypatch.setattr('niom_ros.images.pages.drawing.MAX_PIXELS', 860_000)
    with pytest.raises(ImageError, match='use at most 94 dpi'):
        read(write(plate()), page_dpi=95.0)
    assert read(write(plate()), page_dpi=94.0).image.size < 3 * 860_000


def test_files_that_are_too_large_are_not_read(read, monkeypatch):
    monkeypatch.setattr('niom_ros.images.pages.drawing.MAX_SVG_BYTES', 1_000_000)
    with pytest.raises(ImageError, match='2 MB, over the limit of 1 MB'):
        read(svg_file(' ' * 2_000_000), 'page.svg')


def test_a_file_that_is_not_a_page_is_reported_like_any_other(read):
    with pytest.raises(ImageError, match='not an image of a known format'):
        read('no page', 'page.pdf', page_dpi=0.0)
    with pytest.raises(ImageError, match='there is no file'):
        read_reference_picture('missing.pdf')


# Where pages are used


def test_a_page_in_a_folder_of_references(tmp_path, in_this_process):
    pages = [pdf_operators(plate()), pdf_operators(blueprint())]
    (tmp_path / 'plate.pdf').write_bytes(pdf_file(pages))
    plain = read_reference(tmp_path / 'plate.pdf')
    assert (plain.id, plain.image.shape, plain.notes) == ('plate', (1131, 1600, 3), ())
    described = tmp_path / 'other.yaml'
    described.write_text('image: plate.pdf\npage: 1\npage_dpi: 100\nregion: [200, 200, 700, 400]')
    page = read_reference(described)
    assert page.image.shape == (827, 1169, 3)
    assert page.notes == (ALL.replace('page 0', 'page 1'),)
    described.write_text('image: plate.pdf\npage: -1')
    with pytest.raises(ImageError.__base__, match='pages are counted from 0'):
        read_reference(described)


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (['--page', '7'], 'there is no page 7: it has 1 page, counted from 0'),
        (['--page', '-1'], 'page is -1: pages are counted from 0'),
        (['--page-dpi', 'nan'], "the page_dpi has 'nan' where a number belongs"),
        (['--page-dpi', '9000'], 'use at most'),
    ],
)
def test_mistakes_on_the_command_line_are_one_clear_line(
    options, words, coffee_file, capsys, tmp_path, in_this_process
):
    file = tmp_path / 'page.pdf'
    file.write_bytes(as_pdf(plate()))
    assert main(['match', str(file), str(coffee_file), *options]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_niom_match_finds_a_page_and_says_what_was_left_out(tmp_path, capsys):
    # The camera sees the page as it was printed, without annotations, smaller and turned.
    printed = tmp_path / 'page.pdf'
    printed.write_bytes(
        pdf_file(['', pdf_operators([*screws(), *plate(), *frame(), *title_block()])])
    )
    drawn = read_reference_picture(printed, 1, 100.0).image
    Image.fromarray(drawn).rotate(8, fillcolor='white').save(tmp_path / 'photo.png')
    command = ['match', printed, tmp_path / 'photo.png', '--page', '1', '--page-dpi', '90']
    code = main([*map(str, command), '--max-keypoints', '512', '--weighting', 'none'])
    said = capsys.readouterr().out
    assert said.startswith('left out of page 1: 5 texts, frame, title block\n')
    assert (code, said.splitlines()[1][:3]) == (0, 'OK:')


def test_the_pieces_to_leave_out_are_looked_at_once(tmp_path):
    class Watched(frozenset):
        times = 0

        def __iter__(self):
            self.times += 1
            return super().__iter__()

    file = tmp_path / 'page.pdf'
    file.write_bytes(as_pdf(blueprint()))
    with pdf_page(file.read_bytes(), 0) as page:
        pieces = Watched(range(5, 25))
        page.picture_without(pieces, (100, 70))
    assert pieces.times == 1


# The languages inside SVG


def test_path_data_means_the_same_in_all_its_forms():
    plain = path_data('M 10 10 L 20 10 L 20 20 L 10 10 Z M 0 0 L 5 5')
    assert [path.closed for path in plain] == [True, False]
    for text in (
        'm10,10 10,0 0,10-10-10zM0 0 5 5',
        'M10 10H20V20L10 10ZM0,0L5,5',
        'M1e1 10h10v10l-10-10zm-10-10l5 5',
    ):
        assert path_data(text) == plain
    assert path_data(as_path_data(plain)) == plain
    smooth = path_data('M0 0C1 1 2 1 3 0S5-1 6 0')[0]
    assert smooth.steps[1] == (4, -1, 5, -1, 6, 0)
    quadratic = path_data('M0 0Q3 3 6 0T12 0')[0]
    assert quadratic.steps[1] == pytest.approx((8, -2, 10, -2, 12, 0))
    assert path_data('M0 0 L5 5 oops') == path_data('M0 0 L5 5')


def test_arcs_are_round():
    # The flags of the second one stand without spaces.
    for text in ('M 10 0 A 10 10 0 0 1 -10 0', 'M10 0a10 10 0 01-20 0'):
        (half,) = path_data(text)
        points = half.flattened(np.eye(3)[:2])
        assert np.linalg.norm(points, axis=1) == pytest.approx(10, abs=0.01)
        assert points[:, 1].max() == pytest.approx(10, abs=0.01)
        assert points[-1] == pytest.approx((-10, 0))
    (small,) = path_data('M10 0A1 1 0 0 1 -10 0')  # grown until it reaches
    assert small.flattened(np.eye(3)[:2])[:, 1].max() == pytest.approx(10, abs=0.01)


def test_the_first_letter_of_a_text_tells_where_it_begins():
    for place in ('70', '70 75 80', '70,75,80', ' 70 , 75'):
        page = svg_file(f'<text><tspan x="{place}" y="100 100 100">160</tspan></text>')
        (text,) = svg_page(page.encode()).pieces
        assert text.box[[0, 3]] * 297 == pytest.approx((70, 100))


def test_the_more_particular_rule_of_a_style_sheet_wins():
    sheet = StyleSheet("""
        #a { fill: #1 } .b.c { fill: #2 } .b { fill: #3; stroke: #3 } .c { stroke: #4 }
        line { fill: #5 } * { fill: #6; x: #6 } line.d, rect.d { y: #7 } .b > g { fill: #8 }
    """)

    def fill(tag, **attributes):
        return sheet.style_of(tag, {key.strip('_'): text for key, text in attributes.items()})

    assert fill('line', id='a', class_='b c') == {'fill': '#1', 'stroke': '#4', 'x': '#6'}
    assert fill('line', class_='c b') == {'fill': '#2', 'stroke': '#4', 'x': '#6'}
    assert fill('line', class_='b') == {'fill': '#3', 'stroke': '#3', 'x': '#6'}
    assert fill('line', class_='d') == {'fill': '#5', 'x': '#6', 'y': '#7'}
    assert fill('path', class_='d') == {'fill': '#6', 'x': '#6'}


def test_rules_about_other_elements_take_no_time():
    count = 3000
    sheet = StyleSheet(''.join(f'.c{i} {{ fill: {i} }} #d{i} {{ x: {i} }}' for i in range(count)))
    began = time.monotonic()
    for i in range(count):
        style = sheet.style_of('path', {'class': f'c{i}', 'id': f'd{i}'})
        assert style == {'fill': f'{i}', 'x': f'{i}'}
    assert time.monotonic() - began < 3.0
