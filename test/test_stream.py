"""The schedule of a stream, with a fake clock and scripted matches."""

from dataclasses import replace
from threading import Event, Thread

import numpy as np
import pytest
from scripted_matcher import named_reference, ScriptedMatcher

from niom_ros.core.boxes import Box
from niom_ros.core.settings import Limits, Options, StreamOptions
from niom_ros.matching.geometry import corner_error, Status
from niom_ros.simulation.virtual_scene import example_photo, VirtualScene
from niom_ros.stream.answers import no_answer
from niom_ros.stream.frame import Frame, RefusedFrame
from niom_ros.stream.match_deadline import MatchDeadline
from niom_ros.stream.recollection import Recollection
from niom_ros.stream.stream import Stream
from niom_ros.tracking.tracker import Tracker

PICTURE = example_photo('coffee')
BOX = Box.around(PICTURE)
STEP = 0.1  # seconds from frame to frame


class Film:
    """Shows a scene to a stream with a clock of its own; its matches know the truth."""

    def __init__(self, **options):
        self.scene = VirtualScene(PICTURE, example_photo('gravel'), 320, 240)
        self.now = 0.0
        self.number = 0
        self.options = StreamOptions(**options)
        self.references = (named_reference(PICTURE),)
        self.truths = {}
        self.images = []  # kept, so that no other image gets the same id
        self.matcher = ScriptedMatcher(lambda image: self.truths.get(id(image)), BOX)
        self.faults = []
        self.stream = self.new_stream()

    @property
    def prepared(self):
        return [known.prepared for known in self.references]

    def new_stream(self, **injected):
        return Stream(self.matcher, clock=lambda: self.now, report=self.faults.append, **injected)

    def frame(self, image=None):
        """Return the next frame, of the scene or of something else."""
        self.number += 1
        self.now += STEP
        if image is None:
            view = self.scene.view(self.number * STEP / 3, self.number)
            image = view.image
            self.truths[id(image)] = view.picture_to_image
        self.images.append(image)
        return Frame(
            image, self.now, self.references, options=self.options, tag=f'frame {self.number}'
        )

    def refused(self):
        frame = self.frame()
        answer = no_answer(Status.BAD_IMAGE, 'it is damaged')
        return RefusedFrame(answer, frame.stamp, self.references, self.options)

    def error_of(self, frame, answer):
        return corner_error(answer.reference_to_image, self.truths[id(frame.image)], BOX)

    def lock(self):
        """Show a frame and match it, so that the next ones can be tracked."""
        frame = self.frame()
        assert self.stream.follow(frame) is None
        assert self.stream.wants_match
        assert self.stream.match(frame).found
        return frame


@pytest.fixture
def film():
    return Film()


def test_what_a_full_match_found_is_tracked_and_names_that_match(film):
    film.lock()
    for _ in range(3):
        frame = film.frame()
        answer = film.stream.follow(frame)
        assert answer.found and answer.tracked
        assert answer.matched_tag == 'frame 1'
        assert answer.reference is film.references[0]
        assert film.error_of(frame, answer) < 2
        assert list(answer.match.stage_seconds) == ['track']
        assert not film.stream.wants_match


def test_a_full_match_itself_is_not_tracked(film):
    answer = film.stream.match(film.frame())
    assert answer.found and not answer.tracked


def test_every_frame_is_to_be_matched_until_one_is_found(film):
    for _ in range(3):
        assert film.stream.follow(film.frame()) is None
        assert film.stream.wants_match


def test_while_tracking_one_frame_in_an_interval_is_to_be_matched():
    film = Film(match_interval=0.45)
    film.lock()
    wanted = []
    for _ in range(12):
        film.stream.follow(film.frame())
        wanted.append(film.stream.wants_match)
    # The first was frame 1, so 0.45 s later it is frame 6, then 11.
    assert [number for number, wants in enumerate(wanted, start=2) if wants] == [6, 11]


def test_a_later_full_match_takes_over(film):
    film.lock()
    second = film.frame()
    film.stream.follow(second)
    film.stream.match(second)
    assert film.stream.follow(film.frame()).matched_tag == 'frame 2'


def test_a_full_match_may_come_late_and_leave_frames_out(film):
    first = film.frame()
    film.stream.follow(first)
    for _ in range(5):
        assert film.stream.follow(film.frame()) is None
    film.stream.match(first)
    frame = film.frame()
    answer = film.stream.follow(frame)
    assert answer.matched_tag == 'frame 1'
    assert film.error_of(frame, answer) < 2


def test_the_answer_is_given_before_the_tracker_catches_up(film):
    events = []

    class Watched(Tracker):
        def matched(self, match):
            events.append('tracker')
            return super().matched(match)

    stream = film.new_stream(tracker=Watched())
    frame = film.frame()
    stream.follow(frame)
    stream.match(frame, lambda answer: events.append(answer.status.name))
    assert events == ['OK', 'tracker']


def test_a_loss_is_answered_once_and_at_once(film):
    film.lock()
    assert film.stream.follow(film.frame()).found
    empty = np.full((240, 320, 3), 128, np.uint8)
    lost = film.stream.follow(film.frame(empty))
    assert not lost.found and lost.message
    assert film.stream.wants_match
    assert film.stream.follow(film.frame(empty)) is None


