"""How alike two labels are: 'dog' and 'cat', 'espresso cup' and 'mug'."""

import ast
from collections.abc import Callable, Iterable, Sequence
import csv
from dataclasses import dataclass
import difflib
import io
from itertools import compress
import json
from pathlib import Path
import threading
from typing import Protocol
import unicodedata

import numpy as np
import torch

from niom_ros.core.extras import needs_extra
from niom_ros.core.settings import SettingsError
from niom_ros.models.store import ModelStore
from niom_ros.networks.minilm import MiniLM

SAME_LABELS = 'same labels'  # the source if the words alone decide
MOST_KEPT = 10_000  # embeddings that a source keeps
BATCH = 64

PROMPT = 'a {}'
"""What is embedded for a label. The table was made with this one, and it suits MiniLM too."""

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

# What darknet's list of the same classes says instead.
DARKNET_LABELS = {
    'airplane': 'aeroplane',
    'couch': 'sofa',
    'motorcycle': 'motorbike',
    'tv': 'tvmonitor',
}

HYPHENS = dict.fromkeys(map(ord, '_-\u2010\u2011\u2012\u2013\u2014\u2015'), ' ')

# Longer endings first. A wrong guess does no harm: it counts only if it is another label.
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

NO_PLURALS = {'glasses'}  # looks like more than one glass

Names = Sequence[Sequence[str]]
"""The names of each row of a table: the one that was embedded, and other words for the same."""


@dataclass(frozen=True)
class LabelSimilarities:
    """How alike the labels of two images are."""

    cosine: np.ndarray  # R x I, float32; 1: the same label, 0: nothing in common or no label
    source: str  # where the numbers come from


def plain(label: str) -> str:
    """Forgive case, underscores, hyphens and extra blanks."""
    # A label may come from anywhere, and half a character cannot be encoded.
    text = unicodedata.normalize('NFKC', label.encode('utf-8', 'replace').decode())
    return ' '.join(text.translate(HYPHENS).lower().split())


def compact(label: str) -> str:
    """Forgive all blanks as well: hotdog, hot dog, hot-dog."""
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
    """Tell of each two labels whether they are one, but for their spelling (N x M, bool)."""
    words, other_words = list(map(spellings, labels)), list(map(spellings, others))
    result = np.zeros((len(words), len(other_words)), bool)
    for place in np.ndindex(result.shape):
        word, other = words[place[0]], other_words[place[1]]
        result[place] = bool(word[0]) and (word[0] in other or other[0] in word)
    return result


def readable(labels: Sequence[str]) -> np.ndarray:
    """Tell which plain labels can be compared: not empty, and all in Latin letters (N, bool).

    All encoders here know English. Words in other scripts are spelled out for them letter by
    letter and look alike: to MiniLM the Russian words for table and chair are so by 0.93.
    """
    latin = [
        all('LATIN' in unicodedata.name(letter, '') for letter in label if letter.isalpha())
        for label in labels
    ]
    return np.array(list(map(bool, labels)), bool) & np.array(latin, bool)


