"""A label embedder: words are alike if they have the same letters."""

import string

import numpy as np

from niom_ros.plugins import LabelEmbedderPlugin


class Letters:
    """Counts letters."""

    source = 'acme letters'

    def __init__(self, settings, store, device):
        """Need nothing."""

    def knows(self, label):
        """Return whether there is any letter to count."""
        return any(letter in string.ascii_lowercase for letter in label)

    def embed(self, labels):
        """Return how often each label has each letter."""
        return np.array(
            [[label.count(letter) for letter in string.ascii_lowercase] for label in labels],
            np.float32,
        )


PLUGIN = LabelEmbedderPlugin(
    name='acme-letters',
    description='words with the same letters are alike',
    licence='Apache-2.0',
    load=Letters,
)
