"""Heat maps on hand-made grids with values that a person can check."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import torch

from niom_ros.semantics.heat_maps import Area, GridFrame, HeatMap

# Two cells side by side over an image of 8 x 4 pixels: their centres lie at x = 1.5 and 5.5.
FRAME = GridFrame.spanning(8, 4, rows=1, columns=2)


def points(*pairs):
    return torch.tensor(pairs, dtype=torch.float32)


def test_between_the_cells_the_heat_is_interpolated():
    heat = HeatMap.of_grid(torch.tensor([[2.0, 6.0]]), FRAME)
    at = heat.at(points([1.5, 1], [2.5, 1], [3.5, 1], [4.5, 1], [5.5, 1]))
    assert at.tolist() == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert heat.at(points([0, 0], [7, 3])).tolist() == [0, 1]


def test_negative_evidence_is_not_heat():
    heat = HeatMap.of_grid(torch.tensor([[-5.0, 3.0]]), FRAME)
    assert heat.at(points([1.5, 1], [3.5, 1], [5.5, 1])).tolist() == pytest.approx([0, 0.5, 1])


def test_what_the_grid_says_about_the_padding_has_no_influence():
    # Three cells, but the image ends after the second.
    frame = GridFrame(8, 4, scale_x=0.25, shift_x=-0.375)
    narrow = HeatMap.of_grid(torch.tensor([[2.0, 6.0]]), frame)
    padded = HeatMap.of_grid(torch.tensor([[2.0, 6.0, 6.0]]), frame)
    loud = HeatMap.of_grid(torch.tensor([[2.0, 6.0, 900.0]]), frame)
    where = points([1.5, 1], [2.5, 1], [3.5, 1], [4.5, 1])
    assert padded.at(where).tolist() == pytest.approx(narrow.at(where).tolist(), abs=1e-6)
    # The border of the image lies half a cell into the padding, and no farther.
    assert loud.at(points([7.5, 1])).item() == pytest.approx(1)


def test_a_gate_makes_its_strongest_place_1_and_the_outside_0():
    grid = torch.tensor([[0.0, 4.0, 8.0]])
    frame = GridFrame.spanning(12, 4, rows=1, columns=3)
    heat = HeatMap.of_grid(grid, frame, Area(-0.5, -0.5, 5.5, 3.5))
    # The map is 4 at x = 5.5, the strongest place of the left half.
    assert heat.at(points([5.5, 1], [3.5, 1], [5.6, 1], [9, 1])).tolist() == pytest.approx(
        [1, 0.5, 0, 0]
    )


def test_two_objects_of_a_class_share_a_map_unless_it_is_gated():
    grid = torch.tensor([[1.0, 0.0, 3.0]])
    frame = GridFrame.spanning(12, 4, rows=1, columns=3)
    left, right = Area(-0.5, -0.5, 3.5, 3.5), Area(7.5, -0.5, 11.5, 3.5)
    spots = points([1.5, 1], [9.5, 1])
    assert HeatMap.of_grid(grid, frame).at(spots).tolist() == pytest.approx([1 / 3, 1])
    assert HeatMap.of_grid(grid, frame, left).at(spots).tolist() == pytest.approx([1, 0])
    assert HeatMap.of_grid(grid, frame, right).at(spots).tolist() == pytest.approx([0, 1])


@pytest.mark.parametrize('value', [0.0, -1.0, 5.0, 1e-30, float('nan'), float('inf')])
def test_a_flat_map_says_nothing_and_a_flat_box_says_it_all(value):
    grid = torch.full((3, 3), value)
    frame = GridFrame.spanning(30, 30, 3, 3)
    spots = points([5, 5], [25, 25])
    assert HeatMap.of_grid(grid, frame).at(spots).tolist() == [0, 0]
    boxed = HeatMap.of_grid(grid, frame, Area(0, 0, 10, 10))
    assert boxed.at(spots).tolist() == [1, 0]


def test_a_box_without_a_detector_is_filled():
    heat = HeatMap.filled(Area(2, 1, 5, 3), GridFrame(8, 4), torch.empty(0))
    picture = heat.picture(8, 4)
    assert picture.sum() == 4 * 3
    assert picture[1:4, 2:6].min() == 1


def test_a_smaller_picture_shows_the_same():
    grid = torch.rand(5, 7, generator=torch.Generator().manual_seed(1))
    heat = HeatMap.of_grid(grid, GridFrame.spanning(640, 480, 5, 7))
    full, small = heat.picture(640, 480), heat.picture(160, 120)
    assert full.shape == (480, 640) and small.shape == (120, 160)
    means = full.reshape(120, 4, 160, 4).mean(dim=(1, 3))
    assert (means - small).abs().max() < 0.02


@pytest.mark.parametrize('gate', [None, Area(2, 1, 6, 3)])
def test_the_map_of_a_part_becomes_one_of_the_whole(gate):
    grid = torch.tensor([[0.0, 1.0], [3.0, 2.0]])
    part = HeatMap.of_grid(grid, GridFrame.spanning(8, 4, 2, 2), gate)
    whole = part.moved(10, 20, 30, 40).picture(30, 40)
    assert torch.allclose(whole[20:24, 10:18], part.picture(8, 4), atol=1e-6)
    whole[20:24, 10:18] = 0
    assert whole.max() == 0


edges = st.floats(-50, 150, allow_nan=False)


@given(
    values=st.lists(st.floats(-1e4, 1e4, width=32), min_size=6, max_size=6),
    box=st.tuples(edges, edges, edges, edges),
    gated=st.booleans(),
)
def test_heat_is_a_number_from_0_to_1_whatever_the_grid_and_box(values, box, gated):
    grid = torch.tensor(values).reshape(2, 3)
    left, right = sorted(box[:2])
    top, bottom = sorted(box[2:])
    gate = Area(left, top, right, bottom) if gated else None
    picture = HeatMap.of_grid(grid, GridFrame.spanning(100, 80, 2, 3), gate).picture(50, 40)
    assert torch.isfinite(picture).all()
    assert picture.min() >= 0 and picture.max() <= 1


@pytest.mark.parametrize(
    'area',
    [
        Area(10, 10, 10.2, 10.3),  # smaller than a pixel
        Area(-20, 30, 3, 60),  # over the left border
        Area(95, 75, 300, 200),  # over a corner
    ],
)
def test_tiny_objects_and_objects_at_the_border_have_heat(area):
    grid = torch.from_numpy(np.arange(12.0).reshape(3, 4))
    heat = HeatMap.of_grid(grid, GridFrame.spanning(100, 80, 3, 4), area)
    inside = area.within(100, 80)
    corner = points([inside.right, inside.bottom])
    assert heat.at(corner).item() == pytest.approx(1)


def shifted(right, down):
    return np.array([[1.0, 0, right], [0, 1, down], [0, 0, 1]])


def test_a_map_is_carried_to_where_its_object_moved():
    heat = HeatMap.of_grid(torch.tensor([[2.0, 6.0]]), FRAME, Area(-0.5, -0.5, 6.5, 3.5))
    carried = heat.carried(shifted(10, 3))
    spots = points([1.5, 1], [3.5, 1], [5.5, 1], [7, 1])
    assert carried.at(spots + points([10, 3])).tolist() == heat.at(spots).tolist()
    assert carried.at(spots).tolist() == [0, 0, 0, 0]
    # And on, from there.
    twice = carried.carried(shifted(-4, 0))
    assert twice.at(spots + points([6, 3])).tolist() == pytest.approx(heat.at(spots).tolist())


def test_a_map_is_carried_by_any_view_and_has_nothing_beyond_the_horizon():
    heat = HeatMap.of_grid(torch.tensor([[2.0, 6.0]]), FRAME)
    motion = np.array([[0.8, 0.1, 3], [-0.2, 1.1, 1], [0.02, 0, 1]])
    spots = np.array([[1.5, 1, 1], [3.5, 1, 1], [5.5, 3, 1]])
    there = spots @ motion.T
    there = torch.from_numpy(there[:, :2] / there[:, 2:])
    before = heat.at(torch.from_numpy(spots[:, :2]))
    assert heat.carried(motion).at(there).tolist() == pytest.approx(before.tolist(), abs=1e-5)
    # x = 0.8 / 0.02 = 40 is the horizon; 6 and more is where the map is hottest.
    assert heat.carried(motion).at(points([30, 1], [50, 1])).tolist() == [1, 0]