class Encoder(Protocol):
    """Turns labels into vectors whose directions tell how alike the labels are."""

    source: str

    def knows(self, label: str) -> bool:
        """Tell whether a plain label can be embedded."""

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return a vector for each of some plain labels that are known."""


class ClipTable:
    """CLIP's embeddings of the labels of COCO, Objects365, OpenImages and LVIS (ViT-B/32)."""

    source = 'clip table'

    def __init__(self, store: ModelStore) -> None:
        """Read the four lists; of a name that several have, the first one counts."""
        coco = [(name, *DARKNET_LABELS.get(name, '').split()) for name in COCO_LABELS]
        tables: list[tuple[Names, np.ndarray]] = [
            (names, unit(store.load_array(model)))
            for model, names in (
                ('clip-coco', coco),
                ('clip-objects365', objects365(store.read_text('objects365-labels'))),
                ('clip-openimages', openimages(store.read_text('openimages-labels'))),
                ('clip-lvis', lvis(store.read_text('lvis-labels'))),
            )
        ]
        self._rows: dict[str, np.ndarray] = {}
        for names, rows in tables:
            rows -= self._underscores(names, rows)
            for (name, *_), row in zip(names, rows, strict=True):
                self._rows.setdefault(compact(name), row)
        named = list(self._rows.items())
        # Only now, because the word for a thing itself is better than a synonym of another.
        for names, rows in tables:
            for (_, *others), row in zip(names, rows, strict=True):
                for other in others:
                    self._rows.setdefault(compact(other), row)
        # Some names are plurals. Of the synonyms it would not be safe: boxers, spirits.
        for word, row in named:
            for singular in spellings(word)[1:]:
                self._rows.setdefault(singular, row)

    def _underscores(self, names: Names, rows: np.ndarray) -> np.ndarray:
        """Return what CLIP saw in the underscores of names that other lists have without.

        The names of LVIS were embedded with them. Left in, they make 13 % of the pairs of such
        names look alike, instead of 5 %.
        """
        marked = np.array(['_' in name for name, *_ in names])
        excess = [
            row - self._rows[compact(name)]
            for (name, *_), row in zip(names, rows, strict=True)
            if '_' in name and compact(name) in self._rows
        ]
        return marked[:, None] * (np.mean(excess, axis=0) if excess else np.zeros(rows.shape[1]))

    def knows(self, label: str) -> bool:
        """Tell whether the table has a label or its singular."""
        return any(word in self._rows for word in spellings(label))

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return the rows of labels that the table has (N x 512)."""
        return np.stack(
            [
                next(self._rows[word] for word in spellings(label) if word in self._rows)
                for label in labels
            ]
        )


def objects365(text: str) -> Names:
    """Read lines like '300,Tape Measur/ Ruler,Tape Measure/ Ruler': number, old name, name."""
    return [(name, old, *name.split('/')) for _, old, name in csv.reader(io.StringIO(text))]


def openimages(text: str) -> Names:
    """Read the list of categories out of a Python file, without running it."""
    (categories,) = (
        ast.literal_eval(statement.value)
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == 'categories'
    )
    return [(category['name'],) for category in categories]


def lvis(text: str) -> Names:
    """Read a list of categories with their synonyms."""
    return [(category['name'], *category['synonyms']) for category in json.loads(text)]


class MiniLMLabels:
    """MiniLM for labels: reads any English text."""

    source = 'minilm'

    def __init__(self, store: ModelStore, device: torch.device) -> None:
        """Load MiniLM."""
        self._network = MiniLM(store, device)

    def knows(self, label: str) -> bool:
        """Tell whether all of a label is in the vocabulary: what is not looks all the same."""
        return self._network.knows(label)

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return the embeddings of labels (N x 384)."""
        return self._network.embed([PROMPT.format(label) for label in labels])


class OpenClip:
    """The text half of a CLIP whose weights the user has."""

    def __init__(self, path: str, model: str, device: torch.device) -> None:
        """Load the weights from a file; nothing is ever downloaded."""
        # Resolved, because open_clip takes some words, like openai, for something to download.
        file = Path(path).expanduser().resolve()
        if not file.is_file():
            raise SettingsError(
                f'clip_path {path} is not a file: give the weights of an open_clip model, '
                'or leave it empty'
            )
        with needs_extra('clip', 'clip_path'):
            import open_clip  # takes seconds

        name = model.replace('/', '-')
        refuse_model(name)
        try:
            open_clip.factory.load_state_dict(str(file))
        except Exception as error:  # whatever a file of unknown content makes the readers raise
            raise SettingsError(
                f'clip_path {path} cannot be read ({first_line(error)}): give weights as '
                'open_clip saves them, .safetensors or .pt'
            ) from error
        try:
            network = open_clip.create_model(name, pretrained=str(file), device=device)
        except Exception as error:  # the same: any file of weights may be tried
            raise SettingsError(
                f'clip_path {path} does not fit clip_model {name} ({first_line(error)}): '
                'give the name of the model that it was made for'
            ) from error
        network.visual = torch.nn.Identity()  # often the larger half, and only text is read
        self.source = f'open_clip {name}'
        self._network = network.eval()
        self._tokenizer = open_clip.get_tokenizer(name)
        self._device = device

    def knows(self, label: str) -> bool:
        """Tell that any text can be embedded."""
        return True

    @torch.inference_mode()
    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return the embeddings of labels (N x D)."""
        tokens = self._tokenizer([PROMPT.format(label) for label in labels]).to(self._device)
        batches = [self._network.encode_text(batch) for batch in tokens.split(BATCH)]
        embeddings: np.ndarray = torch.cat(batches).float().cpu().numpy()
        return embeddings


def refuse_model(name: str) -> None:
    """Refuse a name that open_clip does not have, or whose words it would download."""
    import open_clip

    # First, because open_clip asks the network about names of the kind hf-hub:...
    known = open_clip.list_models()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3) or ['ViT-B-32']
        raise SettingsError(f'open_clip has no clip_model {name!r}: try {", ".join(close)}')
    text = open_clip.get_model_config(name)['text_cfg']
    if 'hf_model_name' in text or 'hf_tokenizer_name' in text or 'siglip' in name.lower():
        raise SettingsError(
            f'clip_model {name} reads words with files that open_clip would download: '
            'use one with the tokenizer of CLIP itself, like ViT-B-32'
        )


def first_line(error: Exception) -> str:
    """Return as much of an error as fits a message of one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of unit length, float32."""
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


class Source:
    """An encoder without what is common to all labels, and with a memory.

    All labels have much in common: they name things. In CLIP, car and dog are as alike (0.90) as
    cup and wine glass (0.89). Less the mean of the COCO labels it is 0.16 and 0.40.
    """

    def __init__(self, encoder: Encoder) -> None:
        """Measure what is common."""
        self.name = encoder.source
        self._encoder = encoder
        everyday = unit(encoder.embed(COCO_LABELS))
        self._common = everyday.mean(axis=0)
        everyday = unit(everyday - self._common)
        self._kept = dict(zip(COCO_LABELS, everyday, strict=True))

    def knows(self, labels: Iterable[str]) -> bool:
        """Tell whether all of some plain labels can be embedded."""
        return all(map(self._encoder.knows, labels))

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return unit vectors of plain labels, zero for those that are not known."""
        new = [label for label in dict.fromkeys(labels) if label not in self._kept]
        known = [label for label in new if self._encoder.knows(label)]
        found = dict.fromkeys(new, np.zeros_like(self._common))
        if known:
            vectors = unit(unit(self._encoder.embed(known)) - self._common)
            found.update(zip(known, vectors, strict=True))
        self._kept.update(found)
        embeddings = np.stack([self._kept[label] for label in labels])
        for oldest in list(self._kept)[: max(0, len(self._kept) - MOST_KEPT)]:
            del self._kept[oldest]
        return embeddings


