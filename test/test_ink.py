"""Finding a drawing by its ink: strokes, edges, and aligning them."""

import cv2
import numpy as np
import pytest
import torch

from niom_ros.core.boxes import Box
from niom_ros.drawings.alignment import climb, InkPoints, non_similarity, warp, warp_strokes
from niom_ros.drawings.edges import EdgeParameters, find_edges
from niom_ros.drawings.search import SearchParameters
from niom_ros.drawings.strokes import strokes_of
from niom_ros.drawings.tracing import trace, trace_near, TracingParameters
from niom_ros.matching.geometry import corner_error

CPU = torch.device('cpu')
WIDTH, HEIGHT = 400, 300
# A house with a door and a sun, as somebody would draw it.
LINES = (
    ((80, 140), (80, 260), (280, 260), (280, 140), (80, 140)),
    ((60, 150), (180, 60), (300, 150)),
    ((150, 260), (150, 190), (200, 190), (200, 260)),
    ((225, 170), (255, 170), (255, 200), (225, 200), (225, 170)),
)
SUN = ((345, 60), 25)
# Pixels. The upper line of the wall is drawn where the roof hides it, 10 from its lower edge.
NEAR = 8
VIEW = np.array([[0.75, 0.12, 60], [-0.1, 0.78, 70], [0.0002, -0.0001, 1]])


def drawing(width: int = 2, ink: int = 0, paper: int = 255) -> np.ndarray:
    picture = np.full((HEIGHT, WIDTH, 3), paper, np.uint8)
    for line in LINES:
        cv2.polylines(picture, [np.array(line)], False, (ink,) * 3, width, cv2.LINE_AA)
    cv2.circle(picture, *SUN, (ink,) * 3, width, cv2.LINE_AA)
    return picture


def scene(view: np.ndarray = VIEW, size: tuple[int, int] = (480, 360)) -> np.ndarray:
    """Return a camera image of the real thing: areas of other colours, no lines; noisy."""
    flat = np.full((HEIGHT, WIDTH, 3), (120, 150, 190), np.uint8)
    wall, roof, door, window = (np.array(line) for line in LINES)
    for area, colour in ((wall, (200, 190, 160)), (roof, (150, 60, 50)), (door, (90, 60, 40))):
        cv2.fillPoly(flat, [area], colour)
    cv2.fillPoly(flat, [window], (60, 80, 110))
    cv2.circle(flat, *SUN, (240, 220, 90), -1)
    seen = cv2.warpPerspective(flat, view, size, borderMode=cv2.BORDER_REPLICATE)
    noise = np.random.default_rng(0).normal(0, 6, seen.shape)
    return np.clip(seen + noise, 0, 255).astype(np.uint8)


def error_of(picture: np.ndarray, view: np.ndarray = VIEW) -> float:
    height, width = picture.shape[:2]
    box = Box(0, 0, width, height)
    edges = find_edges(scene(view), CPU)
    found = trace(strokes_of(picture), box.corners(), edges)
    return corner_error(found.drawing_to_image, view, box)


def test_strokes_lie_in_the_middle_of_lines_and_know_their_direction() -> None:
    picture = np.full((300, 400, 3), 255, np.uint8)
    cv2.line(picture, (50, 100), (350, 100), (0, 0, 0), 5)
    strokes = strokes_of(picture)
    inner = np.abs(strokes.points[:, 0] - 200) < 130
    assert inner.sum() > 200
    assert np.abs(strokes.points[inner, 1] - 100).max() < 1
    assert np.abs(strokes.normals[inner] - np.pi / 2).max() < 0.1


@pytest.mark.parametrize('picture', [drawing(1), drawing(4), drawing(8), drawing(2, 255, 40)])
def test_thick_and_light_lines_are_strokes_too(picture: np.ndarray) -> None:
    strokes = strokes_of(picture)
    true = strokes_of(drawing()).points
    apart = np.linalg.norm(strokes.points[:, None] - true[None], axis=2).min(axis=1)
    assert len(strokes) > 300
    assert np.percentile(apart, 90) < 3


