"""Any YOLO exported to ONNX, by the path of its file.

How to decode a model is worked out when it is loaded: from the shapes of its input and outputs,
its metadata, and its output for a grey image. Three kinds of outputs can be decoded:

decoded scores    One box for each anchor of each cell of the grids: 1 x N x (5 + C) with
                  objectness (YOLOv5, YOLOv7), or 1 x (4 + C) x N or 1 x N x (4 + C) without
                  (YOLOv8 and later). The rows are the cells of the grids in order, so the scores
                  can be turned back into maps. Mask coefficients are ignored.
finished boxes    1 x N x 6 (YOLOv10 and later, or exported with NMS) or N x 7 (YOLOv7 with NMS).
                  There is no grid: the heat map is the filled box.
raw heads         Each 1 x A(5 + C) x h x w or 1 x A x h x w x (5 + C), if the metadata says
                  how to decode boxes: 'anchors', for each output a list of widths and heights in
                  pixels, 'box_formula', which is 'darknet' (YOLOv3, YOLOv4) or 'yolov5' (also
                  YOLOv7), and for 'darknet' possibly 'scale_x_y'.

The input is RGB from 0 to 1, 1 x 3 x H x W. Neither gradients nor the bias of the last convolution
are known, so the evidence of a cell is the probability of the class. It is positive everywhere,
but heat maps start at their smallest value. Multiplied by objectness, the map would be worse,
because only the cell in the middle of an object has a high one.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from niom_ros.core.extras import needs_extra
from niom_ros.core.faults import reason
from niom_ros.core.settings import existing_file, SettingsError
from niom_ros.semantics.cam import CLOSED_FORM
from niom_ros.semantics.detectors.grid_detector import (
    corners_of,
    DetectorOptions,
    DetectorPlugin,
    GridDetector,
    Letterbox,
    Level,
    NetworkOutput,
)
from niom_ros.semantics.detectors.yolo import anchored_boxes, Anchors, FIRST_CLASS, squared_growth

CAN_READ = (
    'supported are YOLO models whose output is 1 x boxes x numbers or 1 x numbers x boxes with '
    'boxes decoded to pixels, finished boxes (1 x boxes x 6), or raw heads with metadata '
    "'anchors' and 'box_formula'"
)
DTYPES = {'tensor(float)': np.float32, 'tensor(float16)': np.float16}
STRIDES = (4, 8, 16, 32, 64, 128)  # of YOLOs, in pixels
MAX_ANCHORS = 9
USUAL_SIDE = 640  # of the input, if neither its shape nor the metadata says
# Different sizes that every stride divides, to tell which axis is which.
TRIAL_WIDTH, TRIAL_HEIGHT = 640, 512
# Share of the input. Boxes lie within a few cells of their own. In the wrong order they would be
# anywhere, a third of the image away on average.
FARTHEST = 0.15
UNNAMED_CLASSES = 2000  # more than any dataset has; finished boxes do not say how many there are


class Unreadable(Exception):
    """The file cannot be read as a YOLO; the message says what was found."""


@dataclass(frozen=True)
class OutputLayout:
    """How to decode the outputs of a model. Subclasses decode them."""

    classes: int | None  # None: the outputs do not say

    @property
    def multiple(self) -> int:
        """Return a number of pixels that divides the sides of an input of any size."""
        return 32

    def levels(
        self, outputs: Sequence[torch.Tensor], width: int, height: int
    ) -> tuple[Level, ...]:
        """Decode the outputs for an input of this size."""
        raise NotImplementedError


class OnnxYolo(GridDetector):
    """A YOLO exported to ONNX."""

    def __init__(
        self,
        model: 'OnnxModel',
        layout: OutputLayout,
        labels: tuple[str, ...],
        options: DetectorOptions,
        device: torch.device,
    ) -> None:
        """Use a model with its layout and the names of its classes."""
        super().__init__(options, device)
        self.name = f'onnx:{model.path.name}'
        self.labels = labels
        self._model = model
        self._layout = layout

    def letterbox(self, width: int, height: int) -> Letterbox:
        """Return how an image of this size is fitted into the network's input."""
        return self._model.letterbox(width, height, self._layout.multiple)

    def run_network(self, pixels: torch.Tensor) -> NetworkOutput:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        height, width = pixels.shape[-2:]
        try:
            return NetworkOutput(self._layout.levels(self._model.run(pixels), width, height))
        except Unreadable as fault:
            raise SettingsError(f'{self._model.path}: {fault}') from None


