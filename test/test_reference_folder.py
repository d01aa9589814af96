"""References on disk: readable, complete, and never half written."""

from contextlib import suppress
import errno
import io
import os
from pathlib import Path
import re
import signal
import stat
import subprocess
import sys
import time

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import yaml

from niom_ros.core.boxes import Box
from niom_ros.core.errors import UserError
from niom_ros.matching.reference import (
    BadReference,
    Landmark,
    marked_object,
    MAX_LANDMARKS,
    MAX_OBJECTS,
    Reference,
)
from niom_ros.references.folder import (
    FolderError,
    quoted,
    read_description,
    read_reference,
    ReferenceFolder,
)

PICTURE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def full_reference(**fields):
    mask = np.zeros((40, 60), np.uint8)
    mask[5:30, 5:50] = 255
    return Reference(
        **{
            'image': PICTURE,
            'id': 'Gehäuse 3/4',
            'label': 'gear box',
            'drawing': True,
            'region': Box(1, 2, 50, 30),
            'mask': mask,
            'objects': (marked_object('lid', 1.5, 2.5, 20.25, 10, (60, 40)),),
            'landmarks': (Landmark('screw 1', 3.25, 4.5), Landmark('Loch Ü', 50, 30)),
            'physical_width': 0.21,
            **fields,
        }
    )


def assert_same(first, second):
    for field in Reference.__dataclass_fields__:
        one, other = getattr(first, field), getattr(second, field)
        if isinstance(one, np.ndarray):
            assert np.array_equal(one, other), field
        else:
            assert one == other, field


def names_in(folder):
    return [name for name, _ in folder.files()]


def file_of(folder, name):
    return dict(folder.files())[name]


def test_a_reference_comes_back_as_it_was_given(tmp_path):
    folder = ReferenceFolder(tmp_path / 'new' / 'folder')
    for reference in (full_reference(), Reference(PICTURE, 'plain')):
        file = folder.write(reference)
        assert_same(read_reference(file), reference)
    assert names_in(folder) == ['Gehäuse 3/4', 'plain']
    assert dict(folder.files())['plain'] == folder.path / 'plain.yaml'


def test_the_file_is_one_that_people_read(tmp_path):
    text = ReferenceFolder(tmp_path).write(full_reference()).read_text()
    described = yaml.safe_load(text)
    assert described['id'] == 'Gehäuse 3/4'
    assert 'Gehäuse' in text
    assert described['kind'] == 'drawing'
    assert described['region'] == [1, 2, 50, 30]
    assert described['landmarks'] == {'screw 1': [3.25, 4.5], 'Loch Ü': [50, 30]}
    assert described['objects'] == [{'label': 'lid', 'box': [1.5, 2.5, 20.25, 10]}]
    assert described['physical_width'] == 0.21


