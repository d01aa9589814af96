"""Pictures that confidences are fitted on, and pictures that they are tested on."""

from collections import Counter

from niom_ros.benchmarks.evaluation.halves import halves, in_first_half


def named(first, number=0):
    """Return the name of a picture in one of the halves."""
    names = (f'picture {index}' for index in range(1000))
    return [name for name in names if in_first_half(name) == first][number]


def test_a_picture_is_always_in_the_same_half_and_both_are_about_equal():
    counts = Counter(in_first_half(f'bsds/{index}') for index in range(3000))
    assert 1300 < counts[True] < 1700
    # The same on every machine and in every process.
    assert in_first_half('homography/boat')
    assert not in_first_half('homography/graf')


def test_a_pair_belongs_to_a_half_only_with_both_of_its_pictures():
    pairs = [
        {'places': [named(True), named(True, 1)]},
        {'places': [named(True), named(False)]},
        {'places': [named(False), named(True)]},
        {'places': [named(False, 1), named(False)]},
        {'places': [named(False)]},
    ]
    first, second = halves(pairs)
    assert first == pairs[:1]
    assert second == pairs[3:]


def test_no_picture_is_in_both_halves_as_reference_or_as_image():
    records = [{'places': [f'p{i % 40}', f'p{i * 7 % 41}']} for i in range(2000)]
    first, second = halves(records)
    seen, unseen = ({p for record in half for p in record['places']} for half in (first, second))
    assert seen and unseen and not seen & unseen
    assert 0.3 < 1 - (len(first) + len(second)) / len(records) < 0.7