@pytest.mark.parametrize(
    'change',
    [
        {'rotation': 180},
        {'matching': Options(limits=Limits(min_confidence=0.6))},
        {'tracking': False},
    ],
)
def test_a_track_ends_when_something_else_is_asked(film, change):
    film.lock()
    assert film.stream.follow(film.frame()).found
    film.options = replace(film.options, **change)
    answer = film.stream.follow(film.frame())
    assert not answer.found
    assert answer.message == 'the track was lost: searching again'
    assert film.stream.wants_match


def test_another_reference_is_not_answered_by_the_track_of_the_first(film):
    film.lock()
    film.references = (named_reference(PICTURE, revision=2),)
    assert film.stream.follow(film.frame()) is None


def test_a_match_of_what_is_no_longer_looked_for_starts_no_track(film):
    old = film.frame()
    film.stream.follow(old)
    film.references = (named_reference(PICTURE, revision=2),)
    film.stream.follow(film.frame())
    film.stream.match(old)
    assert film.stream.follow(film.frame()) is None


def test_without_tracking_every_frame_is_matched_in_full():
    film = Film(tracking=False)
    for _ in range(3):
        frame = film.frame()
        assert film.stream.follow(frame) is None
        assert film.stream.wants_match
        assert film.stream.match(frame).found


def test_forgetting_ends_the_track(film):
    film.lock()
    film.stream.forget('somebody wants that')
    assert film.stream.follow(film.frame()) is None


def test_a_refused_frame_ends_no_track_and_is_answered_by_the_match(film):
    film.lock()
    assert film.stream.follow(film.frame()).found
    refused = film.refused()
    assert film.stream.follow(refused).message == 'it is damaged'
    assert film.stream.follow(film.frame()).found
    film.stream.forget('a new start')
    film.stream.follow(film.frame())
    refused = film.refused()
    assert film.stream.follow(refused) is None
    assert film.stream.wants_match
    answers = []
    assert film.stream.match(refused, answers.append).status is Status.BAD_IMAGE
    assert answers == [refused.answer]


def test_a_match_that_fails_is_answered_with_fault_and_reported(film):
    def fail(image):
        raise ValueError(3)

    film.matcher.view_of = fail
    frame = film.frame()
    film.stream.follow(frame)
    answer = film.stream.match(frame)
    assert answer.status is Status.FAULT
    assert film.faults == [answer.message] == ['niom failed on this frame: ValueError(3)']


def test_a_program_that_ends_is_not_kept_from_it_unless_it_asks_for_that(film):
    def end(image):
        raise SystemExit(3)

    film.matcher.view_of = end
    with pytest.raises(SystemExit):
        film.stream.match(film.frame())
    node = film.new_stream(survives=BaseException, name='the node')
    answer = node.match(film.frame())
    assert answer.message == 'the node failed on this frame: SystemExit(3)'


@pytest.mark.parametrize('back', [100.0, 0.0])
def test_time_that_goes_back_starts_over_and_is_tracked_again(film, back):
    """As in a looped video; also after as many full matches as are remembered."""
    film.options = replace(film.options, match_interval=0.2)
    stream = Stream(film.matcher, film.prepared, film.options)

    def sources(start):
        answers = [stream.answer(film.frame().image, start + n * STEP) for n in range(30)]
        return [answer.tracked for answer in answers]

    assert sources(back) == [False] + [True] * 29
    assert sources(0.0) == [False] + [True] * 29


def test_the_user_may_interrupt_a_match(film):
    def interrupt(image):
        raise KeyboardInterrupt

    film.matcher.view_of = interrupt
    with pytest.raises(KeyboardInterrupt):
        film.stream.match(film.frame())


def test_a_tracker_that_fails_costs_its_frame_and_its_track(film):
    class Broken(Tracker):
        broken = False

        def follow(self, image, stamp):
            if self.broken:
                raise RuntimeError('no more')
            return super().follow(image, stamp)

    tracker = Broken()
    film.stream = film.new_stream(tracker=tracker)
    film.lock()
    tracker.broken = True
    assert film.stream.follow(film.frame()).status is Status.FAULT
    assert film.faults == ["niom failed on this frame: RuntimeError('no more')"]
    tracker.broken = False
    assert film.stream.follow(film.frame()) is None
    assert film.stream.wants_match


def test_a_track_that_cannot_begin_is_reported_and_costs_no_answer(film):
    class Broken(Tracker):
        def matched(self, match):
            raise MemoryError

    film.stream = film.new_stream(tracker=Broken())
    film.lock()
    (fault,) = film.faults
    assert fault.startswith('tracking could not start: out of memory')


