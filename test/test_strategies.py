"""How the matcher uses strategies: their order, which result wins, and one from outside."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from threading import Barrier
import time
from typing import ClassVar, TypeVar

import numpy as np
import pytest

from niom_ros.core.plugins import STRATEGIES
from niom_ros.core.settings import Options, Settings, Sought
from niom_ros.matching.checks import Checks
from niom_ros.matching.correspondences import Correspondences
from niom_ros.matching.geometry import Status, Verdict
from niom_ros.matching.image_analysis import ImageAnalysis, Once
from niom_ros.matching.match import Approach, Match
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.perception import Perception
from niom_ros.matching.prepared_reference import PreparedReference
from niom_ros.matching.prior import Prior
from niom_ros.matching.strategies.ink_judgement import InkChecks
from niom_ros.matching.strategies.strategy import Search, StrategyPlugin
from niom_ros.models.store import ModelStore
from niom_ros.semantics.pairing import PairedObjects
from niom_ros.semantics.scene import Scene
from niom_ros.simulation.virtual_scene import example_photo

SETTINGS = Settings(device='cpu', max_keypoints=256, detector='none')
CHECKS = TypeVar('CHECKS', bound=Checks)
SAME_OBJECT = Options(wanted='same_object', keypoint_search='networks')
BY_POINTS, BY_WEIGHTED_POINTS = Approach('points'), Approach('points', 'sew')
BY_NETWORKS = [BY_POINTS, BY_WEIGHTED_POINTS, Approach('turned')]
TURNED = np.array([[0.0, -1, 399], [1, 0, 0], [0, 0, 1]])


def found(view: np.ndarray = TURNED) -> Match:
    agree = np.ones(30, bool)
    points = np.zeros((30, 2), np.float32)
    verdict = Verdict(Status.OK, 'turned by a quarter', agree, view, confidence=0.8)
    return Match(verdict, Correspondences(points, points, np.ones(30, np.float32)))


def refused(confidence: float) -> Match:
    verdict = Verdict(Status.LOW_CONFIDENCE, 'no', np.zeros(0, bool), confidence=confidence)
    return Match(verdict)


class Tiny:
    """A strategy that returns what a test wants."""

    name: ClassVar[str] = 'tiny'
    rank: ClassVar[int] = 400
    seeks: ClassVar[Sought] = 'same_object'
    by_keypoints: ClassVar[bool] = False
    applies = True
    answer: Match | None = None
    always_replaces = False

    def __init__(self, perception: Perception) -> None:
        self.asked: list[Search] = []

    def weightings(self, reference: PreparedReference, options: Options) -> Sequence[str]:
        return ('none',) if self.applies else ()

    def find(self, search: Search) -> Match | None:
        self.asked.append(search)
        return self.answer

    def replaces(self, earlier: Match, later: Match) -> bool:
        return self.always_replaces or later.agreement > earlier.agreement


MADE: list[Tiny] = []


def make(perception: Perception, store: ModelStore) -> Tiny:
    MADE.append(Tiny(perception))
    return MADE[-1]


PLUGIN = StrategyPlugin(name='tiny', description='for tests', licence='Apache-2.0', load=make)


@pytest.fixture(scope='module')
def with_tiny() -> Iterator[tuple[Matcher, Tiny]]:
    """Return a matcher that knows one more strategy, registered in one line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STRATEGIES.built_in, 'tiny', 'test_strategies:PLUGIN')
        yield Matcher(SETTINGS), MADE[-1]


@pytest.fixture
def tiny(with_tiny: tuple[Matcher, Tiny], monkeypatch: pytest.MonkeyPatch) -> Tiny:
    _, tiny = with_tiny
    tiny.asked.clear()
    for name in ('applies', 'answer', 'always_replaces', 'rank'):
        monkeypatch.setattr(tiny, name, getattr(Tiny, name))
    return tiny


@pytest.fixture
def matcher(with_tiny: tuple[Matcher, Tiny]) -> Matcher:
    return with_tiny[0]


@pytest.fixture(scope='module')
def cup(with_tiny: tuple[Matcher, Tiny], coffee: np.ndarray) -> PreparedReference:
    return with_tiny[0].prepare(coffee)


@pytest.fixture(scope='module')
def elsewhere() -> np.ndarray:
    return example_photo('astronaut')


def test_a_strategy_from_outside_is_asked_last_and_its_answer_bears_its_name(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, elsewhere: np.ndarray
) -> None:
    tiny.answer = found()
    match = matcher.match(cup, elsewhere, SAME_OBJECT)
    assert match.found and match.message == 'turned by a quarter'
    assert (match.strategy, match.approach) == ('tiny', Approach('tiny'))
    assert (match.reference_to_image == TURNED).all()
    (search,) = tiny.asked
    assert search.reference is cup and search.only_reference
    assert search.earlier.approach in BY_NETWORKS and not search.earlier.found
    # What an earlier one knows about the image is reported too.
    assert match.image_keypoints == 256
    assert list(match.stage_seconds)[:2] == ['extract', 'match']