class LabelEmbedder:
    """Compares labels: with the user's CLIP, else CLIP's table if it has them all, else MiniLM.

    What a comparison needs is loaded by the first one that needs it. May be used from several
    threads.
    """

    def __init__(
        self,
        store: ModelStore,
        device: torch.device,
        clip_path: str = '',
        clip_model: str = 'ViT-B-32',
    ) -> None:
        """Load nothing yet; OpenAI's own weights need a clip_model that ends with -quickgelu."""
        self._own_clip = bool(clip_path)
        self._loaders: dict[str, Callable[[], Encoder]] = {
            'open_clip': lambda: OpenClip(clip_path, clip_model, device),
            'table': lambda: ClipTable(store),
            'minilm': lambda: MiniLMLabels(store, device),
        }
        self._sources: dict[str, Source] = {}
        self._lock = threading.Lock()

    def prepare(self, labels: Iterable[str] = COCO_LABELS) -> str:
        """Load what comparing these labels needs, so that faults show now; return its name."""
        words = [plain(label) for label in labels]
        in_question = readable(words)
        if not in_question.any():
            return SAME_LABELS
        with self._lock:
            return self._source(compress(words, in_question)).name

    def similarities(
        self, reference_labels: Sequence[str], image_labels: Sequence[str]
    ) -> LabelSimilarities:
        """Return how alike each label of the reference and each of the image are."""
        rows = [plain(label) for label in reference_labels]
        columns = [plain(label) for label in image_labels]
        equal = same(rows, columns)
        undecided = np.outer(readable(rows), readable(columns)) & ~equal
        if not undecided.any():
            return LabelSimilarities(equal.astype(np.float32), SAME_LABELS)
        in_question = np.concatenate([undecided.any(axis=1), undecided.any(axis=0)])
        with self._lock:
            source = self._source(compress([*rows, *columns], in_question))
            vectors = source.embed([*rows, *columns])
        cosine = (vectors[: len(rows)] @ vectors[len(rows) :].T).clip(-1, 1)
        return LabelSimilarities(np.where(undecided, cosine, equal), source.name)

    def _source(self, labels: Iterable[str]) -> Source:
        if self._own_clip:
            return self._loaded('open_clip')
        table = self._loaded('table')
        return table if table.knows(labels) else self._loaded('minilm')

    def _loaded(self, kind: str) -> Source:
        if kind not in self._sources:
            self._sources[kind] = Source(self._loaders[kind]())
        return self._sources[kind]