def test_a_match_that_does_not_end_is_told_instead_of_a_track_that_nobody_confirms(film):
    film.stream = film.new_stream(deadline=MatchDeadline(seconds=8.0))
    film.lock()
    reached, free = Event(), Event()
    answer_of = film.matcher.view_of

    def hang(image):
        reached.set()
        free.wait(10)
        return answer_of(image)

    film.matcher.view_of = hang
    thread = Thread(target=film.stream.match, args=(film.frame(),))
    thread.start()
    assert reached.wait(10)
    assert film.stream.follow(film.frame()).found
    film.now += 10
    stuck = film.stream.follow(film.frame())
    assert stuck.status is Status.FAULT
    assert 'a full match should have ended 2 s ago' in stuck.message
    assert not film.stream.wants_match
    free.set()
    thread.join(10)
    # It ended after all, and what it found is tracked.
    assert film.stream.follow(film.frame()).matched_tag == 'frame 2'


def test_a_slow_match_gets_fewer_keypoints_the_next_time():
    film = Film(tracking=False, max_latency=0.5)
    answer_of = film.matcher.view_of

    def slowly(image):
        film.now += 1.0
        return answer_of(image)

    film.matcher.view_of = slowly
    for _ in range(2):
        frame = film.frame()
        film.stream.follow(frame)
        film.stream.match(frame)
    first, second = (analysis.max_keypoints for analysis in film.matcher.analyses)
    assert first is None
    assert second == 576  # 0.6 of 1024, the largest cut, in steps of 64
    assert film.stream.keypoints(0.5) < second


class WatchedRecollection(Recollection):
    """Remembers what it was asked and told."""

    def __init__(self):
        super().__init__()
        self.tracked, self.noted = [], []

    def prior(self, references, tracked, **rest):
        self.tracked.append(tracked)
        return super().prior(references, tracked, **rest)

    def note(self, answer, stamp):
        self.noted.append(stamp)
        super().note(answer, stamp)


def test_a_match_starts_where_its_frame_was_tracked_to_however_many_frames_have_come_since():
    film = Film(match_interval=0.1)
    recollection = WatchedRecollection()
    film.stream = film.new_stream(recollection=recollection)
    film.lock()
    tracked = film.frame()
    assert film.stream.follow(tracked).found
    empty = np.full((240, 320, 3), 128, np.uint8)
    for _ in range(40):  # in each, it is lost, so each should be matched
        film.stream.follow(film.frame(empty))
        assert film.stream.wants_match
    film.stream.match(tracked)
    nothing, where = recollection.tracked
    assert nothing is None
    assert where.found and where.verdict.reference_to_image is not None


def test_a_match_of_before_time_went_back_is_answered_and_forgotten(film):
    recollection = WatchedRecollection()
    film.stream = film.new_stream(recollection=recollection)
    old = film.frame()
    film.stream.follow(old)
    answer_of = film.matcher.view_of

    def interrupted(image):
        """The film starts again while the match runs."""
        film.matcher.view_of = answer_of
        film.now = 0.0
        film.stream.follow(film.frame())
        return answer_of(image)

    film.matcher.view_of = interrupted
    film.now = 5.0
    late = film.frame()
    film.stream.follow(late)
    assert film.stream.match(late).found
    assert recollection.noted == []
    assert film.stream.follow(film.frame()) is None  # no track from the frame of before


def test_a_match_whose_time_does_not_depend_on_keypoints_teaches_the_budget_nothing():
    film = Film(tracking=False, max_latency=0.5)
    match_all = film.matcher.match_all

    def by_ink(*arguments):
        film.now += 1.0
        return [replace(match, by_keypoints=False) for match in match_all(*arguments)]

    film.matcher.match_all = by_ink
    film.stream.match(film.frame())
    assert film.stream.keypoints(0.5) is None


def test_the_budget_learns_only_from_the_time_that_depends_on_keypoints():
    film = Film(tracking=False, max_latency=0.5)
    match_all = film.matcher.match_all
    fixed = 0.7

    def also_by_parts(*arguments):
        film.now += 1.0
        return [replace(match, fixed_seconds=fixed) for match in match_all(*arguments)]

    film.matcher.match_all = also_by_parts
    film.stream.match(film.frame())
    assert film.stream.keypoints(0.5) is None  # 0.3 s of 0.5
    fixed = 0.2
    film.stream.match(film.frame())
    assert film.stream.keypoints(0.5) == 640  # 0.8 s of 0.5: 5 / 8 of 1024


def test_one_thread_alone_gets_an_answer_to_every_image(film):
    stream = Stream(film.matcher, film.prepared, StreamOptions(match_interval=0.45))
    answers = []
    for _ in range(8):
        frame = film.frame()
        answer = stream.answer(frame.image, frame.stamp)
        assert film.error_of(frame, answer) < 2
        answers.append(answer)
    assert [answer.tracked for answer in answers] == [False] + [True] * 7
    # The stamp of the frame of the full match, where no tag was given.
    assert [round(answer.matched_tag, 1) for answer in answers[1:]] == [0.1] * 5 + [0.6] * 2


def test_an_image_in_which_it_is_lost_is_matched_at_once(film):
    stream = Stream(film.matcher, film.prepared)
    first = film.frame()
    assert stream.answer(first.image, first.stamp).found
    empty = film.frame(np.full((240, 320, 3), 128, np.uint8))
    assert stream.answer(empty.image, empty.stamp).message == 'nothing there'
    again = film.frame()
    assert stream.answer(again.image, again.stamp).found