def test_a_shadow_is_not_ink() -> None:
    shade = np.linspace(1, 0.4, WIDTH)[None, :, None]
    shaded = (drawing() * shade).astype(np.uint8)
    true = strokes_of(drawing()).points
    points = strokes_of(shaded).points
    apart = np.linalg.norm(points[:, None] - true[None], axis=2).min(axis=1)
    assert np.percentile(apart, 95) < 3


def test_grain_of_the_paper_is_not_ink() -> None:
    sheet = np.full((900, 1200, 3), 240.0)
    cv2.circle(sheet, (600, 450), 60, (20, 20, 20), 4, cv2.LINE_AA)
    grain = np.random.default_rng(0).normal(0, 8, sheet.shape)
    points = strokes_of((sheet + grain).clip(0, 255).astype(np.uint8)).points
    off = np.abs(np.linalg.norm(points - [600, 450], axis=1) - 60)
    assert len(points) > 100
    assert (off < 5).mean() > 0.98


def test_what_does_not_count_changes_no_stroke() -> None:
    page = np.full((300, 400, 3), 255, np.uint8)
    cv2.circle(page, (100, 150), 60, (190, 190, 190), 2, cv2.LINE_AA)
    mask = np.zeros((300, 400), np.uint8)
    mask[:, :200] = 1
    alone = strokes_of(page, mask)
    page[:, 210:][::6] = 0
    beside = strokes_of(page, mask)
    assert len(alone) > 300
    assert beside.points.tolist() == alone.points.tolist()


def test_blank_paper_has_no_strokes() -> None:
    assert len(strokes_of(np.full((200, 300, 3), 230, np.uint8))) == 0


def test_edges_lie_where_colours_change_and_know_their_direction() -> None:
    image = np.full((300, 400, 3), (90, 60, 40), np.uint8)
    image[:, 250:] = (170, 180, 200)
    edges = find_edges(image, CPU)
    assert edges.size == (480, 360)
    strongest = edges.oriented.max(axis=0)
    assert abs(int(strongest[180].argmax()) - 250 * edges.scale) < 3
    across, along = edges.oriented[0, 180, 300], edges.oriented[4, 180, 300]
    assert across > 0.4 and along < 0.1 * across
    assert strongest[180, 60] < 0.1 * across
    picture = edges.picture()
    assert picture.shape == (360, 480, 3) and picture[180, 300, 0] == 255


def test_a_small_thing_is_found_beside_a_dense_pattern() -> None:
    view = np.array([[0.3, 0.05, 300], [-0.04, 0.31, 200], [0, 0, 1]])
    image = scene(view)
    checks = np.indices((140, 220)) // 20 % 2
    image[20:160, 20:240] = np.where(checks[:1] == checks[1:], 230, 30).transpose(1, 2, 0)
    box = Box(0, 0, WIDTH, HEIGHT)
    found = trace(strokes_of(drawing()), box.corners(), find_edges(image, CPU))
    assert corner_error(found.drawing_to_image, view, box) < NEAR


def test_warped_strokes_turn_with_the_view() -> None:
    turn = torch.tensor([[[0.0, -1, 100], [1, 0, 0], [0, 0, 1]]])
    ink = InkPoints(torch.tensor([[10.0, 20]]), torch.tensor([0.0]), torch.zeros(4, 2))
    points, normals = warp_strokes(turn, ink)
    assert points[0, 0].tolist() == pytest.approx([80, 10])
    assert float(normals[0, 0] % np.pi) == pytest.approx(np.pi / 2)


def test_stretched_strokes_are_those_of_the_stretched_picture() -> None:
    stretched = strokes_of(drawing()).stretched(2, 0.5)
    np.testing.assert_allclose(stretched.points, strokes_of(drawing()).points * [2, 0.5])
    points, normals = warp_strokes(
        torch.diag(torch.tensor([2, 0.5, 1.0]))[None],
        InkPoints(*map(torch.from_numpy, vars(strokes_of(drawing())).values()), torch.zeros(4, 2)),
    )
    np.testing.assert_allclose(points[0], stretched.points, atol=1e-3)
    apart = (normals[0].numpy() - stretched.normals + np.pi / 2) % np.pi - np.pi / 2
    np.testing.assert_allclose(apart, 0, atol=1e-3)


