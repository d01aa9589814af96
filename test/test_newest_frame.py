from concurrent.futures import ThreadPoolExecutor
import time

from niom_ros.nodes.newest_frame import NewestFrame


def test_a_newer_frame_replaces_one_that_waits():
    frames = NewestFrame()
    for number in range(5):
        frames.put(number)
    assert frames.take() == 4
    assert frames.counts == (5, 4)
    frames.put(5)
    assert frames.take() == 5
    assert frames.counts == (6, 4)


def test_the_worker_waits_for_a_frame_and_ends_when_closed():
    frames = NewestFrame()
    with ThreadPoolExecutor(1) as worker:
        taken = worker.submit(frames.take)
        assert not taken.done()
        frames.put('frame')
        assert taken.result(timeout=10) == 'frame'
        ended = worker.submit(frames.take)
        frames.close()
        assert ended.result(timeout=10) is None


def test_closing_gives_up_the_frame_that_waits():
    frames = NewestFrame()
    frames.put('frame')
    frames.close()
    assert frames.take() is None


def test_the_newest_frame_stays_until_it_is_too_old(monkeypatch):
    frames = NewestFrame()
    assert frames.newest(oldest=5) is None
    frames.put('frame')
    frames.take()
    assert frames.newest(oldest=5) == 'frame'
    later = time.monotonic() + 6
    monkeypatch.setattr(time, 'monotonic', lambda: later)
    assert frames.newest(oldest=5) is None
