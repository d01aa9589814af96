"""How similar two labels are: 'dog' and 'cat', 'espresso cup' and 'mug'."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
import threading
from typing import Protocol, runtime_checkable
import unicodedata

import numpy as np
import torch

from niom_ros.core.plugins import LABEL_EMBEDDERS
from niom_ros.core.settings import Settings
from niom_ros.models.plugins import load_part, Plugin, refuse_settings_of_others
from niom_ros.models.store import ModelStore

SAME_LABELS = 'same labels'  # the source if no embedding was needed
MAX_KEPT = 10_000  # embeddings cached by an encoder

PROMPT = 'a {}'
"""What is embedded for a label. The tables were made with it, and it suits MiniLM too."""

# fmt: off
COCO_LABELS = (
    'person', 'bicycle', 'car', 'motorcycle', 'airplane', 'bus', 'train', 'truck', 'boat',
    'traffic light', 'fire hydrant', 'stop sign', 'parking meter', 'bench', 'bird', 'cat', 'dog',
    'horse', 'sheep', 'cow', 'elephant', 'bear', 'zebra', 'giraffe', 'backpack', 'umbrella',
    'handbag', 'tie', 'suitcase', 'frisbee', 'skis', 'snowboard', 'sports ball', 'kite',
    'baseball bat', 'baseball glove', 'skateboard', 'surfboard', 'tennis racket', 'bottle',
    'wine glass', 'cup', 'fork', 'knife', 'spoon', 'bowl', 'banana', 'apple', 'sandwich', 'orange',
    'broccoli', 'carrot', 'hot dog', 'pizza', 'donut', 'cake', 'chair', 'couch', 'potted plant',
    'bed', 'dining table', 'toilet', 'tv', 'laptop', 'mouse', 'remote', 'keyboard', 'cell phone',
    'microwave', 'oven', 'toaster', 'sink', 'refrigerator', 'book', 'clock', 'vase', 'scissors',
    'teddy bear', 'hair drier', 'toothbrush',
)
# fmt: on

HYPHENS = dict.fromkeys(map(ord, '_-\u2010\u2011\u2012\u2013\u2014\u2015'), ' ')

# Longer endings first. A wrong guess does no harm: it matters only if it is another label.
PLURALS = (
    ('people', 'person'),
    ('children', 'child'),
    ('men', 'man'),
    ('mice', 'mouse'),
    ('feet', 'foot'),
    ('teeth', 'tooth'),
    ('geese', 'goose'),
    ('ies', 'y'),
    ('ves', 'fe'),
    ('ves', 'f'),
    ('ses', 's'),
    ('xes', 'x'),
    ('zes', 'z'),
    ('ches', 'ch'),
    ('shes', 'sh'),
    ('oes', 'o'),
    ('s', ''),
)

NO_PLURALS = {'glasses'}  # would become glass


@dataclass(frozen=True)
class LabelSimilarities:
    """How similar the labels of two images are."""

    cosine: np.ndarray  # R x I, float32; 1: the same label, 0: nothing in common or no label
    source: str  # where the similarities come from


def plain(label: str) -> str:
    """Return a label without differences in case, underscores, hyphens and extra blanks."""
    # A label may come from anywhere, and a lone surrogate cannot be encoded.
    text = unicodedata.normalize('NFKC', label.encode('utf-8', 'replace').decode())
    return ' '.join(text.translate(HYPHENS).lower().split())


def compact(label: str) -> str:
    """Return a plain label without any blanks: hotdog, hot dog, hot-dog."""
    return plain(label).replace(' ', '')


def spellings(label: str) -> list[str]:
    """Return a label and its likely singulars, without blanks: hotdogs, hotdog."""
    word = compact(label)
    singulars = [
        word.removesuffix(ending) + singular
        for ending, singular in PLURALS
        if word.endswith(ending) and word not in NO_PLURALS and not word.endswith('ss')
    ]
    return [word, *filter(None, singulars)]


def same(labels: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """Return which labels are the same except for their spelling (N x M, bool)."""
    words, other_words = list(map(spellings, labels)), list(map(spellings, others))
    result = np.zeros((len(words), len(other_words)), bool)
    for place in np.ndindex(result.shape):
        word, other = words[place[0]], other_words[place[1]]
        result[place] = bool(word[0]) and (word[0] in other or other[0] in word)
    return result


def readable(labels: Sequence[str]) -> np.ndarray:
    """Return which plain labels can be compared: not empty, and all in Latin letters (N, bool).

    All encoders here know English. They split words in other scripts into letters, so that these
    seem similar: for MiniLM, the Russian words for table and chair have a similarity of 0.93.
    """
    latin = [
        all('LATIN' in unicodedata.name(letter, '') for letter in label if letter.isalpha())
        for label in labels
    ]
    return np.array(list(map(bool, labels)), bool) & np.array(latin, bool)


@runtime_checkable
class LabelEncoder(Protocol):
    """Turns labels into vectors whose cosine says how similar the labels are.

    It must know all of COCO_LABELS.
    """

    source: str

    def knows(self, label: str) -> bool:
        """Return whether a plain label can be embedded."""

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return a vector for each plain label, all of them known."""


