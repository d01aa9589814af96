"""The similarity of labels: CLIP's tables, MiniLM, and a CLIP model of the user."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
import json
from pathlib import Path
import socket
import sys

from hypothesis import given, HealthCheck, settings, strategies
import numpy as np
import open_clip
import pytest
from safetensors.torch import save_file
import torch

from niom_ros.core.extras import ExtraMissing
from niom_ros.core.settings import Pairing, Settings, SettingsError
from niom_ros.models.store import ModelMissing, ModelStore
from niom_ros.networks.minilm import MiniLM
from niom_ros.semantics import labels
from niom_ros.semantics.embedders import tables
from niom_ros.semantics.embedders.tables import ClipTable
from niom_ros.semantics.labels import (
    COCO_LABELS,
    compact,
    LabelEmbedder,
    plain,
    same,
    unit,
)

CPU = torch.device('cpu')


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every test fail that uses the network, even if it would work without."""
    wanted = []

    def refuse(*given: object, **_: object) -> None:
        wanted.append(given)
        raise OSError('no network in this test')

    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    yield
    assert wanted == []


@pytest.fixture(scope='module')
def embedder() -> LabelEmbedder:
    return LabelEmbedder(Settings(), ModelStore(), CPU)


@pytest.fixture
def only_the_table(tmp_path: Path) -> ModelStore:
    """Return a store without MiniLM."""
    store = ModelStore()
    for name in store.models:
        if name.startswith('clip-') or name.endswith('-labels'):
            (tmp_path / store.model(name).file).symlink_to(store.path(name))
    return ModelStore(tmp_path)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of all texts that MiniLM gets during the test."""
    texts: list[str] = []
    original = MiniLM.embed

    def embed(self, batch):
        texts.extend(batch)
        return original(self, batch)

    monkeypatch.setattr(MiniLM, 'embed', embed)
    return texts


def cosine(embedder: LabelEmbedder, label: str, other: str) -> float:
    return float(embedder.similarities([label], [other]).cosine[0, 0])


# Words


@pytest.mark.parametrize(
    ('label', 'other'),
    [
        ('cup', 'Cups'),
        ('Knives', 'knife'),
        ('boxes', 'box'),
        ('buses', 'bus'),
        ('scissors', 'Scissor'),
        ('wine_glasses', 'wine glass'),
        ('tennis  rackets ', 'Tennis-Racket'),
        ('hotdog', 'hot dogs'),
        ('dishes', 'dish'),
        ('berries', 'berry'),
        ('people', 'person'),
        ('computer mice', 'computer mouse'),
        ('fire\u2010hydrant', 'fire hydrant'),
        ('\uff23\uff35\uff30', 'cup'),  # wide letters
        ('стол', 'Стол'),
        ('🐶', '🐶'),
        ('x' * 5000, 'X' * 5000),
    ],
)
def test_the_same_but_for_its_spelling(tmp_path, label, other):
    nothing_there = LabelEmbedder(Settings(), ModelStore(tmp_path), CPU)
    found = nothing_there.similarities([label], [other])
    assert found.cosine.tolist() == [[1.0]]
    assert found.source == 'same labels'
    assert same([other], [label]).tolist() == [[True]]


@pytest.mark.parametrize(
    ('label', 'other'),
    [
        ('glasses', 'glass'),
        ('brass', 'bras'),
        ('tennis racket', 'tenni racket'),
        ('dress', 'dres'),
        ('cup', 'cap'),
        ('men', 'women'),
        ('hot dog', 'dog'),
        ('s', ''),
    ],
)
def test_not_the_same(label, other):
    assert not same([label], [other]).any()
    assert not same([other], [label]).any()


def test_glasses_are_eyewear_and_a_glass_is_not(embedder, only_the_table):
    table = ClipTable(only_the_table)
    assert table.knows('glasses')
    assert not table.knows('glass')
    assert cosine(embedder, 'glasses', 'glass') < 0.9
    assert cosine(embedder, 'glasses', 'sunglasses') > cosine(embedder, 'glasses', 'wine glass')


# The table


def table_lists():
    store = ModelStore()
    names = {
        'clip-coco': [(name,) for name in COCO_LABELS],
        'clip-objects365': tables.objects365(store.read_text('objects365-labels')),
        'clip-openimages': tables.openimages(store.read_text('openimages-labels')),
        'clip-lvis': tables.lvis(store.read_text('lvis-labels')),
    }
    return {
        model: ([compact(row[0]) for row in rows], unit(store.load_array(model)))
        for model, rows in names.items()
    }


def test_names_and_rows_of_the_table_belong_together():
    """Two lists agree on all names they share, so neither is shifted or shuffled."""
    lists = table_lists()
    compared = 0
    for names, rows in lists.values():
        assert len(names) == len(rows)
        for other_names, other_rows in lists.values():
            nearest = (rows @ other_rows.T).argmax(axis=1)
            for name, row in zip(names, nearest, strict=True):
                if name in other_names:
                    compared += 1
                    assert other_names[row] == name
    # Every list with itself, and 12 more pairs.
    assert compared > 2148 + 1500


def test_the_table_knows_coco_in_the_spelling_of_darknet_too(only_the_table):
    darknet = ModelStore().read_text('coco-labels').strip().split('\n')
    assert {'tvmonitor', 'pottedplant', 'aeroplane'} <= set(darknet)
    found = LabelEmbedder(Settings(), only_the_table, CPU).similarities(COCO_LABELS, darknet)
    assert found.source == 'clip table'
    # Each is most like its own, though couch and sofa are different words.
    assert (found.cosine.argmax(axis=1) == np.arange(80)).all()
    assert np.diag(found.cosine).min() > 0.6


def test_the_table_knows_synonyms_plurals_and_singulars(only_the_table):
    table = ClipTable(only_the_table)
    for label in ['screwdrivers', 'trash_can', 'garbage can', 'sneaker', 'ruler', 'tangerine']:
        assert table.knows(label), label
    for label in ['', 'quux', 'espresso cup', 'cu', 'boxer', 'стол']:
        assert not table.knows(label), label


def test_underscores_in_a_list_do_not_make_its_labels_similar(embedder):
    """LVIS alone has these, and CLIP saw their underscores."""
    names = [name for name, *_ in tables.lvis(ModelStore().read_text('lvis-labels'))]
    marked = [name for name in names if '_' in name]
    unmarked = [name for name in names if '_' not in name][: len(marked)]
    share = {}
    for which, chosen in (('marked', marked), ('unmarked', unmarked)):
        found = embedder.similarities(chosen[::2], chosen[1::2])
        assert found.source == 'clip table'
        share[which] = (found.cosine >= Pairing.floor).mean()
    assert share['marked'] < 1.3 * share['unmarked'] < 0.1


# Both


ALIKE = [('dog', 'cat'), ('cup', 'bowl'), ('car', 'truck'), ('chair', 'couch'), ('fork', 'spoon')]
UNLIKE = [('dog', 'car'), ('cup', 'airplane'), ('chair', 'zebra'), ('pizza', 'truck')]


@pytest.mark.parametrize('extra', ['dog', 'espresso cup'])
def test_the_floor_separates_similar_from_different(embedder, extra):
    pairs = [*ALIKE, *UNLIKE]
    found = embedder.similarities([a for a, _ in pairs], [*(b for _, b in pairs), extra])
    assert found.source == ('clip table' if extra == 'dog' else 'minilm')
    assert found.cosine.dtype == np.float32
    assert found.cosine.shape == (len(pairs), len(pairs) + 1)
    values = np.diag(found.cosine)
    assert values[: len(ALIKE)].min() > Pairing.floor > values[len(ALIKE) :].max()


def test_numbers_that_others_rely_on(embedder):
    assert cosine(embedder, 'dog', 'cat') == pytest.approx(0.514, abs=2e-3)
    assert cosine(embedder, 'cup', 'wine glass') == pytest.approx(0.395, abs=2e-3)
    assert cosine(embedder, 'car', 'dog') == pytest.approx(0.158, abs=2e-3)
    found = embedder.similarities(['espresso cup'], ['mug', 'dog'])
    assert found.cosine[0] == pytest.approx([0.474, -0.113], abs=2e-3)


def test_one_unknown_label_moves_all_to_minilm(embedder):
    table = embedder.similarities(['dog', 'cup'], ['cat', 'mug'])
    minilm = embedder.similarities(['dog', 'cup'], ['cat', 'mug', 'espresso machine handle'])
    assert (table.source, minilm.source) == ('clip table', 'minilm')
    assert (np.abs(table.cosine - minilm.cosine[:, :2]) > 0.01).all()
    # Labels that take no part do not count.
    assert embedder.similarities(['dog', '', 'стол'], ['cat', '狗']).source == 'clip table'
    assert embedder.similarities(['quux'], ['Quuxes', 'quux']).source == 'same labels'


def test_empty_and_unreadable_labels_are_like_nothing_but_themselves(embedder):
    names = ['', ' _-', 'стол', 'стул', '狗', '猫', '🐶', '🚗', 'x' * 200, 'y' * 200, 'dog']
    found = embedder.similarities(names, names)
    assert found.source == 'minilm'
    expected = np.eye(len(names))
    expected[0, 0] = expected[1, 1] = 0
    assert np.array_equal(found.cosine, expected)


def test_nothing_to_compare(tmp_path):
    embedder = LabelEmbedder(Settings(), ModelStore(tmp_path), CPU)
    for reference, image in (([], ['dog']), (['dog'], []), ([], [])):
        found = embedder.similarities(reference, image)
        assert found.cosine.shape == (len(reference), len(image))
        assert found.cosine.dtype == np.float32
        assert found.source == 'same labels'


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.lists(strategies.text() | strategies.sampled_from(['dog', 'cats', 'A b-c'])))
def test_any_text_is_a_label(embedder, names):
    found = embedder.similarities(names, [*names, 'dog'])
    assert found.cosine.shape == (len(names), len(names) + 1)
    assert np.isfinite(found.cosine).all()
    assert np.abs(found.cosine).max(initial=0) <= 1
    assert np.diag(found.cosine).tolist() == [float(bool(plain(name))) for name in names]
    assert found.cosine[:, :-1] == pytest.approx(found.cosine[:, :-1].T, abs=1e-5)


def test_half_a_character_does_no_harm(embedder):
    assert cosine(embedder, 'dog\ud800', 'cat') > 0


# Loading and keeping


def test_what_is_missing_matters_only_to_those_who_need_it(only_the_table, tmp_path):
    embedder = LabelEmbedder(Settings(), only_the_table, CPU)
    assert embedder.prepare() == 'clip table'
    assert embedder.similarities(['dog'], ['cats', 'car']).source == 'clip table'
    remedy = 'run: niom models fetch minilm-vocabulary$'
    with pytest.raises(ModelMissing, match=remedy):
        embedder.similarities(['dog'], ['espresso cup'])
    with pytest.raises(ModelMissing, match=remedy):
        embedder.prepare(['dog', 'espresso cup'])
    assert embedder.similarities(['dog'], ['cat']).source == 'clip table'

    empty = LabelEmbedder(Settings(), ModelStore(tmp_path / 'empty'), CPU)
    assert empty.prepare(['', '狗']) == 'same labels'
    with pytest.raises(ModelMissing, match='run: niom models fetch'):
        empty.prepare()


def test_a_label_is_encoded_once(embedder, encoded):
    embedder.prepare(['quux'])
    del encoded[:]
    first = embedder.similarities(['latte cup', 'Latte_Cup'], ['blue mug', 'dog'])
    assert encoded == ['a latte cup', 'a blue mug']
    again = embedder.similarities(['latte cup', 'dog'], ['blue mug', 'green mug', 'blue mug'])
    assert encoded == ['a latte cup', 'a blue mug', 'a green mug']
    assert first.cosine[0, 0] == first.cosine[1, 0]
    assert first.cosine[0, 0] == pytest.approx(again.cosine[0, 0], abs=1e-6)


def test_not_all_labels_are_kept_forever(embedder, encoded, monkeypatch):
    monkeypatch.setattr(labels, 'MAX_KEPT', 50)
    names = [f'part number {number}' for number in range(80)]
    found = embedder.similarities(names[:1], names)
    assert found.cosine[0, 1:].min() > Pairing.floor
    del encoded[:]
    embedder.similarities(names[-1:], names[-50:])
    assert encoded == []
    embedder.similarities(names[:1], names[-1:])
    assert encoded == ['a part number 0']


def test_many_threads_load_once_and_agree(embedder, monkeypatch):
    loaded = []
    original = MiniLM.__init__
    monkeypatch.setattr(
        MiniLM, '__init__', lambda self, *given: (loaded.append(self), original(self, *given))[1]
    )
    fresh = LabelEmbedder(Settings(), ModelStore(), CPU)
    sets = [['red mug', 'dog', f'gadget {number % 7}'] for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda names: fresh.similarities(names, ['cup', 'cat']), sets))
    assert len(loaded) == 1
    for names, result in zip(sets, found, strict=True):
        expected = embedder.similarities(names, ['cup', 'cat']).cosine
        assert result.cosine == pytest.approx(expected, abs=1e-5)


# A CLIP model of the user


@pytest.fixture(scope='module')
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two random models that open_clip knows by their names."""
    folder = tmp_path_factory.mktemp('clip')
    config = {
        'embed_dim': 32,
        'vision_cfg': {'image_size': 32, 'layers': 1, 'width': 64, 'patch_size': 16},
        'text_cfg': {
            'context_length': 16, 'vocab_size': 49408, 'width': 64, 'heads': 2, 'layers': 2
        },
    }  # fmt: skip
    for name, custom in (('tiny-clip', False), ('tiny-custom-clip', True)):
        (folder / f'{name}.json').write_text(json.dumps({**config, 'custom_text': custom}))
        open_clip.add_model_config(folder / f'{name}.json')
        torch.manual_seed(1)
        model = open_clip.create_model(name)
        # Fresh weights embed all texts alike.
        weights = {key: 3 * tensor for key, tensor in model.state_dict().items()}
        torch.save({'epoch': 3, 'state_dict': weights}, folder / f'{name}.pt')
        save_file(weights, folder / f'{name}.safetensors')
    return folder


