"""No file is trusted with more than it needs: nothing in the package runs what it reads."""

import ast
import os
from pathlib import Path
import pickle

import numpy as np
import pytest
import torch

from niom_ros.core.settings import SettingsError
from niom_ros.models.foreign_pickle import load_foreign_pickle
from niom_ros.models.store import ModelBroken, ModelStore
from niom_ros.models.table import MODELS
from niom_ros.semantics.embedders.open_clip import OpenClip

CLONE = Path(__file__).resolve().parent.parent
SOURCES = sorted(
    [*CLONE.glob('niom_ros/**/*.py'), *CLONE.glob('launch/*.py'), CLONE / 'setup.py'],
)
# Calls that run, or may run, what they are given.
FORBIDDEN = {
    'eval', 'exec', 'compile', '__import__', 'os.system', 'os.popen',
    'yaml.load', 'yaml.load_all', 'yaml.unsafe_load', 'yaml.full_load',
    'pickle.load', 'pickle.loads', 'pickle.Unpickler', 'marshal.load', 'marshal.loads',
    'shelve.open', 'joblib.load', 'dill.load', 'torch.jit.load', 'torch.hub.load',
}  # fmt: skip
# Calls that are safe only with this argument.
NEEDED = {'torch.load': ('weights_only', True), 'np.load': ('allow_pickle', False)}
# The one place with an unpickler, which brings nothing to life but tensors and containers.
OWN_UNPICKLER = 'niom_ros/models/foreign_pickle.py'


def calls_in(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            given = {
                each.arg: each.value.value
                for each in node.keywords
                if isinstance(each.value, ast.Constant)
            }
            yield node.lineno, ast.unparse(node.func), given


def unsafe_calls(source):
    found = []
    for line, name, given in calls_in(source):
        key, safe = NEEDED.get(name, ('', None))
        if name in FORBIDDEN or (key and given.get(key) is not safe) or given.get('shell') is True:
            found.append(f'{line}: {name}')
    return found


def test_nothing_in_the_package_runs_what_it_reads():
    assert len(SOURCES) > 100
    found = {}
    for file in SOURCES:
        unsafe = unsafe_calls(file.read_text())
        if unsafe:
            found[str(file.relative_to(CLONE))] = unsafe
    assert list(found) == [OWN_UNPICKLER], found
    assert [each.split()[1] for each in found[OWN_UNPICKLER]] == ['torch.load']


@pytest.mark.parametrize(
    'source',
    [
        'import yaml\nyaml.load(x, Loader=yaml.Loader)',
        'torch.load(path)',
        'torch.load(path, weights_only=False)',
        'np.load(path, allow_pickle=True)',
        'subprocess.run(command, shell=True)',
        'eval(text)',
    ],
)
def test_the_search_finds_such_calls(source):
    assert len(unsafe_calls(source)) == 1


def test_the_own_unpickler_sees_only_files_of_the_store():
    callers = [
        ast.unparse(node)
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == 'load_foreign_pickle'
    ]
    assert callers == ["load_foreign_pickle(store.path('yolov7-seg'))"]


class Attack:
    """Leaves a trace when it is unpickled as usual."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.fixture
def trace(tmp_path):
    return tmp_path / 'the code in the file ran'


def test_the_attack_of_these_tests_works(trace):
    pickle.loads(pickle.dumps(Attack(trace)))
    assert trace.exists()


@pytest.mark.parametrize('model', [each.name for each in MODELS])
def test_a_file_of_another_hash_is_never_loaded(tmp_path, trace, model):
    store = ModelStore(tmp_path)
    torch.save({'model': Attack(trace)}, tmp_path / store.model(model).file)
    loads = (store.load_state_dict, store.load_safetensors, store.load_array, store.read_text)
    for load in loads:
        with pytest.raises(ModelBroken, match='instead of'):
            load(model)
    assert not trace.exists()


def test_weights_of_the_right_hash_still_run_no_code(tmp_path, trace, monkeypatch):
    store = ModelStore(tmp_path)
    monkeypatch.setattr(store, 'path', lambda name: tmp_path / 'file')
    torch.save({'model': Attack(trace)}, tmp_path / 'file')
    with pytest.raises(pickle.UnpicklingError, match='Weights only load failed'):
        store.load_state_dict('aliked-n16')
    load_foreign_pickle(tmp_path / 'file')
    np.save(tmp_path / 'file.npy', np.array([Attack(trace)], object), allow_pickle=True)
    (tmp_path / 'file.npy').replace(tmp_path / 'file')
    with pytest.raises(ValueError, match='allow_pickle=False'):
        store.load_array('clip-coco')
    assert not trace.exists()


def test_a_checkpoint_of_open_clip_runs_no_code(tmp_path, trace):
    torch.save({'state_dict': Attack(trace)}, tmp_path / 'clip.pt')
    with pytest.raises(SettingsError, match='cannot be read'):
        OpenClip(str(tmp_path / 'clip.pt'), 'ViT-B-32', torch.device('cpu'))
    assert not trace.exists()