@dataclass(frozen=True, kw_only=True)
class LabelEmbedderPlugin(Plugin[LabelEncoder]):
    """An encoder of labels."""

    makes = LabelEncoder

    # For labels that the first encoder does not know
    fallback: Callable[[Settings, ModelStore, torch.device], LabelEncoder] | None = None


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of unit length, float32."""
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


class CentredEncoder:
    """An encoder with the mean of all labels subtracted, and a cache.

    All labels have much in common: they name things. In CLIP, car and dog are as similar (0.90) as
    cup and wine glass (0.89). With the mean of the COCO labels subtracted it is 0.16 and 0.40.
    """

    def __init__(self, encoder: LabelEncoder) -> None:
        """Compute the mean."""
        self.name = encoder.source
        self._encoder = encoder
        everyday = unit(encoder.embed(COCO_LABELS))
        self._mean = everyday.mean(axis=0)
        everyday = unit(everyday - self._mean)
        self._kept = dict(zip(COCO_LABELS, everyday, strict=True))

    def knows(self, labels: Iterable[str]) -> bool:
        """Return whether all of these plain labels can be embedded."""
        return all(map(self._encoder.knows, labels))

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return unit vectors of plain labels, zero for unknown ones."""
        new = [label for label in dict.fromkeys(labels) if label not in self._kept]
        known = [label for label in new if self._encoder.knows(label)]
        found = dict.fromkeys(new, np.zeros_like(self._mean))
        if known:
            vectors = unit(unit(self._encoder.embed(known)) - self._mean)
            found.update(zip(known, vectors, strict=True))
        self._kept.update(found)
        embeddings = np.stack([self._kept[label] for label in labels])
        for oldest in list(self._kept)[: max(0, len(self._kept) - MAX_KEPT)]:
            del self._kept[oldest]
        return embeddings


class LabelEmbedder:
    """Compares labels, with the plug-in that the settings name.

    Encoders are loaded on first use. Safe to use from several threads.
    """

    def __init__(self, settings: Settings, store: ModelStore, device: torch.device) -> None:
        """Load nothing yet; OpenAI's own weights need a clip_model that ends with -quickgelu."""
        plugin = LABEL_EMBEDDERS.load(settings.label_embedder, LabelEmbedderPlugin)
        refuse_settings_of_others(LABEL_EMBEDDERS, plugin, settings, ['clip_path'])
        plugins = [plugin]
        if plugin.fallback is not None:
            plugins.append(replace(plugin, load=plugin.fallback))

        def load(each: LabelEmbedderPlugin) -> LabelEncoder:
            return load_part(
                LABEL_EMBEDDERS, each, store, lambda models: each.load(settings, models, device)
            )

        self._loaders = [partial(load, each) for each in plugins]
        self._encoders: dict[int, CentredEncoder] = {}
        self._lock = threading.Lock()

    def prepare(self, labels: Iterable[str] = COCO_LABELS) -> str:
        """Load what comparing these labels needs, so that it can fail now; return its name."""
        words = [plain(label) for label in labels]
        in_question = readable(words)
        if not in_question.any():
            return SAME_LABELS
        with self._lock:
            return self._encoder_of(compress(words, in_question)).name

    def similarities(
        self, reference_labels: Sequence[str], image_labels: Sequence[str]
    ) -> LabelSimilarities:
        """Return how similar each label of the reference is to each of the image."""
        rows = [plain(label) for label in reference_labels]
        columns = [plain(label) for label in image_labels]
        equal = same(rows, columns)
        undecided = np.outer(readable(rows), readable(columns)) & ~equal
        if not undecided.any():
            return LabelSimilarities(equal.astype(np.float32), SAME_LABELS)
        in_question = np.concatenate([undecided.any(axis=1), undecided.any(axis=0)])
        with self._lock:
            encoder = self._encoder_of(compress([*rows, *columns], in_question))
            vectors = encoder.embed([*rows, *columns])
        cosine = (vectors[: len(rows)] @ vectors[len(rows) :].T).clip(-1, 1)
        return LabelSimilarities(np.where(undecided, cosine, equal), encoder.name)

    def _encoder_of(self, labels: Iterable[str]) -> CentredEncoder:
        first = self._loaded(0)
        if len(self._loaders) == 1 or first.knows(labels):
            return first
        return self._loaded(1)

    def _loaded(self, number: int) -> CentredEncoder:
        if number not in self._encoders:
            self._encoders[number] = CentredEncoder(self._loaders[number]())
        return self._encoders[number]