def test_only_bending_is_unlike_turning_and_scaling() -> None:
    corners = torch.tensor([[0.0, 0], [40, 0], [40, 30], [0, 30]])
    stiff = non_similarity(corners)
    similar = torch.tensor([[[0.6, -0.8, 5], [0.8, 0.6, 7], [0, 0, 1.0]]])
    assert (warp(similar, corners).reshape(1, 8) @ stiff).abs().max() < 1e-4
    assert torch.linalg.matrix_rank(stiff, atol=1e-4) == 4


def test_a_view_that_is_almost_right_climbs_to_the_right_one() -> None:
    edges = find_edges(scene(), CPU)
    strokes = strokes_of(drawing())
    box = Box(0, 0, WIDTH, HEIGHT)
    ink = InkPoints(
        torch.from_numpy(strokes.points),
        torch.from_numpy(strokes.normals),
        torch.from_numpy(box.corners()).float(),
    )
    moved = VIEW + np.array([[0, 0, 9], [0, 0, -7], [0, 0, 0]])
    views = climb(torch.from_numpy(moved)[None].float(), ink, edges, (1, 2, 3, 4), 8)
    assert corner_error(moved, VIEW, box) > 10
    assert corner_error(views[0].double().numpy(), VIEW, box) < 2.5


def test_a_drawing_is_found_close_to_where_it_is_expected() -> None:
    # Twice as large as the image in which edges are found.
    view = np.diag([2.5, 2.5, 1]) @ VIEW
    edges = find_edges(scene(view, (1200, 900)), CPU)
    box = Box(0, 0, WIDTH, HEIGHT)
    moved = view + np.array([[0.05, 0, 30], [0, -0.05, -40], [0, 0, 0]])
    found = trace_near(strokes_of(drawing()), box.corners(), edges, moved)
    assert corner_error(moved, view, box) > 40
    assert corner_error(found.drawing_to_image, view, box) < 6


def test_a_drawing_is_found_with_other_parameters() -> None:
    coarse = EdgeParameters(side=320, orientations=6)
    edges = find_edges(scene(), CPU, coarse)
    assert edges.oriented.shape == (6, 240, 320)
    upright = SearchParameters(turns=(0.0,), scales=(0.7, 0.9))
    quick = TracingParameters(starts=4, finalists=2, rounds=1, children=2, search=upright)
    box = Box(0, 0, WIDTH, HEIGHT)
    found = trace(strokes_of(drawing()), box.corners(), edges, quick)
    assert corner_error(found.drawing_to_image, VIEW, box) < 8


@pytest.mark.parametrize('size', [(640, 8), (8, 640), (32, 32), (1, 1)])
def test_an_image_of_any_shape_has_edges(size: tuple[int, int]) -> None:
    width, height = size
    image = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    box = Box(0, 0, WIDTH, HEIGHT)
    found = trace(strokes_of(drawing()), box.corners(), find_edges(image, CPU))
    assert np.isfinite(found.drawing_to_image).all()


@pytest.mark.parametrize('part', [1, 3])
def test_a_small_drawing_on_a_large_sheet_is_found(part: int) -> None:
    sheet = np.full((part * HEIGHT, part * WIDTH, 3), 255, np.uint8)
    sheet[-HEIGHT:, -WIDTH:] = drawing()
    corner = np.array([[1, 0, -(part - 1) * WIDTH], [0, 1, -(part - 1) * HEIGHT], [0, 0, 1.0]])
    box = Box((part - 1) * WIDTH, (part - 1) * HEIGHT, WIDTH, HEIGHT)
    strokes = strokes_of(box.part_of(sheet)).moved(box.left, box.top)
    found = trace(strokes, box.corners(), find_edges(scene(), CPU))
    assert corner_error(found.drawing_to_image, VIEW @ corner, box) < NEAR


@pytest.mark.parametrize('angle', [0, 70, 180])
def test_a_drawing_is_found_however_it_is_turned(angle: int) -> None:
    turned = np.eye(3)
    turned[:2] = cv2.getRotationMatrix2D((240, 180), angle, 0.8)
    assert error_of(drawing(), turned @ VIEW) < NEAR


@pytest.mark.parametrize('picture', [drawing(6), drawing(2, 255, 30)])
def test_how_it_is_drawn_does_not_matter(picture: np.ndarray) -> None:
    assert error_of(picture) < NEAR