def load_onnx_yolo(
    path: Path | str,
    labels: Path | str | None,
    options: DetectorOptions,
    device: torch.device,
) -> OnnxYolo:
    """Load a YOLO exported to ONNX; labels come from a text file with one per line.

    Without such a file they come from the metadata, and failing that they are numbers.
    """
    if options.cam != CLOSED_FORM:
        raise SettingsError(
            f"cam '{options.cam}' needs gradients, which ONNX models do not give: use "
            f"cam '{CLOSED_FORM}', or another detector (the .pt file of an ultralytics model "
            "works with detector 'ultralytics')"
        )
    path = existing_file(path, 'detector_path')
    given = read_labels(existing_file(labels, 'detector_labels')) if labels else None
    try:
        model = OnnxModel(path, device)
        stored = class_names(model.metadata)
        known = [len(names) for names in (stored, given) if names is not None]
        layout = recognise(model.try_out(), known)
    except Unreadable as fault:
        raise SettingsError(f'{path} cannot be used as a detector: {fault}') from None
    names = stored if given is None else given
    if names is None:
        names = tuple(f'class {n}' for n in range(layout.classes or UNNAMED_CLASSES))
    if layout.classes not in (None, len(names)):
        source = 'its own metadata' if given is None else str(labels)
        raise SettingsError(
            f'{path} scores {layout.classes} classes, but {source} has {len(names)} labels: '
            'set detector_labels to a text file with one line for each class'
        )
    if isinstance(layout, FinishedBoxes):
        layout = replace(layout, classes=len(names))
        # Without a grid, the box is all that a heat map can show.
        options = replace(options, gated=True)
    return OnnxYolo(model, layout, names, options, device)


def read_labels(path: Path) -> tuple[str, ...]:
    """Return the lines of a label file; empty lines count, except at the end."""
    try:
        text = path.read_text(encoding='utf-8-sig')
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f'{path} cannot be read as labels ({error}): '
            'set detector_labels to a text file in UTF-8 with one label per line'
        ) from None
    if not text.strip():
        raise SettingsError(
            f'{path} is empty: set detector_labels to a file with one label per line'
        )
    return tuple(line.strip() for line in text.rstrip().split('\n'))


