"""Numbers of equal things in a stream: each keeps its own from image to image.

Where things are tracked, that says which is which. What was lost is recognised by where it should
be by now: it stayed, it went on as it did, or it moved together with the others.
"""

from bisect import insort
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import cv2
import numpy as np
from scipy.optimize import linear_sum_assignment

from niom_ros.core.homographies import warp_points
from niom_ros.matching.partly_hidden import overlap


@dataclass(frozen=True)
class NumberingParameters:
    """When something is what was seen before."""

    memory: float = 20.0  # seconds for which what is not seen keeps its number
    least_overlap: float = 0.3  # of the outlines of a match and of a track in the same image
    farthest: float = 0.75  # of its size, from where something lost should be by now
    like_size: float = 1.6  # how many times larger or smaller it may have become
    pace: float = 0.5  # seconds over which its motion is measured
    coasting: float = 5.0  # seconds for which it may have gone on like that
    # How much worse a place is at which it can only be if it stopped or slowed down on its way
    detour: float = 1.0
    most_places: int = 512  # that are remembered of each


DEFAULTS = NumberingParameters()


@dataclass(frozen=True)
class SeenPlace:
    """Where something was in one image."""

    stamp: float  # seconds
    outline: np.ndarray  # 4 x 2, pixels of the upright image

    @property
    def middle(self) -> np.ndarray:
        """Return the middle of the outline."""
        return np.asarray(self.outline.mean(axis=0))

    @property
    def size(self) -> float:
        """Return the side of a square of the same area."""
        return float(np.sqrt(max(cv2.contourArea(self.outline.astype(np.float32)), 1.0)))


@dataclass(frozen=True)
class Numbered:
    """Something with a number, and where it was."""

    number: int
    revision: int  # of its reference
    places: deque[SeenPlace] = field(
        default_factory=lambda: deque(maxlen=DEFAULTS.most_places)
    )  # in the order of their stamps; never empty

    @property
    def last(self) -> SeenPlace:
        """Return where it was seen last."""
        return self.places[-1]

    def at(self, stamp: float) -> SeenPlace | None:
        """Return where it was in the image of this stamp; None: not seen in it."""
        return next((place for place in self.places if place.stamp == stamp), None)

    def nearest(self, stamp: float) -> SeenPlace:
        """Return where it was seen at about this time."""
        return min(self.places, key=lambda place: abs(place.stamp - stamp))

    def coasted(self, stamp: float, parameters: NumberingParameters = DEFAULTS) -> SeenPlace:
        """Return where it is at a time if it goes on as it did when it was seen."""
        known = self.nearest(stamp)
        window = [each for each in self.places if 0 <= known.stamp - each.stamp < parameters.pace]
        seconds = known.stamp - window[0].stamp
        if seconds <= 0:
            return known
        pace = (known.middle - window[0].middle) / seconds
        ahead = np.clip(stamp - known.stamp, -parameters.coasting, parameters.coasting)
        return SeenPlace(stamp, known.outline + pace * ahead)


