"""References as they are given, and the library that keeps them."""

from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

from niom_ros.core.boxes import Box
from niom_ros.images.decoding import ImageError
from niom_ros.matching.reference import BadReference, Landmark, marked_object, Reference
from niom_ros.references import library as library_module
from niom_ros.references.folder import read_reference, ReferenceFolder
from niom_ros.references.library import ReferenceLibrary, UnknownReference
from niom_ros.semantics.heat_maps import Area

PICTURE = np.zeros((40, 60, 3), np.uint8)


@pytest.mark.parametrize(
    ('fields', 'words'),
    [
        ({'id': ''}, 'the id is empty'),
        ({'id': 'a\nb'}, 'line breaks'),
        ({'id': 'x' * 257}, 'use at most 256'),
        ({'label': 'a\x00'}, 'control characters'),
        ({'region': Box(50, 0, 11, 5)}, 'does not lie inside the picture of 60 x 40 pixels'),
        ({'region': Box(-1, 0, 10, 5)}, 'does not lie inside'),
        ({'region': Box(0, 0, 0, 5)}, 'does not lie inside'),
        ({'physical_width': float('nan')}, 'give metres'),
        ({'physical_width': -1.0}, 'give metres'),
        ({'physical_width': 2000.0}, 'at most 1000'),
        ({'landmarks': (Landmark('a', 60.0, 0.0),)}, "landmark 'a' at (60, 0) lies outside"),
        ({'landmarks': (Landmark('a', float('nan'), 0.0),)}, 'lies outside'),
        ({'landmarks': (Landmark('a', 1.0, 1.0), Landmark('a', 2.0, 2.0))}, 'two landmarks'),
        ({'landmarks': tuple(Landmark(str(i), 1.0, 1.0) for i in range(1001))}, 'at most 1000'),
    ],
)
def test_what_has_no_meaning_is_refused_with_what_to_do(fields, words):
    with pytest.raises(BadReference) as caught:
        Reference(PICTURE, **{'id': 'a', **fields})
    assert words in str(caught.value)


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(ImageError, match='the mask has 60 x 39 pixels'):
        Reference(PICTURE, 'a', mask=np.ones((39, 60), np.uint8))


def test_landmarks_reach_to_the_edge_of_the_outer_pixels():
    corners = (Landmark('a', -0.5, -0.5), Landmark('b', 59.5, 39.5))
    assert Reference(PICTURE, 'a', landmarks=corners).landmarks == corners


def test_region_and_mask_count_together():
    mask = np.zeros((40, 60), np.uint8)
    mask[:, :30] = 7
    region = Box(20, 10, 20, 20)
    assert Reference(PICTURE, 'a').counting_mask() is None
    assert Reference(PICTURE, 'a', mask=mask).counting_mask() is mask
    by_region = Reference(PICTURE, 'a', region=region).counting_mask()
    assert np.count_nonzero(by_region) == 400
    both = Reference(PICTURE, 'a', region=region, mask=mask).counting_mask()
    assert np.count_nonzero(both) == 200
    assert both[10:30, 20:30].all()


def test_boxes_of_objects_count_from_the_edge_and_are_cut_to_the_picture():
    marked = marked_object('cup', 0, 10, 100, 10, (60, 40))
    assert marked.area == Area(-0.5, 9.5, 59.5, 19.5)
    for box in ((0, 0, 0, 5), (0, 0, float('nan'), 5), (60, 0, 5, 5)):
        with pytest.raises(BadReference, match="object 'cup'"):
            marked_object('cup', *box, (60, 40))


def given(name, **fields):
    return Reference(PICTURE, name, **fields)


def prepared(reference):
    """Return a reference that no network has seen: the library does not look into it."""
    return SimpleNamespace(given=reference)


@pytest.fixture
def library():
    return ReferenceLibrary()


def test_the_last_reference_set_is_looked_for_unless_it_is_only_kept(library):
    assert library.selected is None
    assert library.why_no_target() == 'nothing to look for: call ~/set_reference'
    first, _ = library.put(prepared(given('b')))
    assert library.selected is first
    second, _ = library.put(prepared(given('a')), select=False)
    assert library.selected is first
    assert [named.id for named in library.all()] == ['a', 'b']
    assert second.revision == first.revision + 1
    assert library.select('a') is second
    assert library.selected is second


def test_a_reference_of_the_same_name_takes_its_place(library):
    library.put(prepared(given('a', label='old')))
    library.put(prepared(given('a', label='new')))
    (only,) = library.all()
    assert only.given.label == 'new'
    assert only.revision == 2