def test_a_strategy_is_not_asked_when_an_earlier_one_found_it(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, coffee: np.ndarray
) -> None:
    tiny.answer = found()
    match = matcher.match(cup, coffee, SAME_OBJECT)
    assert match.found and match.strategy == 'points'
    assert not tiny.asked


def test_ranks_and_what_applies_decide_on_the_order(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = [*BY_NETWORKS, Approach('tiny')]
    assert matcher.approaches(cup, SAME_OBJECT) == last
    prior = Prior(cup, Approach('tiny'), np.eye(3))
    assert matcher.approaches(cup, SAME_OBJECT, prior) == [Approach('tiny'), *BY_NETWORKS]
    unknown = replace(prior, approach=Approach('uninstalled since'))
    assert matcher.approaches(cup, SAME_OBJECT, unknown) == last
    tiny.applies = False
    assert matcher.approaches(cup, SAME_OBJECT, prior) == BY_NETWORKS
    monkeypatch.setattr(Tiny, 'rank', 10)
    assert Matcher(SETTINGS).approaches(cup, SAME_OBJECT)[0] == Approach('tiny')


def test_options_may_leave_strategies_out(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference
) -> None:
    only = Options(strategies=('points',))
    assert matcher.approaches(cup, only) == [BY_POINTS, BY_WEIGHTED_POINTS]
    assert matcher.approaches(cup, Options(strategies=())) == []


def test_what_is_wanted_decides_on_the_strategies(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_object = [Approach('classical'), *BY_NETWORKS, Approach('tiny')]
    alike = Approach('alike')
    assert matcher.approaches(cup, Options(wanted='same_object')) == same_object
    assert matcher.approaches(cup, Options(wanted='same_kind')) == [alike]
    assert set(matcher.approaches(cup, Options())) == {*same_object, alike}
    monkeypatch.setattr(Tiny, 'seeks', 'same_kind')
    assert Approach('tiny') in matcher.approaches(cup, Options(wanted='same_kind'))
    # The reference's own choice comes first.
    choosy = replace(cup, given=replace(cup.given, wanted='same_kind'))
    assert alike in matcher.approaches(choosy, SAME_OBJECT)
    assert BY_POINTS not in matcher.approaches(choosy, SAME_OBJECT)


def test_the_time_of_a_match_depends_on_keypoints_but_for_what_others_took(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, elsewhere: np.ndarray
) -> None:
    alone = matcher.match(cup, elsewhere, replace(SAME_OBJECT, strategies=('points',)))
    assert alone.by_keypoints and alone.fixed_seconds == 0

    def slowly(search: Search, find: Callable[[Search], Match | None] = tiny.find) -> Match | None:
        time.sleep(0.05)
        return find(search)

    for answer in (None, refused(0.0), found()):
        tiny.answer = answer
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiny, 'find', slowly)
            both = matcher.match(cup, elsewhere, SAME_OBJECT)
        assert both.by_keypoints and 0.05 <= both.fixed_seconds < 1


def test_a_prior_reaches_only_its_own_reference_and_approach(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, elsewhere: np.ndarray
) -> None:
    other = replace(cup)
    prior = Prior(cup, Approach('tiny'), TURNED)
    matcher.match_all([cup, other], matcher.analyse(elsewhere), SAME_OBJECT, prior)
    first, second = tiny.asked
    assert first.prior is first.own_prior is prior
    assert second.prior is None and second.own_prior is None
    assert not first.only_reference
    tiny.asked.clear()
    by_points = replace(prior, approach=BY_POINTS)
    matcher.match_all([cup], matcher.analyse(elsewhere), SAME_OBJECT, by_points)
    (search,) = tiny.asked
    assert search.prior is by_points and search.own_prior is None


@pytest.mark.parametrize(
    ('confidence', 'always', 'is_reported'),
    [(0.45, False, True), (0.0, False, False), (0.0, True, True)],
)
def test_a_strategy_says_itself_whether_its_match_replaces_an_earlier_one(
    matcher: Matcher,
    tiny: Tiny,
    cup: PreparedReference,
    elsewhere: np.ndarray,
    confidence: float,
    always: bool,
    is_reported: bool,
) -> None:
    tiny.answer, tiny.always_replaces = refused(confidence), always
    match = matcher.match(cup, elsewhere, SAME_OBJECT)
    assert not match.found
    assert (match.strategy == 'tiny') == is_reported


def test_objects_are_told_also_by_a_match_that_does_not_count(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, elsewhere: np.ndarray
) -> None:
    seen, paired = Scene(known_from='somebody'), PairedObjects(how='by hand')
    tiny.answer = replace(refused(0.0), scene=seen, paired=paired)
    match = matcher.match(cup, elsewhere, SAME_OBJECT)
    assert match.approach in BY_NETWORKS
    assert (match.scene, match.paired) == (seen, paired)
    tiny.answer = refused(0.0)  # which looked at no objects
    assert matcher.match(cup, elsewhere, SAME_OBJECT).scene.why_none == 'no detector'


def test_a_strategy_without_an_answer_changes_nothing(
    matcher: Matcher, tiny: Tiny, cup: PreparedReference, elsewhere: np.ndarray
) -> None:
    silent = matcher.match(cup, elsewhere, SAME_OBJECT)
    assert len(tiny.asked) == 1
    tiny.applies = False
    alone = matcher.match(cup, elsewhere, SAME_OBJECT)
    assert len(tiny.asked) == 1
    assert (silent.approach, silent.message) == (alone.approach, alone.message)
    assert silent.agreement == alone.agreement


def numbered(kind: type[CHECKS]) -> CHECKS:
    """Return checks whose values are their positions."""
    return kind(**{each.name: float(place) for place, each in enumerate(fields(kind))})


def test_checks_are_told_in_a_fixed_order_those_of_a_strategy_last() -> None:
    generic = numbered(Checks)
    assert generic.as_dict() == {
        'agreeing': 0,
        'inlier_ratio': 1,
        'coverage': 2,
        'area_ratio': 3,
        'corner_deviation': 4,
        'stretch': 5,
        'perspective': 6,
        'flatness': 7,
        'visible_deviation': 8,
    }
    of_ink = numbered(InkChecks)
    assert list(of_ink.as_dict()) == [
        *generic.as_dict(),
        'ink_on_edges',
        'sharpness',
        'size',
        'corner_uncertainty',
        'contrast',
    ]


# The analysis of an image


def both(threads: ThreadPoolExecutor, ask: Callable[[], object]) -> list[object]:
    """Let two threads ask at the same time."""
    ready = Barrier(2)

    def at_once(_: int) -> object:
        ready.wait()
        return ask()

    return list(threads.map(at_once, range(2)))


@pytest.mark.parametrize(
    ('part', 'network', 'stage'),
    [
        ('features', 'extract', 'extract'),
        ('scene', 'read_scene', 'detect'),
        ('edges', 'find_edges', 'edges'),
    ],
)
def test_each_part_is_computed_once_when_two_threads_ask(
    matcher: Matcher,
    coffee: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    network: str,
    stage: str,
) -> None:
    compute, calls = getattr(matcher.perception, network), []

    def slowly(image: np.ndarray) -> object:
        calls.append(image)
        time.sleep(0.1)
        return compute(image)

    monkeypatch.setattr(matcher.perception, network, slowly)
    image = matcher.analyse(coffee)
    assert stage not in image.times.seconds()
    with ThreadPoolExecutor(2) as threads:
        first, second = both(threads, lambda: getattr(image, part))
    assert first is second
    assert len(calls) == 1
    assert stage in image.times.seconds()


def test_what_failed_is_tried_again_by_the_next_who_asks() -> None:
    answers = iter([ZeroDivisionError, 7])

    def compute() -> int:
        answer = next(answers)
        if answer is ZeroDivisionError:
            raise ZeroDivisionError
        return answer

    value: Once[int] = Once()
    with pytest.raises(ZeroDivisionError):
        value.get(compute)
    assert value.known is None
    assert (value.get(compute), value.get(compute), value.known) == (7, 7, 7)
    value.offer(8)
    assert value.get(compute) == 7


def test_an_image_knows_whether_its_objects_were_detected_in_it(
    matcher: Matcher, coffee: np.ndarray
) -> None:
    image, carried = matcher.analyse(coffee), Scene(known_from='an image before')
    assert not image.has_scene and not image.scene_was_detected
    image.carry_over(carried)
    assert image.scene is carried and not image.scene_was_detected
    looked_at = matcher.analyse(coffee)
    detected = looked_at.scene
    looked_at.carry_over(carried)
    assert looked_at.scene is detected and looked_at.scene_was_detected


def test_a_part_has_keypoints_of_its_own_and_shares_everything_else(
    matcher: Matcher, coffee: np.ndarray
) -> None:
    image: ImageAnalysis = matcher.analyse(coffee)
    part = image.of_part(replace(image.whole, left=100, top=50, width=200, height=150), 64)
    assert part.place == (100, 50)
    assert (part.features.width, part.features.height) == (200, 150)
    assert len(part.features) <= 64
    assert not image.has_features
    assert part.scene is image.scene
    assert part.times is image.times
    assert part.parts is image.parts


def test_an_image_with_other_objects_shares_what_does_not_depend_on_them(
    matcher: Matcher, coffee: np.ndarray
) -> None:
    image, others = matcher.analyse(coffee), Scene(known_from='an image before')
    features = image.features
    changed = image.with_scene(others)
    assert changed.scene is others and not changed.scene_was_detected
    assert changed.features is features
    assert changed.edges is image.edges
    assert changed.parts is not image.parts
    assert 'extract' in image.times.seconds() and 'extract' not in changed.times.seconds()
