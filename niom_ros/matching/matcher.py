"""From a reference and an image to a match: strategies are tried until one succeeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
import time

import numpy as np

from niom_ros.core.field_types import check_type
from niom_ros.core.plugins import FAILED, STRATEGIES
from niom_ros.core.settings import Limits, Options, Settings, SettingsError, Wanted
from niom_ros.images.decoding import check_rgb
from niom_ros.matching.image_analysis import ImageAnalysis
from niom_ros.matching.match import Approach, mark_weights_unneeded, Match, NOT_TRIED
from niom_ros.matching.perception import Perception
from niom_ros.matching.preparation import prepare
from niom_ros.matching.prepared_reference import check_prepared, PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.matching.reference import Reference
from niom_ros.matching.several import find_copies, Places
from niom_ros.matching.strategies.registry import load_strategies
from niom_ros.matching.strategies.strategy import LoadsLater, Search, Strategy
from niom_ros.matching.symmetry import described_turns
from niom_ros.models.store import ModelStore


@dataclass
class Spent:
    """On what a full match has spent its time."""

    on_keypoints: bool = False  # whether on any strategy whose time depends on their number
    on_others: float = 0.0  # seconds

    def add(self, strategy: Strategy, seconds: float) -> None:
        """Add the time of a strategy."""
        if strategy.by_keypoints:
            self.on_keypoints = True
        else:
            self.on_others += seconds


class Matcher:
    """Finds references in images. Holds the networks; safe to use from several threads."""

    def __init__(self, settings: Settings | None = None, store: ModelStore | None = None) -> None:
        """Load the networks from the model store."""
        settings = settings or Settings()
        check_type('settings', settings, Settings, SettingsError)
        self.perception = Perception(settings, store or ModelStore())
        self._strategies = load_strategies(self.perception)
        self.method = self.perception.method
        self.detector = settings.detector
        self.device = self.perception.device.type
        self.max_keypoints = settings.max_keypoints

    def prepare(
        self, reference: Reference | np.ndarray, fewest_keypoints: int = Limits.min_inliers
    ) -> PreparedReference:
        """Run the networks on a reference, or on an RGB picture without a description.

        Do this once; the result can be matched with any number of images.
        """
        given = reference if isinstance(reference, Reference) else Reference(reference)
        if given.wanted is not None:
            self.load_for(Options(wanted=given.wanted))
        return prepare(self.perception, given, fewest_keypoints)

    def load_for(self, options: Options) -> None:
        """Load all networks that these options need, so that errors show now.

        Otherwise some are loaded by the first match that needs them.
        """
        for name, strategy in self._strategies_for(options.wanted, options):
            if isinstance(strategy, LoadsLater):
                with STRATEGIES.blaming(name):
                    strategy.load_networks()

    def analyse(self, image: np.ndarray, max_keypoints: int | None = None) -> ImageAnalysis:
        """Return an RGB image as the networks see it; everything is computed when needed."""
        return ImageAnalysis(image, self.perception, max_keypoints)

    def match(
        self, reference: PreparedReference, image: np.ndarray, options: Options | None = None
    ) -> Match:
        """Find the reference in an RGB image (height x width x 3, uint8)."""
        check_prepared(reference)
        check_rgb(image, 'the image')
        check_type('options', options, Options | None, SettingsError)
        return self.match_all([reference], self.analyse(image), options)[0]

    def match_several(
        self, reference: PreparedReference, image: np.ndarray, options: Options | None = None
    ) -> list[Match]:
        """Find the reference at up to `max_instances` places in an RGB image, the best first.

        If it is not found, the only match says why.
        """
        check_prepared(reference)
        check_rgb(image, 'the image')
        check_type('options', options, Options | None, SettingsError)
        options, analysis = options or Options(), self.analyse(image)
        matches = self.match_all([reference], analysis, options)
        further = self.find_further([reference], matches, analysis, options)
        seconds = analysis.times.seconds()
        found = [*matches, *(match for _, match in further)]
        return [replace(match, stage_seconds=seconds) for match in found]

    def find_further(
        self,
        references: Sequence[PreparedReference],
        matches: Sequence[Match],
        image: ImageAnalysis,
        options: Options,
        expected: Sequence[tuple[int, np.ndarray]] = (),
    ) -> list[tuple[int, Match]]:
        """Return places of references besides that of the best match, `max_instances` in all.

        Each is the index of its reference and a match that passed the same judgement. First come
        the other references that were found; then each is looked for again in the way in which it
        was found, with all that was found so far hidden: first, if that is possible, where it is
        `expected` (the index of a reference, and a view of it).
        """
        order = sorted(range(len(matches)), key=lambda each: matches[each].agreement, reverse=True)
        places = Places(references, options.max_instances)
        for index in order:
            places.add(index, matches[index])
        for index in order:
            approach = matches[index].approach
            if matches[index].found and approach is not None:
                search = Search(
                    reference=references[index],
                    image=image,
                    options=options,
                    approach=approach,
                    expected=tuple(view for each, view in expected if each == index),
                )
                with STRATEGIES.blaming(approach.strategy, FAILED):
                    find_copies(self._strategies[approach.strategy], search, index, places)
        return places.found[1:]

    def match_all(
        self,
        references: Sequence[PreparedReference],
        image: ImageAnalysis,
        options: Options | None = None,
        prior: Prior | None = None,
    ) -> list[Match]:
        """Find each of the references in an image; the stage times are totals over all of them.

        Each approach is tried on all references, until one of these is found. In a stream, the
        approach that succeeded in the last image goes first.
        """
        options = options or Options()
        image.make_room(len(references))
        if prior is not None and prior.scene is not None:
            image.carry_over(prior.scene)
        plans = [self.approaches(reference, options, prior) for reference in references]
        matches = [NOT_TRIED] * len(references)
        spent = Spent()
        for turn in range(max(map(len, plans), default=0)):
            if any(match.found for match in matches):
                if any(approach.weighting != 'none' for plan in plans for approach in plan[turn:]):
                    matches = mark_weights_unneeded(matches)
                break
            matches = [
                self._try(
                    Search(
                        reference=reference,
                        image=image,
                        options=options,
                        approach=plan[turn],
                        prior=prior if prior and prior.reference is reference else None,
                        earlier=earlier,
                        only_reference=len(references) == 1,
                    ),
                    spent,
                )
                if turn < len(plan)
                else earlier
                for reference, plan, earlier in zip(references, plans, matches, strict=True)
            ]
        seconds = image.times.seconds()
        remarks = [described_turns(reference.symmetric_turns) for reference in references]
        return [
            replace(
                match.with_remark(remark) if match.found else match,
                stage_seconds=seconds,
                by_keypoints=spent.on_keypoints,
                fixed_seconds=spent.on_others,
            )
            for match, remark in zip(matches, remarks, strict=True)
        ]

    def strategy(self, name: str) -> Strategy:
        """Return a strategy that was loaded."""
        return self._strategies[name]

    def approaches(
        self, reference: PreparedReference, options: Options, prior: Prior | None = None
    ) -> list[Approach]:
        """Return how to look for a reference; each is tried if those before it failed."""
        planned = []
        wanted = reference.given.wanted or options.wanted
        for name, strategy in self._strategies_for(wanted, options):
            with STRATEGIES.blaming(name, FAILED):
                kinds = strategy.weightings(reference, options)
            planned += [Approach(name, kind) for kind in kinds]
        return sorted(planned, key=lambda approach: not prior or approach != prior.approach)

    def _strategies_for(self, wanted: Wanted, options: Options) -> list[tuple[str, Strategy]]:
        """Return the strategies that look for what is wanted, in their order, with their names."""
        return [
            (name, strategy)
            for name, strategy in self._strategies.items()
            if wanted in ('either', strategy.seeks)
            and (options.strategies is None or name in options.strategies)
        ]

    def _try(self, search: Search, spent: 'Spent') -> Match:
        """Run a strategy, and return its match or the earlier one, as the strategy decides."""
        strategy, earlier = self._strategies[search.approach.strategy], search.earlier
        with STRATEGIES.blaming(search.approach.strategy, FAILED):
            begun = time.perf_counter()
            later = strategy.find(search)
            spent.add(strategy, time.perf_counter() - begun)
            if later is None:
                return earlier
            replaces = strategy.replaces(earlier, later)
        if replaces:
            return replace(later, approach=search.approach).instead_of(earlier)
        return earlier.with_findings_of(later)