class OnnxModel:
    """An ONNX file with one input for an image, ready to run."""

    def __init__(self, path: Path, device: torch.device) -> None:
        """Load the file, and read what its input must be."""
        self.path = path
        self._session = open_session(path, device)
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        inputs = self._session.get_inputs()
        shown = ', '.join(f'{i.name} ({spelled(i.shape)}, {i.type})' for i in inputs)
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in DTYPES:
            raise Unreadable(
                f'its input is {shown}: export it with one input 1 x 3 x height x width '
                'of float32 or float16'
            )
        batch, channels, height, width = (
            length if isinstance(length, int) else None for length in inputs[0].shape
        )
        if batch not in (1, None) or channels not in (3, None):
            raise Unreadable(
                f'its input is {shown}: export it for one image of three colours, in the order '
                '1 x 3 x height x width'
            )
        self._input: str = inputs[0].name
        self._dtype = DTYPES[inputs[0].type]
        self._width: int | None = width
        self._height: int | None = height

    def letterbox(self, width: int, height: int, multiple: int) -> Letterbox:
        """Return how an image of this size is fitted into the network's input."""
        sides = flat_numbers(literal(self.metadata, 'imgsz'))
        side = int(max(sides)) if sides and max(sides) >= multiple else USUAL_SIDE
        if self._width is None and self._height is None:
            return Letterbox.fit(width, height, side, multiple)
        return Letterbox.fit_exactly(width, height, self._width or side, self._height or side)

    def try_out(self) -> 'Trial':
        """Run the network on a grey image."""
        width, height = self._width or TRIAL_WIDTH, self._height or TRIAL_HEIGHT
        outputs = self.run(torch.full((1, 3, height, width), 0.5))
        shown = ', '.join(
            f'{described.name} ({spelled(output.shape)})'
            for described, output in zip(self._session.get_outputs(), outputs, strict=True)
        )
        description = f'its outputs are {shown} for an input of 1 x 3 x {height} x {width}'
        return Trial(
            metadata=self.metadata,
            outputs=outputs,
            width=width,
            height=height,
            description=description,
        )

    def run(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Run the network on its input (1 x 3 x H x W, RGB, 0 to 1)."""
        array = pixels.cpu().numpy().astype(self._dtype)
        try:
            outputs = self._session.run(None, {self._input: array})
            arrays = [np.asarray(output, np.float32) for output in outputs]
        except Exception as error:  # the only base class of onnxruntime's errors
            raise Unreadable(
                f'it does not run on an input of {spelled(array.shape)} ({reason(error)})'
            ) from None
        return [torch.from_numpy(output).to(pixels.device) for output in arrays]


def open_session(path: Path, device: torch.device) -> Any:
    """Load an ONNX file, on the GPU if onnxruntime can use it and the device is one."""
    with needs_extra('onnx', "detector 'onnx'"):
        import onnxruntime

    wanted = ['CPUExecutionProvider']
    if device.type == 'cuda':
        wanted.insert(0, 'CUDAExecutionProvider')
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.log_severity_level = 3  # errors only; they are raised as well
    available = onnxruntime.get_available_providers()
    try:
        return onnxruntime.InferenceSession(
            str(path), settings, providers=[name for name in wanted if name in available]
        )
    except Exception as error:  # the only base class of onnxruntime's errors
        raise Unreadable(
            f'onnxruntime cannot load it ({reason(error)}): use a file in the ONNX format'
        ) from None


def spelled(shape: Sequence[Any]) -> str:
    """Return a shape as text: 1 x 3 x 640 x 640."""
    return ' x '.join(map(str, shape)) or 'one number'


def literal(metadata: Mapping[str, str], key: str) -> Any:
    """Return the value of a Python literal in the metadata; None if there is none."""
    try:
        return ast.literal_eval(metadata[key])
    except (KeyError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def flat_numbers(value: Any) -> list[float]:
    """Return the numbers of nested lists, in order; empty if there is anything else."""
    if isinstance(value, int | float):
        return [float(value)]
    if not isinstance(value, list | tuple):
        return []
    parts = [flat_numbers(part) for part in value]
    return [number for part in parts for number in part] if all(parts) else []


def class_names(metadata: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the class names that ultralytics writes: {0: 'person', 1: 'bicycle'}."""
    names = literal(metadata, 'names')
    if isinstance(names, list | tuple):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or not names:
        return None
    by_number = {str(number): str(name) for number, name in names.items()}
    numbers = [str(number) for number in range(len(by_number))]
    return tuple(by_number[n] for n in numbers) if by_number.keys() == set(numbers) else None


@dataclass(frozen=True)
class Trial:
    """The outputs of a model for a grey image."""

    metadata: Mapping[str, str]
    outputs: Sequence[torch.Tensor]
    width: int  # of the image
    height: int
    description: str  # the outputs in words

    def unreadable(self, why: str) -> Unreadable:
        """Return the error that says what was found, what is wrong, and what would work."""
        return Unreadable(f'{self.description}{why}; {CAN_READ}')


def recognise(trial: Trial, known: Sequence[int]) -> OutputLayout:
    """Find out how to decode a model; `known` are class counts, the most reliable first."""
    task = trial.metadata.get('task', 'detect')
    if task not in ('detect', 'segment'):
        raise Unreadable(f"its task is '{task}': use a model for 'detect' or 'segment'")
    outputs = trial.outputs
    flat = [n for n, output in enumerate(outputs) if output.ndim == 3 and len(output) == 1]
    deep = [output for output in outputs if output.ndim == 4]
    if len(flat) == 1:
        # Segmentation models have another output, the mask prototypes.
        masks = deep[0].shape[1] if len(deep) == 1 else 0
        return recognise_rows(trial, flat[0], masks, known)
    if len(outputs) == 1 and outputs[0].ndim == 2 and outputs[0].shape[1] == 7:
        layout = FinishedBoxes(classes=None, output=0, box=slice(1, 5), score=6, label=5)
        return checked(layout, trial)
    # 1 x A(5 + C) x h x w and 1 x A x h x w x (5 + C) have their rows on the same axis.
    heads = [output for output in outputs if output.ndim in (4, 5) and len(output) == 1]
    heights = {-(-trial.height // stride) for stride in STRIDES}
    if len(heads) == len(outputs) and heights.issuperset(head.shape[2] for head in heads):
        return RawHeads.of_metadata(trial)
    raise trial.unreadable(', which is not a YOLO output')


def recognise_rows(trial: Trial, index: int, masks: int, known: Sequence[int]) -> OutputLayout:
    """Find out how to decode an output with three axes."""
    output = trial.outputs[index][0]
    found = [
        (grids.misfit(rows[:, :2], trial.width, trial.height), rows_first, grids)
        for rows_first, rows in ((True, output), (False, output.T))
        if rows.shape[1] - masks > 4
        for grids in possible_grids(len(rows), trial.width, trial.height)
    ]
    if found:
        misfit, rows_first, grids = min(found, key=lambda one: one[0])
        if misfit < FARTHEST:
            rows = output if rows_first else output.T
            numbers = rows.shape[1] - masks
            classes = count_classes(numbers, grids.anchors, rows_first, known, trial)
            # Right and lower edges lie near their cells; widths and heights do not.
            corners = grids.misfit(rows[:, 2:4], trial.width, trial.height) < FARTHEST
            objectness = numbers - classes == 5
            return DecodedRows(
                classes=classes,
                output=index,
                rows_first=rows_first,
                grids=grids,
                corners=corners,
                objectness=objectness,
            )
    if output.shape[1] - masks == 6:
        layout = FinishedBoxes(classes=None, output=index, box=slice(0, 4), score=4, label=5)
        return checked(layout, trial)
    if found:
        raise trial.unreadable(
            ', but the boxes do not lie on the cells of grids: export it with boxes decoded to '
            'pixels of the input'
        )
    raise trial.unreadable(', which fits no grids of boxes')


def count_classes(
    numbers: int, anchors: int, rows_first: bool, known: Sequence[int], trial: Trial
) -> int:
    """Return how many of the numbers of a box are class scores."""
    if anchors > 1:
        return numbers - 5  # every YOLO with several anchors has objectness
    if not rows_first:
        return numbers - 4  # only ultralytics has boxes last, and has no objectness then
    for count in known:
        if numbers - count in (4, 5):
            return count
    raise Unreadable(
        f'{trial.description}, which may be {numbers - 4} classes, or {numbers - 5} and '
        f'objectness, and there are {known[-1] if known else "no"} labels: '
        'set detector_labels to a text file with one line for each class'
    )


@dataclass(frozen=True)
class Grids:
    """How rows map to the cells of grids."""

    strides: tuple[int, ...]  # input pixels per cell, for each grid
    anchors: int  # boxes per cell
    anchors_last: bool  # whether the boxes of a cell are consecutive

    def shapes(self, width: int, height: int) -> list[tuple[int, int]]:
        """Return the rows and columns of each grid."""
        return [(-(-height // stride), -(-width // stride)) for stride in self.strides]

    def split(self, rows: torch.Tensor, width: int, height: int) -> list[torch.Tensor]:
        """Turn rows (N x K) into grids (A x h x w x K)."""
        shapes = self.shapes(width, height)
        sizes = [self.anchors * h * w for h, w in shapes]
        if len(rows) != sum(sizes):
            raise Unreadable(
                f'it outputs {len(rows)} boxes instead of {sum(sizes)} for an input of '
                f'{width} x {height} pixels: export it with an input of fixed size'
            )
        parts = zip(rows.split(sizes), shapes, strict=True)
        if self.anchors_last:
            return [
                part.view(h, w, self.anchors, -1).permute(2, 0, 1, 3) for part, (h, w) in parts
            ]
        return [part.view(self.anchors, h, w, -1) for part, (h, w) in parts]

    def centres(self, width: int, height: int, device: torch.device) -> torch.Tensor:
        """Return the centre of the cell of each row (N x 2), in pixels of the input."""
        parts = []
        for stride, (h, w) in zip(self.strides, self.shapes(width, height), strict=True):
            x = (torch.arange(w, device=device) + 0.5) * stride
            y = (torch.arange(h, device=device) + 0.5) * stride
            cells = torch.stack(torch.meshgrid(x, y, indexing='xy'), -1).view(-1, 2)
            if self.anchors_last:
                parts.append(cells.repeat_interleave(self.anchors, dim=0))
            else:
                parts.append(cells.repeat(self.anchors, 1))
        return torch.cat(parts)

    def misfit(self, points: torch.Tensor, width: int, height: int) -> float:
        """Return the median distance of points (N x 2) from their cells, relative to the input."""
        size = points.new_tensor([width, height])
        apart = points - self.centres(width, height, points.device)
        distance = (apart / size).abs().amax(dim=1)
        return float(distance.nan_to_num(nan=torch.inf).median())


def possible_grids(rows: int, width: int, height: int) -> Iterator[Grids]:
    """Yield all sets of grids that together have this number of boxes."""
    for first, last in combinations(range(len(STRIDES) + 1), 2):
        strides = STRIDES[first:last]
        cells = sum(h * w for h, w in Grids(strides, 1, False).shapes(width, height))
        anchors, rest = divmod(rows, cells)
        if rest or not 1 <= anchors <= MAX_ANCHORS:
            continue
        for ordered in dict.fromkeys((strides, strides[::-1])):
            yield Grids(ordered, anchors, anchors_last=False)
            if anchors > 1:
                yield Grids(ordered, anchors, anchors_last=True)


@dataclass(frozen=True)
class DecodedRows(OutputLayout):
    """Decoded boxes and scores, reshaped to their grids."""

    classes: int
    output: int
    rows_first: bool  # 1 x N x K instead of 1 x K x N
    grids: Grids
    corners: bool  # left, top, right, bottom instead of centre, width and height
    objectness: bool

    @property
    def multiple(self) -> int:
        """Return a number of pixels that divides the sides of an input of any size."""
        return max(super().multiple, *self.grids.strides)

    def levels(
        self, outputs: Sequence[torch.Tensor], width: int, height: int
    ) -> tuple[Level, ...]:
        """Decode the outputs for an input of this size."""
        rows = outputs[self.output][0]
        parts = self.grids.split(rows if self.rows_first else rows.T.contiguous(), width, height)
        return tuple(self._level(part) for part in parts)

    def _level(self, grid: torch.Tensor) -> Level:
        boxes = grid[..., :4] if self.corners else corners_of(grid[..., :2], grid[..., 2:4])
        first = 5 if self.objectness else 4
        classes = grid[..., first : first + self.classes].permute(0, 3, 1, 2)
        scores = classes * grid[..., 4:5].permute(0, 3, 1, 2) if self.objectness else classes
        return Level(boxes, scores, classes)


@dataclass(frozen=True)
class FinishedBoxes(OutputLayout):
    """Boxes with a score and a class index; each is treated as a grid of one cell."""

    output: int
    box: slice  # columns
    score: int
    label: int

    def levels(
        self, outputs: Sequence[torch.Tensor], width: int, height: int
    ) -> tuple[Level, ...]:
        """Decode the outputs for an input of this size."""
        rows = self.used(outputs)
        labels = rows[:, self.label].long()
        classes = self.classes or UNNAMED_CLASSES
        if len(rows) and labels.max() >= classes:
            raise Unreadable(
                f'it reports class {int(labels.max())}, but there are {classes} labels, counted '
                'from 0: set detector_labels to a text file with one line for each class'
            )
        scores = rows.new_zeros(len(rows), classes, 1, 1)
        scores[torch.arange(len(rows)), labels, 0, 0] = rows[:, self.score]
        boxes = rows[:, None, None, self.box]
        return (Level(boxes, scores, torch.zeros_like(scores)),)

    def used(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the rows that hold a box; the others are padding."""
        rows = outputs[self.output]
        rows = rows[0] if rows.ndim == 3 else rows
        return rows[(rows[:, self.score] > 0) & rows.isfinite().all(dim=1)]


def checked(layout: FinishedBoxes, trial: Trial) -> FinishedBoxes:
    """Return the layout, after checking that its scores and class indices are valid."""
    rows = layout.used(trial.outputs)
    scores, labels = rows[:, layout.score], rows[:, layout.label]
    if (scores > 1).any() or (labels < 0).any() or (labels != labels.round()).any():
        raise trial.unreadable(', which are neither boxes on grids nor finished boxes')
    return layout


@dataclass(frozen=True)
class RawHeads(OutputLayout):
    """The raw outputs of the last convolutions, to be decoded with anchors."""

    anchors: tuple[Anchors, ...]  # for each output
    stretch: float  # how far beyond its cell the centre of an object may lie
    squared: bool  # sizes are a squared sigmoid; otherwise an exponential

    @classmethod
    def of_metadata(cls, trial: Trial) -> 'RawHeads':
        """Find out from the metadata how to decode boxes."""
        lists = literal(trial.metadata, 'anchors')
        formula = trial.metadata.get('box_formula')
        if not isinstance(lists, list | tuple) or formula not in ('darknet', 'yolov5'):
            raise trial.unreadable(
                ': these look like raw heads; their boxes need anchors, which the file does not '
                'contain: export it with decoded boxes (YOLOv7: export.py --grid)'
            )
        anchors = [flat_numbers(part) for part in lists]
        counts = set(map(classes_of_head, trial.outputs, anchors))
        if len(anchors) != len(trial.outputs) or len(counts) != 1 or 0 in counts:
            raise trial.unreadable(f', which do not match its anchors {lists}')
        squared = formula == 'yolov5'
        scale = flat_numbers(literal(trial.metadata, 'scale_x_y')) or [1.0]
        pairs = tuple(tuple(zip(sides[::2], sides[1::2], strict=True)) for sides in anchors)
        return cls(counts.pop(), pairs, 2.0 if squared else scale[0], squared)

    def levels(
        self, outputs: Sequence[torch.Tensor], width: int, height: int
    ) -> tuple[Level, ...]:
        """Decode the outputs for an input of this size."""
        pairs = zip(outputs, self.anchors, strict=True)
        return tuple(self._level(output[0], anchors, width) for output, anchors in pairs)

    def _level(self, output: torch.Tensor, anchors: Anchors, width: int) -> Level:
        if output.ndim == 3:
            raw = output.unflatten(0, (len(anchors), -1))
        else:
            raw = output.permute(0, 3, 1, 2)
        growth = squared_growth if self.squared else torch.exp
        boxes = anchored_boxes(raw, anchors, self.stretch, growth, width)
        objectness, classes = raw[:, 4:5].sigmoid(), raw[:, FIRST_CLASS:].sigmoid()
        return Level(boxes, objectness * classes, classes)


def classes_of_head(output: torch.Tensor, anchors: Sequence[float]) -> int:
    """Return how many classes a raw head scores; 0 if the anchors do not fit."""
    count, odd = divmod(len(anchors), 2)
    channels = output.numel() // (output.shape[2] * output.shape[3])
    if odd or not count or channels % count or (output.ndim == 5 and output.shape[1] != count):
        return 0
    return max(0, channels // count - 5)


PLUGIN = DetectorPlugin(
    name='onnx',
    description='any YOLO that was exported to ONNX, from detector_path',
    licence="the file's own",
    load=lambda settings, store, device: load_onnx_yolo(
        settings.detector_path, settings.detector_labels, DetectorOptions.of(settings), device
    ),
    takes=('detector_path', 'detector_labels'),
)
