"""CLIP's embeddings of many everyday labels, and MiniLM for all others. The default."""

import ast
from collections.abc import Sequence
import csv
import io
import json

import numpy as np
import torch

from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelStore
from niom_ros.models.table import models_named
from niom_ros.networks.minilm import MiniLM
from niom_ros.semantics.labels import (
    COCO_LABELS,
    compact,
    LabelEmbedderPlugin,
    PROMPT,
    spellings,
    unit,
)

# The names of the same classes in darknet's list.
DARKNET_LABELS = {
    'airplane': 'aeroplane',
    'couch': 'sofa',
    'motorcycle': 'motorbike',
    'tv': 'tvmonitor',
}

Names = Sequence[Sequence[str]]
"""The names of each row of a table: the embedded one, then its synonyms."""


class ClipTable:
    """CLIP's embeddings of the labels of COCO, Objects365, OpenImages and LVIS (ViT-B/32)."""

    source = 'clip table'

    def __init__(self, store: ModelStore) -> None:
        """Read the four lists; where several have a name, the first one counts."""
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
        main_names = list(self._rows.items())
        # Only now, because a name that has its own row is better than a synonym of another.
        for names, rows in tables:
            for (_, *others), row in zip(names, rows, strict=True):
                for other in others:
                    self._rows.setdefault(compact(other), row)
        # Some names are plurals. For synonyms this would not be safe: boxers, spirits.
        for word, row in main_names:
            for singular in spellings(word)[1:]:
                self._rows.setdefault(singular, row)

    def _underscores(self, names: Names, rows: np.ndarray) -> np.ndarray:
        """Return the contribution of underscores to the embeddings of names.

        It is measured on names that other lists have without underscores. The names of LVIS were
        embedded with them; left in, they make 13 % of the pairs of such names similar, not 5 %.
        """
        marked = np.array(['_' in name for name, *_ in names])
        excess = [
            row - self._rows[compact(name)]
            for (name, *_), row in zip(names, rows, strict=True)
            if '_' in name and compact(name) in self._rows
        ]
        return marked[:, None] * (np.mean(excess, axis=0) if excess else np.zeros(rows.shape[1]))

    def knows(self, label: str) -> bool:
        """Return whether the table has a label or its singular."""
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
        """Return whether all of a label is in the vocabulary; unknown words are all alike."""
        return self._network.knows(label)

    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return the embeddings of labels (N x 384)."""
        return self._network.embed([PROMPT.format(label) for label in labels])


def load_table(settings: Settings, store: ModelStore, device: torch.device) -> ClipTable:
    """Load the tables."""
    return ClipTable(store)


def load_minilm(settings: Settings, store: ModelStore, device: torch.device) -> MiniLMLabels:
    """Load MiniLM."""
    return MiniLMLabels(store, device)


PLUGIN = LabelEmbedderPlugin(
    name='tables',
    description="CLIP's tables of 2,000 everyday labels, and MiniLM for others",
    licence='Apache-2.0',
    load=load_table,
    fallback=load_minilm,
    models=models_named(
        'clip-coco',
        'clip-objects365',
        'objects365-labels',
        'clip-openimages',
        'openimages-labels',
        'clip-lvis',
        'lvis-labels',
        'minilm',
        'minilm-vocabulary',
    ),
)
