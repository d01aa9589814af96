"""The tags of the frames that tracks start from."""

from niom_ros.stream.origin_tags import MAX_TAGS, OriginTags


def test_a_frame_keeps_its_tag_until_all_are_forgotten():
    tags = OriginTags()
    tags.note(1.5, 'left camera')
    tags.note(2.5, 0)
    assert (tags.of(1.5), tags.of(2.5), tags.of(3.5)) == ('left camera', 0, None)
    tags.forget()
    assert tags.of(1.5) is None


def test_only_the_last_tags_are_kept():
    tags = OriginTags()
    for stamp in range(MAX_TAGS + 2):
        tags.note(float(stamp), f'frame {stamp}')
    assert tags.of(1.0) is None
    assert [tags.of(float(stamp)) for stamp in (2, MAX_TAGS + 1)] == [
        'frame 2',
        f'frame {MAX_TAGS + 1}',
    ]