def own_clip(path: Path, model: str, store: ModelStore) -> LabelEmbedder:
    return LabelEmbedder(Settings(clip_path=str(path), clip_model=model), store, CPU)


@pytest.mark.parametrize('name', ['tiny-clip', 'tiny-custom-clip'])
@pytest.mark.parametrize('ending', ['pt', 'safetensors'])
def test_embeddings_of_a_checkpoint_of_the_user(tiny_clip, tmp_path, name, ending):
    """They are those that open_clip computes from the same file."""
    no_models = ModelStore(tmp_path)
    embedder = own_clip(tiny_clip / f'{name}.{ending}', name, no_models)
    assert embedder.similarities(['cup'], ['cups']).source == 'same labels'
    rows, columns = ['dog', 'Espresso_Cup', 'w ' * 300], ['cat', 'mug', 'dogs', '']
    found = embedder.similarities(rows, columns)
    assert found.source == f'open_clip {name}'
    assert embedder.prepare() == f'open_clip {name}'

    model = open_clip.create_model(name).eval()
    model.load_state_dict(torch.load(tiny_clip / f'{name}.pt')['state_dict'])

    def embed(names: tuple[str, ...]) -> np.ndarray:
        tokens = open_clip.tokenize([f'a {name}' for name in names], context_length=16)
        with torch.inference_mode():
            return model.encode_text(tokens, normalize=True).numpy()

    everyday = embed(COCO_LABELS)
    common = everyday.mean(axis=0)
    own = unit(embed(('dog', 'espresso cup', 'w ' * 300)) - common)
    others = unit(embed(('cat', 'mug', 'dogs')) - common)
    expected = np.zeros((3, 4))
    expected[:, :3] = own @ others.T
    expected[0, 2] = 1
    assert found.cosine == pytest.approx(expected, abs=1e-4)
    # The test would prove little if all labels were alike.
    assert np.ptp(expected[:, :2]) > 0.1


