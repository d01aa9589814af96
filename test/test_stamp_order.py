"""Which frames are new."""

from niom_ros.nodes.stamp_order import StampOrder

SECOND = 10**9


def test_frames_in_order_pass():
    order = StampOrder()
    assert all(order.accept(stamp * SECOND // 30) for stamp in range(1, 100))
    assert (order.duplicates, order.late, order.resets, order.unstamped) == (0, 0, 0, 0)


def test_a_frame_that_comes_twice_passes_once():
    order = StampOrder()
    assert [order.accept(stamp) for stamp in (5, 5, 5, 6)] == [True, False, False, True]
    assert order.duplicates == 2


def test_a_frame_that_was_overtaken_is_late():
    order = StampOrder()
    stamps = (10 * SECOND, 10 * SECOND - 1, 9 * SECOND + 1, 10 * SECOND + 1)
    assert [order.accept(stamp) for stamp in stamps] == [True, False, False, True]
    assert order.late == 2


def test_a_clock_that_jumps_back_starts_anew():
    order = StampOrder()
    assert order.accept(100 * SECOND)
    assert order.accept(2 * SECOND)
    assert order.accept(3 * SECOND)
    assert not order.accept(3 * SECOND - 1)
    assert (order.resets, order.late) == (1, 1)


def test_images_without_a_stamp_all_pass():
    order = StampOrder()
    assert [order.accept(stamp) for stamp in (0, 0, SECOND, 0, SECOND)] == [
        True, True, True, True, False,
    ]  # fmt: skip
    assert order.unstamped == 3


def test_negative_stamps_are_stamps():
    order = StampOrder()
    assert order.accept(-5 * SECOND)
    assert not order.accept(-5 * SECOND)
    assert order.accept(-4 * SECOND)
