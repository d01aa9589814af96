"""Class activation maps: which parts of an image made a network see a class.

The last layer of a detector is a 1x1 convolution, so the gradient of a class score with respect
to what enters it is the same row of weights everywhere. Grad-CAM there needs no backward pass: it
is the positive part of the class scores without their bias (`closed_form`). The methods of
pytorch-grad-cam compute gradients; they are here for comparison and experiments.
"""

from collections.abc import Sequence
from types import ModuleType

import torch

from niom_ros.core.extras import needs_extra
from niom_ros.semantics.heat_maps import Area

CLOSED_FORM = 'closed_form'  # the others are those of pytorch-grad-cam


class ClassScores(torch.nn.Module):
    """A network that returns only the scores of one class on one grid (1 x h x w)."""

    def __init__(self, network: torch.nn.Module, level: int, channel: int) -> None:
        super().__init__()
        self._network = network
        self._level = level
        self._channel = channel

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the scores, before any sigmoid."""
        output: torch.Tensor = self._network(pixels)[self._level][:, self._channel]
        return output


def load_library(method: str) -> ModuleType:
    """Return pytorch-grad-cam, which takes a second to import and brings plotting libraries."""
    with needs_extra('cam', f"cam '{method}'"):
        import pytorch_grad_cam
    library: ModuleType = pytorch_grad_cam
    return library


def library_cam(
    *,
    method: str,
    network: torch.nn.Module,
    layer: torch.nn.Module,
    level: int,
    channel: int,
    pixels: torch.Tensor,
    cells: tuple[slice, slice],
) -> torch.Tensor:
    """Return a map (h x w) by pytorch-grad-cam, normalised by it to 0 to 1.

    `network` returns raw outputs, one tensor (1 x channels x h x w) for each level; the output of
    `layer` enters the last convolution of the level. The score to explain is the sum of
    one channel over the cells (rows, columns) of the object.
    """
    library = load_library(method)
    methods = {
        'gradcam': library.GradCAM,
        'gradcam++': library.GradCAMPlusPlus,
        'hirescam': library.HiResCAM,
        'layercam': library.LayerCAM,
        'eigencam': library.EigenCAM,
    }
    with (
        torch.enable_grad(),
        methods[method](ClassScores(network, level, channel), [layer]) as cam,
    ):
        # The weights have no gradient, so the input must have one.
        cam.compute_input_gradient = True
        # Keep the size of the grid: it is scaled to the image later, without the padding.
        cam.get_target_width_height = lambda _: None
        (grid,) = cam(pixels.detach().clone(), [lambda scores: scores[cells].sum()])
    return torch.as_tensor(grid, device=pixels.device)


def cells_of(area: Area, rows: int, columns: int, size: Sequence[int]) -> tuple[slice, slice]:
    """Return the cells of a grid whose centres lie in an area of the input, at least one."""
    height, width = size

    def covered(start: float, end: float, cells: int, length: int) -> slice:
        first = min(max(round(start * cells / length), 0), cells - 1)
        last = min(max(round(end * cells / length), first + 1), cells)
        return slice(first, last)

    return (
        covered(area.top, area.bottom, rows, height),
        covered(area.left, area.right, columns, width),
    )