@pytest.mark.parametrize(
    ('file', 'model', 'message'),
    [
        ('absent.pt', 'tiny-clip', r'absent\.pt is not a file: give the weights'),
        ('', 'tiny-clip', 'is not a file'),
        ('broken.pt', 'tiny-clip', r'broken\.pt cannot be read \(.*\): give weights as'),
        ('empty.pt', 'tiny-clip', r'cannot be read'),
        ('broken.safetensors', 'tiny-clip', r'cannot be read'),
        ('list.pt', 'tiny-clip', r'cannot be read'),
        ('code.pt', 'tiny-clip', r'cannot be read \(Weights only load failed'),
        ('script.pt', 'tiny-clip', r'cannot be read \(Cannot use'),
        ('other.pt', 'tiny-clip', r'other\.pt does not fit clip_model tiny-clip \(.*\): give the'),
        ('tiny-clip.pt', 'ViT-S-32', r'does not fit clip_model ViT-S-32'),
        ('tiny-clip.pt', 'tiny-klip', r"no clip_model 'tiny-klip': try tiny-clip"),
        ('tiny-clip.pt', 'hf-hub:timm/ViT-B-16-SigLIP', r'open_clip has no clip_model'),
        ('tiny-clip.pt', 'ViT-B-16-SigLIP', r'would download: use one .* such as ViT-B-32'),
        ('tiny-clip.pt', 'roberta-ViT-B-32', r'would download'),
    ],
)
@pytest.mark.filterwarnings('ignore::FutureWarning', 'ignore:.*TorchScript')
def test_unusable_checkpoints_are_explained(tiny_clip, tmp_path, file, model, message):
    (tiny_clip / 'broken.pt').write_bytes(b'not weights')
    (tiny_clip / 'broken.safetensors').write_bytes(b'not weights')
    (tiny_clip / 'empty.pt').write_bytes(b'')
    torch.save([1, 2, 3], tiny_clip / 'list.pt')
    torch.save({'state_dict': print}, tiny_clip / 'code.pt')
    torch.jit.script(torch.nn.Linear(2, 2)).save(tiny_clip / 'script.pt')
    torch.save({'layer.weight': torch.zeros(2)}, tiny_clip / 'other.pt')
    embedder = own_clip(tiny_clip / file, model, ModelStore(tmp_path))
    with pytest.raises(SettingsError, match=message) as refusal:
        embedder.prepare()
    assert '\n' not in str(refusal.value)
    with pytest.raises(SettingsError, match=message):
        embedder.similarities(['dog'], ['cat'])


def test_without_open_clip_the_remedy_is_named(tiny_clip, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'open_clip', None)
    embedder = own_clip(tiny_clip / 'tiny-clip.pt', 'tiny-clip', ModelStore(tmp_path))
    with pytest.raises(ExtraMissing, match=r"clip_path needs .* pip install 'niom_ros\[clip\]'"):
        embedder.prepare()
