"""A CLIP model of the user, by the path of its checkpoint."""

from collections.abc import Sequence
import difflib
from pathlib import Path

import numpy as np
import torch

from niom_ros.core.extras import needs_extra
from niom_ros.core.faults import first_line
from niom_ros.core.settings import Settings, SettingsError
from niom_ros.models.store import ModelStore
from niom_ros.semantics.labels import LabelEmbedderPlugin, PROMPT

BATCH = 64


class OpenClip:
    """The text encoder of a CLIP model."""

    def __init__(self, path: str, model: str, device: torch.device) -> None:
        """Load the weights from a file; nothing is ever downloaded."""
        # Resolved, because open_clip would download some plain words, such as openai.
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
        except Exception as error:  # of any kind: the file may hold anything
            raise SettingsError(
                f'clip_path {path} cannot be read ({first_line(error)}): give weights as '
                'open_clip saves them, .safetensors or .pt'
            ) from error
        try:
            network = open_clip.create_model(name, pretrained=str(file), device=device)
        except Exception as error:  # of any kind, for the same reason
            raise SettingsError(
                f'clip_path {path} does not fit clip_model {name} ({first_line(error)}): '
                'give the name of the model that it was made for'
            ) from error
        network.visual = torch.nn.Identity()  # often the larger half, and only text is embedded
        self.source = f'open_clip {name}'
        self._network = network.eval()
        self._tokenizer = open_clip.get_tokenizer(name)
        self._device = device

    def knows(self, label: str) -> bool:
        """Return True: any text can be embedded."""
        return True

    @torch.inference_mode()
    def embed(self, labels: Sequence[str]) -> np.ndarray:
        """Return the embeddings of labels (N x D)."""
        tokens = self._tokenizer([PROMPT.format(label) for label in labels]).to(self._device)
        batches = [self._network.encode_text(batch) for batch in tokens.split(BATCH)]
        embeddings: np.ndarray = torch.cat(batches).float().cpu().numpy()
        return embeddings


def refuse_model(name: str) -> None:
    """Refuse a name that open_clip does not know, or whose tokenizer it would download."""
    import open_clip

    # First, because open_clip goes online for names such as hf-hub:...
    known = open_clip.list_models()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3) or ['ViT-B-32']
        raise SettingsError(f'open_clip has no clip_model {name!r}: try {", ".join(close)}')
    text = open_clip.get_model_config(name)['text_cfg']
    if 'hf_model_name' in text or 'hf_tokenizer_name' in text or 'siglip' in name.lower():
        raise SettingsError(
            f'clip_model {name} reads words with files that open_clip would download: '
            "use one with CLIP's own tokenizer, such as ViT-B-32"
        )


def load(settings: Settings, store: ModelStore, device: torch.device) -> OpenClip:
    """Load the checkpoint that the settings name."""
    if not settings.clip_path:
        raise SettingsError("label_embedder 'open_clip' needs a checkpoint: set clip_path to it")
    return OpenClip(settings.clip_path, settings.clip_model, device)


PLUGIN = LabelEmbedderPlugin(
    name='open_clip',
    description='a checkpoint of open_clip, from clip_path',
    licence="the file's own",
    load=load,
    takes=('clip_path',),
)
