"""MiniLM against numbers of transformers 5.22 (BertModel, BertTokenizer, mean pooling)."""

import numpy as np
import pytest
import torch

from niom_ros.models.store import ModelMissing, ModelStore
from niom_ros.networks.minilm import MiniLM, WordPiece


@pytest.fixture(scope='module')
def minilm() -> MiniLM:
    return MiniLM(ModelStore(), torch.device('cpu'))


@pytest.fixture(scope='module')
def pieces() -> WordPiece:
    return WordPiece(ModelStore().read_text('minilm-vocabulary').split('\n'))


@pytest.mark.parametrize(
    ('text', 'other', 'cosine'),
    [
        ('dog', 'cat', 0.66064),
        ('espresso cup', 'mug', 0.55510),
        ('dog', 'espresso cup', 0.17608),
        ('café au lait', 'latte', 0.40072),
        ('hot-air balloon', 'airship', 0.57017),
        ('stapler', 'staple remover', 0.83112),
        ('red 杯子', 'red 狗', 0.64732),
        ('cup ☕', 'mug', 0.59663),
        ('', 'dog', 0.31821),
        ('x' * 300, 'dog', 0.26060),
        ('supercalifragilistic ' * 15, 'mary poppins', 0.05075),
        ('Crème brûlée', 'CREME BRULEE', 1.0),
    ],
)
def test_cosines_are_those_of_the_original(minilm, text, other, cosine):
    embeddings = minilm.embed([text, other])
    assert embeddings[0] @ embeddings[1] == pytest.approx(cosine, abs=1e-4)


def test_embeddings_are_those_of_the_original(minilm):
    (embedding,) = minilm.embed(['espresso cup'])
    assert embedding.dtype == np.float32
    assert embedding.shape == (384,)
    assert np.linalg.norm(embedding) == pytest.approx(1, abs=1e-5)
    assert embedding[:6] == pytest.approx(
        [-0.02332, 0.04311, -0.0194, 0.04645, 0.01672, 0.04505], abs=1e-4
    )


@pytest.mark.parametrize(
    ('text', 'numbers'),
    [
        ('espresso cup', [101, 9686, 20110, 2080, 2452, 102]),
        ('Crème-brûlée', [101, 13675, 21382, 1011, 7987, 9307, 2063, 102]),
        ("T-shirt's", [101, 1056, 1011, 3797, 1005, 1055, 102]),
        ('杯子 cup', [101, 100, 1816, 2452, 102]),
        ('☕', [101, 100, 102]),
        # An emoji that is younger than Unicode 14, which Python 3.11 knows.
        ('\U0001fae8', [101, 100, 102]),
        ('x' * 101, [101, 100, 102]),
        ('\tdog\u3000\u2028\x00\u200b ', [101, 3899, 102]),
        ('', [101, 102]),
    ],
)
def test_pieces_are_those_of_the_original(pieces, text, numbers):
    assert pieces.numbers(text) == numbers


def test_of_a_long_text_only_the_beginning_is_read(minilm, pieces):
    assert len(pieces.numbers('word ' * 400)) == 256
    start, longer = minilm.embed(['word ' * 254, 'word ' * 254 + 'dog'])
    assert np.array_equal(start, longer)


def test_what_a_text_means_does_not_depend_on_its_neighbours(minilm):
    texts = ['dog', 'a much longer label that makes the others wait', '', *map(str, range(100))]
    together = minilm.embed(texts)
    assert together.shape == (len(texts), 384)
    alone = np.concatenate([minilm.embed([text]) for text in texts[:5]])
    assert together[:5] == pytest.approx(alone, abs=1e-5)
    assert minilm.embed([]).shape == (0, 384)


def test_texts_with_unknown_parts_are_not_known(minilm):
    assert all(map(minilm.knows, ['dog', 'smörgåsbord', 'T-shirt', 'qwzx', '4711']))
    assert not any(map(minilm.knows, ['', ' \u200b', '☕', 'cup ☕', '狗', 'x' * 101]))


@pytest.mark.parametrize('missing', ['minilm', 'minilm-vocabulary'])
def test_missing_files_name_their_remedy(tmp_path, missing):
    store = ModelStore()
    for name in {'minilm', 'minilm-vocabulary'} - {missing}:
        (tmp_path / store.model(name).file).symlink_to(store.path(name))
    with pytest.raises(ModelMissing, match=f'run: niom models fetch {missing}$'):
        MiniLM(ModelStore(tmp_path), torch.device('cpu'))
