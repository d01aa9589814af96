"""Files are on the disk before their names are, and the names before anyone is told."""

import os
from pathlib import Path

import pytest

from niom_ros.core.durable_files import publish, write_atomically


@pytest.fixture
def steps(monkeypatch):
    """Return a list of what was synced, as it was at that moment, and what was renamed."""
    steps = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor):
        synced = Path(f'/proc/self/fd/{descriptor}').readlink()
        steps.append(('fsync', synced, None if synced.is_dir() else synced.read_bytes()))
        fsync(descriptor)

    def noted_replace(path, target):
        steps.append(('replace', path, target))
        return replace(path, target)

    monkeypatch.setattr(os, 'fsync', noted_fsync)
    monkeypatch.setattr(Path, 'replace', noted_replace)
    return steps


def test_the_content_is_synced_before_the_rename_and_the_folder_after_it(tmp_path, steps):
    file, staged = tmp_path / 'a.yaml', tmp_path / '.a.yaml.unfinished'
    write_atomically(file, b'content')
    assert steps == [
        ('fsync', staged, b'content'),
        ('replace', staged, file),
        ('fsync', tmp_path, None),
    ]
    assert file.read_bytes() == b'content'


def test_a_file_that_others_wrote_is_synced_as_well(tmp_path, steps):
    # A download, and into another folder: it is the one that has the new name.
    staged, file = tmp_path / 'part', tmp_path / 'models' / 'a.pth'
    file.parent.mkdir()
    staged.write_bytes(b'weights')
    publish(staged, file)
    assert steps == [
        ('fsync', staged, b'weights'),
        ('replace', staged, file),
        ('fsync', file.parent, None),
    ]