def test_after_the_selected_one_is_removed_none_is_looked_for(library):
    library.put(prepared(given('a')))
    library.put(prepared(given('b')))
    library.remove('a')
    assert library.selected.id == 'b'
    library.put(prepared(given('c')), select=False)
    library.remove('b')
    assert library.selected is None
    assert library.why_no_target() == "none is selected of 'c': call ~/select_reference"


def test_an_unknown_name_is_answered_with_those_there_are(library):
    for act in (library.select, library.remove, library.choose):
        with pytest.raises(UnknownReference, match="no reference 'x'; known: none yet"):
            act('x')
    for number in range(12):
        library.put(prepared(given(f'{number:02}')))
    with pytest.raises(UnknownReference, match=r"known: '00', .*'09' and 2 more"):
        library.select('x')
    assert library.selected.id == '11'


def test_a_full_library_takes_changes_but_no_more(library, monkeypatch):
    monkeypatch.setattr(library_module, 'MAX_REFERENCES', 2)
    library.put(prepared(given('a')))
    library.put(prepared(given('b')))
    with pytest.raises(BadReference, match='remove one first'):
        library.put(prepared(given('c')))
    assert library.put(prepared(given('a', label='new')))[0].given.label == 'new'


def test_references_have_so_many_pixels_together_at_most(library, monkeypatch):
    pixels = PICTURE.shape[0] * PICTURE.shape[1]
    monkeypatch.setattr(library_module, 'MAX_TOTAL_PIXELS', 2 * pixels)
    library.put(prepared(given('a')))
    library.put(prepared(given('b')))
    with pytest.raises(BadReference, match='scale it down, or remove another'):
        library.put(prepared(given('c')))
    library.put(prepared(given('a', label='new')))
    library.remove('b')
    library.put(prepared(given('c')))


def test_whoever_looks_does_not_wait_for_the_disk():
    looked = []

    class SlowFolder:
        def write(self, _):
            looked.append((library.selected, library.all()))
            return 'file'

        def write_selected(self, name):
            looked.append((library.selected, library.all()))

        def remove(self, name):
            looked.append((library.selected, library.all()))

    library = ReferenceLibrary(SlowFolder())
    named, _ = library.put(prepared(given('a')))
    library.select('a')
    library.remove('a')
    # Nothing has changed before it is written.
    assert looked == [(None, ()), (None, ()), (named, (named,)), (named, (named,))]


def test_nothing_changes_while_a_result_is_being_published(library):
    library.put(prepared(given('a')))
    removing = Thread(target=library.remove, args=('a',))
    with library.unchanging():
        removing.start()
        removing.join(0.2)
        assert removing.is_alive()
        assert library.selected.id == 'a'
    removing.join(10)
    assert library.selected is None


def test_what_cannot_be_written_is_not_changed(tmp_path):
    blocked = tmp_path / 'file'
    blocked.write_text('not a folder')
    library = ReferenceLibrary(ReferenceFolder(blocked))
    library.add(prepared(given('a')))
    library.choose('a')
    before = library.all()
    for act in (
        lambda: library.put(prepared(given('b'))),
        lambda: library.put(prepared(replace(before[0].given, label='new'))),
        lambda: library.select('a'),
        lambda: library.remove('a'),
    ):
        with pytest.raises(Exception, match='file'):
            act()
        assert library.all() == before
        assert library.selected is before[0]


def test_a_selection_that_cannot_be_written_is_told_but_the_reference_counts(tmp_path):
    folder = ReferenceFolder(tmp_path)
    library = ReferenceLibrary(folder)
    library.put(prepared(given('a', label='old')))
    (tmp_path / 'selected').unlink()
    (tmp_path / 'selected').mkdir()  # cannot be replaced by a file
    named, problem = library.put(prepared(given('a', label='new')))
    assert library.selected is named
    assert named.given.label == read_reference(named.file).label == 'new'
    assert 'after a restart it will not be selected' in problem


def test_revisions_go_on_where_an_earlier_library_ended():
    library = ReferenceLibrary(revision=7)
    assert library.put(prepared(given('a')))[0].revision == library.revision == 8


def test_many_threads_may_change_it_at_once(library):
    def change(number):
        for _ in range(50):
            library.put(prepared(given(f'{number}')))
            library.select(f'{number}')
            library.all()
            library.remove(f'{number}')

    threads = [Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.all() == ()
    assert library.put(prepared(given('a')))[0].revision == 201