def test_writing_again_leaves_no_old_picture(tmp_path):
    folder = ReferenceFolder(tmp_path)
    folder.write(full_reference(id='a'))
    folder.write(Reference(PICTURE, 'a-b'))
    folder.write(full_reference(id='a', image=PICTURE // 2, mask=None))
    pictures = sorted(file.name.rpartition('-')[0] for file in (tmp_path / 'pictures').iterdir())
    assert pictures == ['a', 'a-b']
    assert np.array_equal(read_reference(file_of(folder, 'a')).image, PICTURE // 2)


def test_a_removed_reference_leaves_nothing(tmp_path):
    folder = ReferenceFolder(tmp_path)
    folder.write(full_reference(id='a'))
    folder.write(full_reference(id='b'))
    folder.remove('a')
    folder.remove('a')
    assert names_in(folder) == ['b']
    assert_same(read_reference(file_of(folder, 'b')), full_reference(id='b'))
    folder.remove('b')
    assert [file for file in tmp_path.rglob('*') if file.is_file()] == []


class Killed(BaseException):
    """The process ends here: nothing catches it, and nothing is tidied up."""


def written_by_a_call(folder):
    ReferenceFolder(folder).write(full_reference(id='cup'))


def written_by_hand(folder):
    for name in ('photo.png', 'hidden.png'):
        cv2.imwrite(str(folder / name), PICTURE)
    (folder / 'cup.yaml').write_text('image: photo.png\nmask: hidden.png')


def written_over_an_image(folder):
    cv2.imwrite(str(folder / 'cup.png'), PICTURE // 2)
    written_by_a_call(folder)


@pytest.mark.parametrize(
    'written',
    [written_by_a_call, written_by_hand, written_over_an_image],
    ids=lambda f: f.__name__,
)
def test_a_kill_at_any_step_of_a_removal_leaves_whole_references(tmp_path, monkeypatch, written):
    unlink = Path.unlink
    for steps in range(9):
        folder = ReferenceFolder(tmp_path / str(steps))
        folder.path.mkdir()
        written(folder.path)
        whole = read_reference(file_of(folder, 'cup'))
        left = iter(range(steps))

        def unlink_or_die(path, missing_ok=False, left=left):
            if next(left, None) is None:
                raise Killed
            unlink(path, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, 'unlink', unlink_or_die)
            with suppress(Killed):
                folder.remove('cup')
                break
        for name, file in folder.files():
            reference = read_reference(file)
            if name == 'cup':
                assert_same(reference, whole)
    assert steps > 2, 'none was killed in the middle'
    assert folder.files() == []


def test_plain_images_and_files_written_by_hand_are_references_too(tmp_path):
    cv2.imwrite(str(tmp_path / 'bolt.png'), PICTURE)
    cv2.imwrite(str(tmp_path / 'nut.PNG'), PICTURE)
    cv2.imwrite(str(tmp_path / 'described.png'), PICTURE)
    (tmp_path / 'notes.txt').write_text('not a reference')
    (tmp_path / 'mine.yaml').write_text('image: described.png\nlandmarks: {tip: [1, 2]}\n')
    folder = ReferenceFolder(tmp_path)
    assert sorted(names_in(folder)) == ['bolt', 'mine', 'nut']
    mine = read_reference(file_of(folder, 'mine'))
    assert (mine.id, mine.landmarks) == ('mine', (Landmark('tip', 1, 2),))
    assert np.array_equal(mine.image, PICTURE[..., ::-1])
    # Setting it by the service replaces the file that somebody wrote.
    folder.write(Reference(PICTURE, 'bolt'))
    assert file_of(folder, 'bolt') == tmp_path / 'bolt.yaml'
    folder.remove('mine')
    assert sorted(names_in(folder)) == ['bolt', 'nut']
    assert not (tmp_path / 'described.png').exists()


def test_a_hand_written_file_of_another_name_is_replaced(tmp_path):
    cv2.imwrite(str(tmp_path / 'a.png'), PICTURE)
    (tmp_path / 'aaa.yaml').write_text('id: cup\nimage: a.png\n')
    folder = ReferenceFolder(tmp_path)
    folder.write(Reference(PICTURE, 'cup', label='new'))
    assert read_reference(file_of(folder, 'cup')).label == 'new'


def test_pictures_outside_of_the_folder_are_not_removed(tmp_path):
    cv2.imwrite(str(tmp_path / 'mine.png'), PICTURE)
    folder = ReferenceFolder(tmp_path / 'folder')
    folder.claim()
    (folder.path / 'a.yaml').write_text('image: ../mine.png\n')
    folder.remove('a')
    assert folder.files() == []
    assert (tmp_path / 'mine.png').exists()


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('', 'does not describe a reference'),
        ('- a', 'does not describe a reference'),
        ('image: [', 'is not valid YAML'),
        ('image: !!python/object/apply:os.system ["true"]', 'is not valid YAML'),
        ('label: cup', 'does not name an image'),
        ('image: [7]', 'does not name an image'),
        ('image: missing.png', 'there is no file'),
        ('image: a.png\nsize: 3', 'has the unknown field size: use id, label'),
        ('image: a.png\nkind: sketch', "kind is 'sketch': use one of auto, photo, drawing"),
        ('image: a.png\nregion: [1, 2]', 'the region is not [x, y, width, height]'),
        ('image: a.png\nregion: [1, 2, x, 4]', "the region has 'x' where a number belongs"),
        ('image: a.png\nregion: [1, 2, .nan, 4]', "the region has '.nan' where a number belongs"),
        ('image: a.png\nregion: [0, 0, 100, 4]', 'does not lie inside'),
        ('image: a.png\nlandmarks: [1]', 'landmarks is not'),
        ('image: a.png\nlandmarks: {a: [1]}', "the landmark 'a' is not [x, y]"),
        ('image: a.png\nlandmarks: {a: [1, 1e9]}', 'lies outside'),
        ('image: a.png\nobjects: {a: 1}', 'objects is not a list'),
        ('image: a.png\nobjects: [{label: a}]', 'the box is not [x, y, width, height]'),
        ('image: a.png\nphysical_width: wide', "the physical_width has 'wide'"),
        ('image: a.png\nphysical_width: .inf', "the physical_width has '.inf'"),
        ('image: a.png\nphysical_width: inf', "the physical_width has 'inf'"),
        ('image: a.png\nphysical_width: true', "the physical_width has 'true'"),
        ('image: a.png\nmask: b.png', 'there is no file'),
        ('image: a.png\nid: {a: b}', 'id is a dict: write a text'),
        ('image: a.png\nphysical_width: [1]', "the physical_width has 'list'"),
        ('image: a.png\nlandmarks: {~: [1, 2]}', 'landmarks is not'),
        ('image: !!int "1"', 'leave them out'),
        ('image: !x a.png', 'leave them out'),
        ('image: &a a.png\nlabel: *a', 'write them out'),
        ('image: a.png\n"\\ud800": b', 'is not valid YAML'),
        ('? [a]\n: b', 'is not valid YAML'),
        ('image: a.png\nid: "a\\nb"', 'line breaks'),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_reason(tmp_path, text, words):
    cv2.imwrite(str(tmp_path / 'a.png'), PICTURE)
    file = tmp_path / 'wrong.yaml'
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_reference(file)
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def ten(number):
    return ', '.join([f'*a{number}'] * 10)


@pytest.mark.parametrize(
    'bomb',
    [
        # Lists of lists, and mappings that are copied into mappings, which takes gigabytes.
        ['a0: &a0 [x, x, x]', *(f'a{n}: &a{n} [{ten(n - 1)}]' for n in range(1, 9))],
        ['a0: &a0 {b: 1}', *(f'a{n}: &a{n} {{<<: [{ten(n - 1)}]}}' for n in range(1, 12))],
        ['image: ' + '1:' * 400_000 + '1'],  # once a number to the base 60
        ['id: 0x' + 'f' * 900_000],
    ],
)
def test_a_description_that_grows_when_it_is_read_is_refused_at_once(bomb, tmp_path):
    (tmp_path / 'bomb.yaml').write_text('\n'.join(bomb))
    folder = ReferenceFolder(tmp_path)
    start = time.monotonic()
    assert len(names_in(folder)) == 1
    with pytest.raises(UserError):
        read_reference(tmp_path / 'bomb.yaml')
    assert time.monotonic() - start < 20


@pytest.mark.parametrize('kind', ['pipe', 'device', 'link', 'folder'])
def test_what_is_no_file_is_neither_waited_for_nor_written_through(kind, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.write_text('precious')
    folder = tmp_path / 'folder'
    folder.mkdir()
    for name in ('selected', '.lock', '.selected.unfinished'):
        if kind == 'pipe':
            os.mkfifo(folder / name)
        elif kind == 'folder':
            (folder / name).mkdir()
        else:
            (folder / name).symlink_to('/dev/zero' if kind == 'device' else elsewhere)
    references = ReferenceFolder(folder)
    assert references.selected() == ('precious' if kind == 'link' else '')
    with pytest.raises(FolderError, match='cannot write to'):
        references.claim()
    if kind != 'folder':
        references.write_selected('cup')
        assert references.selected() == 'cup'
    assert elsewhere.read_text() == 'precious'


def test_masks_are_no_references(tmp_path):
    cv2.imwrite(str(tmp_path / 'cup.png'), PICTURE)
    cv2.imwrite(str(tmp_path / 'cup_mask.png'), PICTURE[..., 0])
    (tmp_path / 'cup.yaml').write_text('image: cup.png\nmask: cup_mask.png')
    folder = ReferenceFolder(tmp_path)
    assert names_in(folder) == ['cup']
    folder.remove('cup')
    assert folder.files() == []


def test_a_picture_that_two_references_share_stays_with_the_other(tmp_path):
    cv2.imwrite(str(tmp_path / 'page.png'), PICTURE)
    (tmp_path / 'a.yaml').write_text('image: page.png\nregion: [0, 0, 30, 40]')
    (tmp_path / 'b.yml').write_text('image: page.png\nregion: [30, 0, 30, 40]')
    folder = ReferenceFolder(tmp_path)
    folder.remove('a')
    assert names_in(folder) == ['b']
    assert read_reference(file_of(folder, 'b')).region == Box(30, 0, 30, 40)
    folder.write(Reference(PICTURE, 'page'))
    folder.remove('page')
    assert read_reference(file_of(folder, 'b')).region == Box(30, 0, 30, 40)


def test_what_was_removed_or_replaced_does_not_come_back(tmp_path):
    folder = ReferenceFolder(tmp_path)
    cv2.imwrite(str(tmp_path / 'cat.png'), PICTURE)
    folder.write(Reference(PICTURE, 'cat'))
    folder.remove('cat')
    assert folder.files() == []
    cv2.imwrite(str(tmp_path / 'photo.png'), PICTURE)
    (tmp_path / 'mine.yaml').write_text('id: cup\nimage: photo.png')
    folder.write(Reference(PICTURE, 'cup'))
    assert folder.files() == [('cup', tmp_path / 'mine.yaml')]


@pytest.fixture
def read_files(monkeypatch):
    """Return the names of descriptions, as they are read."""
    names = []

    def read(file):
        names.append(file.name)
        return read_description(file)

    monkeypatch.setattr('niom_ros.references.folder.read_description', read)
    return names


def test_a_change_does_not_read_what_stayed_the_same(tmp_path, read_files):
    folder = ReferenceFolder(tmp_path)
    for name in 'abcdef':
        folder.write(Reference(PICTURE, name))
    folder.remove('a')
    folder.remove('b')
    assert read_files == [f'{name}.yaml' for name in 'abcdef']
    assert names_in(folder) == ['c', 'd', 'e', 'f']
    # One that came back may say something else.
    folder.write(Reference(PICTURE, 'a'))
    assert names_in(folder) == ['a', 'c', 'd', 'e', 'f']
    assert read_files[6:] == ['a.yaml']


@pytest.mark.parametrize('way', ['in place', 'renamed', 'old time', 'link'])
def test_what_a_person_changes_meanwhile_is_read(tmp_path, way):
    folder = ReferenceFolder(tmp_path)
    file, picture = tmp_path / 'mine.yaml', tmp_path / 'page.png'
    cv2.imwrite(str(picture), PICTURE)
    file.write_text('id: old\nimage: none.png')
    assert sorted(names_in(folder)) == ['old', 'page']
    time.sleep(0.02)  # longer than file systems count as one moment
    target = file if way in ('in place', 'old time') else tmp_path / 'other'
    before = file.stat()
    target.write_text('id: new\nimage: page.png')
    if way == 'old time':
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif way == 'renamed':
        target.rename(file)
    elif way == 'link':
        file.unlink()
        file.symlink_to(target)
    assert names_in(folder) == ['new']
    folder.write(Reference(PICTURE, 'page'))
    folder.remove('page')
    assert picture.exists()


def test_a_description_that_could_not_be_read_is_tried_again(tmp_path, monkeypatch):
    (tmp_path / 'mine.yaml').write_text('id: cup\nimage: a.png')
    folder = ReferenceFolder(tmp_path)

    def fails(_):
        raise BadReference('too many open files')

    with monkeypatch.context() as patched:
        patched.setattr('niom_ros.references.folder.read_description', fails)
        assert names_in(folder) == ['mine']
    assert names_in(folder) == ['cup']


def test_only_one_process_writes(tmp_path):
    first, second = ReferenceFolder(tmp_path / 'a'), ReferenceFolder(tmp_path / 'a')
    first.claim()
    with pytest.raises(FolderError, match='give each its own folder'):
        second.claim()
    first.release()
    second.claim()
    assert second.files() == []
    second.release()


def test_two_files_for_one_name_are_both_listed(tmp_path):
    cv2.imwrite(str(tmp_path / 'a.png'), PICTURE)
    for name in ('one', 'two'):
        (tmp_path / f'{name}.yaml').write_text('id: cup\nimage: a.png')
    assert names_in(ReferenceFolder(tmp_path)) == ['cup', 'cup']


def test_a_huge_file_is_not_read(tmp_path):
    file = tmp_path / 'huge.yaml'
    file.write_bytes(b'a' * 2_000_001)
    with pytest.raises(BadReference, match='more than 2000000 bytes'):
        read_reference(file)


def test_the_longest_description_that_is_taken_comes_back(tmp_path):
    longest = '\U00020000' * 252  # of characters, each of four bytes
    place = 1 / 3 + 1e-17
    reference = Reference(
        PICTURE,
        longest,
        label=longest,
        objects=tuple(
            marked_object(f'{n:04}{longest}', place, place, place, place, (60, 40))
            for n in range(MAX_OBJECTS)
        ),
        landmarks=tuple(Landmark(f'{n:04}{longest}', place, place) for n in range(MAX_LANDMARKS)),
    )
    file = ReferenceFolder(tmp_path).write(reference)
    assert file.stat().st_size > 1_000_000
    assert_same(read_reference(file), reference)


def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    folder = ReferenceFolder(tmp_path)
    file = folder.write(full_reference(label='short'))
    monkeypatch.setattr('niom_ros.references.folder.MAX_YAML_BYTES', file.stat().st_size)
    folder.write(full_reference(label='equal'))
    with pytest.raises(FolderError, match='use shorter names'):
        folder.write(full_reference(label='longer'))
    assert read_reference(file).label == 'equal'


def test_a_name_that_looks_like_a_number_is_text(tmp_path):
    cv2.imwrite(str(tmp_path / 'a.png'), PICTURE)
    (tmp_path / 'n.yaml').write_text('id: 7\nlabel: 8\nimage: a.png\nlandmarks: {1: [2, 3]}')
    reference = read_reference(tmp_path / 'n.yaml')
    assert (reference.id, reference.label) == ('7', '8')
    assert reference.landmarks == (Landmark('1', 2, 3),)


def test_a_folder_that_cannot_be_used_is_named_with_what_to_do(tmp_path):
    with pytest.raises(FolderError, match='name a folder that exists'):
        ReferenceFolder(tmp_path / 'missing').files()
    (tmp_path / 'file').write_text('')
    with pytest.raises(FolderError, match='set keep_references to false'):
        ReferenceFolder(tmp_path / 'file').write(Reference(PICTURE, 'a'))
    with pytest.raises(FolderError, match='set keep_references to false'):
        ReferenceFolder(tmp_path / 'file').write_selected('a')


class FullFile(io.FileIO):
    """A file on a disk that is full after half of what is written."""

    def write(self, content):
        super().write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob('*') if file.is_file()}


def fails_at(monkeypatch, step, error, number):
    """Let a step of writing fail when it is taken for this time, counted from 0."""
    before = iter(range(number))
    real_open, real_fsync, real_replace = Path.open, os.fsync, Path.replace

    def fails(taken):
        return taken == step and next(before, None) is None

    def fail():
        raise OSError(error, os.strerror(error))

    def open_(path, mode='r', **options):
        if mode == 'xb' and fails('open'):
            fail()
        if mode == 'xb' and fails('write'):
            return FullFile(path, mode)
        return real_open(path, mode, **options)

    def fsync(descriptor):
        of_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if fails('fsync of the folder' if of_folder else 'fsync'):
            fail()
        real_fsync(descriptor)

    def replace(path, target):
        return fail() if fails('replace') else real_replace(path, target)

    monkeypatch.setattr(Path, 'open', open_)
    monkeypatch.setattr(os, 'fsync', fsync)
    monkeypatch.setattr(Path, 'replace', replace)


# Brought about from within: root, as whom tests may run, is never denied, and no disk is full.
@pytest.mark.parametrize('name', ['cup', 'new'])
@pytest.mark.parametrize(
    ('step', 'error', 'words'),
    [
        ('open', errno.EACCES, 'Permission denied'),
        ('open', errno.EROFS, 'Read-only file system'),
        ('open', errno.ENOSPC, 'No space left on device'),
        ('write', errno.ENOSPC, 'No space left on device'),
        ('fsync', errno.ENOSPC, 'No space left on device'),
        ('replace', errno.EACCES, 'Permission denied'),
    ],
)
def test_a_disk_that_is_full_or_denied_changes_nothing(
    tmp_path, monkeypatch, name, step, error, words
):
    folder = ReferenceFolder(tmp_path)
    changed = full_reference(id=name, image=PICTURE // 2)
    described = yaml.safe_load(folder.write(changed).read_text())
    (tmp_path / 'other.yaml').write_text(f'image: {described["image"]}')  # so it stays
    folder.remove(name)
    folder.write(full_reference(id='cup'))
    folder.write_selected('cup')
    before = contents(tmp_path)
    refused = f'cannot write to {tmp_path} ({words}): free space, change permissions, or set'
    for number in range(3):  # image, mask, YAML file
        with monkeypatch.context() as patch, pytest.raises(FolderError) as caught:
            fails_at(patch, step, error, number)
            folder.write(changed)
        assert str(caught.value).startswith(refused)
        assert contents(tmp_path) == before, f'changed by step {number}'
    with monkeypatch.context() as patch, pytest.raises(FolderError) as caught:
        fails_at(patch, step, error, 0)
        folder.write_selected(name)
    assert str(caught.value).startswith(refused)
    assert contents(tmp_path) == before
    folder.write(changed)  # there is room again
    assert_same(read_reference(file_of(folder, name)), changed)


@pytest.mark.parametrize('number', range(3))
def test_a_folder_that_cannot_be_synced_is_told_and_every_reference_is_whole(
    tmp_path, monkeypatch, number
):
    folder = ReferenceFolder(tmp_path)
    folder.write(full_reference(id='cup'))
    with monkeypatch.context() as patch, pytest.raises(FolderError, match='Input/output error'):
        fails_at(patch, 'fsync of the folder', errno.EIO, number)
        folder.write(full_reference(id='cup', image=PICTURE // 2))
    # The YAML file comes last: it is in place, though nobody knows for how long.
    image = PICTURE // 2 if number == 2 else PICTURE
    assert_same(read_reference(file_of(folder, 'cup')), full_reference(id='cup', image=image))


@pytest.mark.parametrize('error', [errno.EACCES, errno.EROFS])
def test_a_folder_that_denies_all_changes_is_neither_claimed_nor_cleared(
    tmp_path, monkeypatch, error
):
    def deny(*_, **__):
        raise OSError(error, os.strerror(error))

    folder = ReferenceFolder(tmp_path)
    folder.write(full_reference(id='cup'))
    before = contents(tmp_path)
    words = re.escape(f'{tmp_path} ({os.strerror(error)})')
    with monkeypatch.context() as patch:
        patch.setattr(Path, 'unlink', deny)
        with pytest.raises(FolderError, match=f"cannot remove 'cup' from {words}: change perm"):
            folder.remove('cup')
        patch.setattr(os, 'open', deny)
        with pytest.raises(FolderError, match=f'cannot write to {words}: free space'):
            folder.claim()
    assert contents(tmp_path) == before
    folder.claim()  # it was mended
    folder.remove('cup')
    assert folder.files() == []
    folder.release()


def test_the_selection_is_remembered(tmp_path):
    folder = ReferenceFolder(tmp_path)
    assert folder.selected() == ''
    folder.write_selected('Gehäuse 3/4')
    assert folder.selected() == 'Gehäuse 3/4'
    (tmp_path / 'selected').write_bytes(b'\xff')
    assert folder.selected() == ''


@given(st.text(min_size=1, max_size=256), st.text(min_size=1, max_size=256))
@settings(max_examples=200, deadline=None)
def test_every_name_has_a_file_name_of_its_own(name, other):
    file = quoted(name) if not any(0xD800 <= ord(c) < 0xE000 for c in name) else 'x'
    assert '/' not in file and '\x00' not in file
    assert not file.startswith('.')
    assert len(file) <= 150
    if name != other and file != 'x' and not any(0xD800 <= ord(c) < 0xE000 for c in other):
        assert file != quoted(other)


WRITER = """
import sys
import numpy as np
from niom_ros.references.folder import ReferenceFolder
from niom_ros.matching.reference import Reference
folder = ReferenceFolder(sys.argv[1])
random = np.random.default_rng(0)
number = 0
while True:
    number += 1
    image = random.integers(0, 256, (300, 400, 3), np.uint8)
    image[0, 0] = number % 256
    folder.write(Reference(image, 'cup', label=str(number % 256)))
    folder.write_selected('cup')
    print(number, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_reference(tmp_path):
    random = np.random.default_rng(1)
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, '-c', WRITER, str(tmp_path)], stdout=subprocess.PIPE
        )
        process.stdout.readline()  # the first one is complete
        time.sleep(random.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        folder = ReferenceFolder(tmp_path)
        assert names_in(folder) == ['cup']
        reference = read_reference(file_of(folder, 'cup'))
        assert reference.image[0, 0, 0] == int(reference.label)
        assert folder.selected() == 'cup'
    # The next write that is not disturbed removes what the killed ones left behind.
    ReferenceFolder(tmp_path).write(Reference(PICTURE, 'cup'))
    assert len(list(Path(tmp_path / 'pictures').glob('cup-*.png'))) == 1
