"""The CLIP model of the user if there is one, else the tables."""

import torch

from niom_ros.core.settings import Settings
from niom_ros.models.store import ModelStore
from niom_ros.semantics.embedders import open_clip, tables
from niom_ros.semantics.labels import LabelEmbedderPlugin, LabelEncoder


def load(settings: Settings, store: ModelStore, device: torch.device) -> LabelEncoder:
    """Load what the settings name."""
    chosen = open_clip if settings.clip_path else tables
    return chosen.PLUGIN.load(settings, store, device)


PLUGIN = LabelEmbedderPlugin(
    name='auto',
    description='open_clip where clip_path is set, else tables',
    licence=tables.PLUGIN.licence,
    load=load,
    fallback=tables.PLUGIN.fallback,
    models=tables.PLUGIN.models,
    takes=open_clip.PLUGIN.takes,
)