class Numbers:
    """Gives numbers to things; a number is never used again."""

    def __init__(self, parameters: NumberingParameters = DEFAULTS) -> None:
        """Start with number 1."""
        self._parameters = parameters
        self._known: dict[int, Numbered] = {}
        self._newest = 0

    @property
    def known(self) -> Sequence[Numbered]:
        """Return all that have a number, the oldest first."""
        return tuple(self._known.values())

    def forget(self) -> None:
        """Forget all; what is seen from now on gets new numbers."""
        self._known.clear()

    def keep(self, revisions: Collection[int]) -> None:
        """Forget all but those of these references."""
        self._known = {n: each for n, each in self._known.items() if each.revision in revisions}

    def forget_old(self, stamp: float) -> None:
        """Forget those that were not seen for too long before a time."""
        oldest = stamp - self._parameters.memory
        self._known = {n: each for n, each in self._known.items() if each.last.stamp >= oldest}

    def see(self, number: int, stamp: float, outline: np.ndarray) -> None:
        """Note where something is in an image."""
        known = self._known.get(number)
        if known is not None and known.at(stamp) is None:
            if known.last.stamp < stamp:
                known.places.append(SeenPlace(stamp, outline))
                return
            places = list(known.places)
            insort(places, SeenPlace(stamp, outline), key=attrgetter('stamp'))
            known.places.clear()
            known.places.extend(places)

    def identify(
        self,
        stamp: float,
        found: Sequence[tuple[int, np.ndarray]],
        tracked: Collection[int] = (),
        most: int | None = None,
    ) -> list[int]:
        """Return the number of each thing that was found in an image, new ones if need be.

        Each is the revision of its reference and its outline. Together with what is `tracked`, at
        most so many things have a place; what is new and has none gets 0, but never all of them.
        """
        numbers: dict[int, int] = {}  # by index
        places = [SeenPlace(stamp, outline) for _, outline in found]
        for costs_of in (self._track_costs, self._lost_costs):
            rest = [index for index in range(len(found)) if index not in numbers]
            free = [each for each in self._known.values() if each.number not in numbers.values()]
            costs = np.full((len(rest), len(free)), np.inf)
            for column, known in enumerate(free):
                costs[:, column] = costs_of(known, stamp, [places[index] for index in rest])
                others = [found[index][0] != known.revision for index in rest]
                costs[others, column] = np.inf
            for row, column in cheapest(costs):
                numbers[rest[row]] = free[column].number
        placed = {*numbers.values(), *tracked} if numbers else set()
        for index, (revision, outline) in enumerate(found):
            if index not in numbers:
                if most is not None and len(placed) >= most:
                    numbers[index] = 0
                    continue
                placed.add(self._newest + 1)
                self._newest += 1
                numbers[index] = self._newest
                self._known[self._newest] = Numbered(self._newest, revision)
                self._known[self._newest].places.append(places[index])
            self.see(numbers[index], stamp, outline)
        return [numbers[index] for index in range(len(found))]

    def _track_costs(
        self, known: Numbered, stamp: float, places: Sequence[SeenPlace]
    ) -> list[float]:
        """Return how unlikely something that was tracked in this image is at each place."""
        there = known.at(stamp)
        if there is None:
            return [np.inf] * len(places)
        shares = [overlap(there.outline, place.outline) for place in places]
        least = self._parameters.least_overlap
        return [1 - share if share >= least else np.inf for share in shares]

    def _lost_costs(
        self, known: Numbered, stamp: float, places: Sequence[SeenPlace]
    ) -> list[float]:
        """Return how unlikely something that was not tracked in this image is at each place."""
        if known.at(stamp) is not None:
            return [np.inf] * len(places)
        last, coasted = known.nearest(stamp), known.coasted(stamp, self._parameters)
        expected = [last, coasted]
        motion = self._common_motion(known, last.stamp, stamp)
        if motion is not None:
            expected.append(SeenPlace(stamp, warp_points(motion, last.outline)))
        return [self._lost_cost(last, expected, coasted, place) for place in places]

    def _lost_cost(
        self,
        last: SeenPlace,
        expected: Sequence[SeenPlace],
        coasted: SeenPlace,
        place: SeenPlace,
    ) -> float:
        """Return how unlikely something is at a place, if it was seen last at another one."""
        parameters = self._parameters
        growth = max(last.size / place.size, place.size / last.size)
        if growth > parameters.like_size:
            return np.inf
        offsets = [np.linalg.norm(each.middle - place.middle) / last.size for each in expected]
        offset = float(min(offsets))
        if offset <= parameters.farthest:
            return offset
        beside = distance_to_way(last.middle, coasted.middle, place.middle) / last.size
        if beside <= parameters.farthest:
            ahead = float(np.linalg.norm(coasted.middle - place.middle)) / last.size
            return parameters.detour + beside + ahead / 10
        return np.inf

    def _common_motion(self, known: Numbered, before: float, after: float) -> np.ndarray | None:
        """Return how most others moved between two times: a turn, a scale and a shift (3 x 3)."""
        then, now = [], []
        for other in self._known.values():
            first, second = other.nearest(before), other.at(after)
            close = abs(first.stamp - before) < self._parameters.pace
            if other.number != known.number and second is not None and close:
                then.append(first.outline)
                now.append(second.outline)
        if not then:
            return None
        motion, _ = cv2.estimateAffinePartial2D(
            np.concatenate(then), np.concatenate(now), ransacReprojThreshold=0.1 * known.last.size
        )
        return None if motion is None else np.vstack([motion, [0, 0, 1]])


def distance_to_way(start: np.ndarray, end: np.ndarray, point: np.ndarray) -> float:
    """Return how far a point is from the straight way between two others."""
    way = end - start
    share = ((point - start) @ way) / max(float(way @ way), 1e-9)
    return float(np.linalg.norm(start + np.clip(share, 0, 1) * way - point))


def cheapest(costs: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of rows and columns that cost least in all; infinite: no pair."""
    if not costs.size or not np.isfinite(costs).any():
        return []
    # Dearer than any other set of pairs, so that there are as many pairs as possible.
    never = 1 + 2 * costs.size * float(costs[np.isfinite(costs)].max() + 1)
    rows, columns = linear_sum_assignment(np.where(np.isfinite(costs), costs, never))
    return [
        (int(row), int(column))
        for row, column in zip(rows, columns, strict=True)
        if np.isfinite(costs[row, column])
    ]


def hidden_ones(
    outlines: Mapping[int, np.ndarray],
    support: Mapping[int, float],
    before: Collection[int],
    most: float,
) -> dict[int, int]:
    """Return the numbers that are behind others, each with that of the other one.

    Only one of two things at the same place is seen: the one that was seen in the frame `before`,
    as a track that was lost may go on with what hides it; then the one that more of its points
    agree with; and if that says nothing, the one that is known for longer.
    """
    hidden: dict[int, int] = {}

    def rank(number: int) -> tuple[bool, float, int]:
        return number not in before, -round(support[number], 1), number

    numbers = sorted(outlines, key=rank)
    for index, number in enumerate(numbers):
        for front in numbers[:index]:
            if front not in hidden and overlap(outlines[front], outlines[number]) > most:
                hidden[number] = front
                break
    return hidden
