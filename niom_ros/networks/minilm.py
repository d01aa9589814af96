"""Embeddings of short texts: all-MiniLM-L6-v2 of sentence-transformers, without that package."""

from collections.abc import Iterator, Sequence
import unicodedata

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from niom_ros.models.store import ModelStore

WIDTH = 384
HIDDEN = 1536
HEADS = 12
LAYERS = 6
POSITIONS = 512
MAX_TOKENS = 256  # its authors' limit; longer texts are cut
MAX_WORD_LENGTH = 100  # characters; longer ones count as unknown
LAYER_NORM_EPS = 1e-12
BATCH = 64

UNKNOWN = '[UNK]'
START = '[CLS]'
END = '[SEP]'
PADDING = 0

CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """BERT's tokenizer: splits a text into known pieces, lower case and without accents."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._numbers[UNKNOWN]
        self._longest_piece = max(map(len, vocabulary))

    def numbers(self, text: str) -> list[int]:
        """Return the token ids, with start and end tokens."""
        pieces = [number for word in words(text) for number in self._pieces(word)]
        return [self._numbers[START], *pieces[: MAX_TOKENS - 2], self._numbers[END]]

    def knows(self, text: str) -> bool:
        """Return whether the text has a word, and no word is unknown."""
        pieces = [number for word in words(text) for number in self._pieces(word)]
        return bool(pieces) and self._unknown not in pieces

    def _pieces(self, word: str) -> list[int]:
        """Split greedily into the longest known pieces; a word with a gap is unknown."""
        if len(word) > MAX_WORD_LENGTH:
            return [self._unknown]
        pieces = []
        start = 0
        while start < len(word):
            prefix = '##' if start else ''
            for end in range(min(len(word), start + self._longest_piece), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            pieces.append(number)
            start = end
        return pieces


def words(text: str) -> Iterator[str]:
    """Yield words, punctuation marks and Chinese characters."""
    plain = unicodedata.normalize('NFD', ''.join(map(clean, text)))
    letters = (letter for letter in plain if unicodedata.category(letter) != 'Mn')
    # Letter by letter: str.lower() depends on the letters around a sigma, the vocabulary does not.
    for word in ''.join(letter.lower() for letter in letters).split():
        start = 0
        for index, letter in enumerate(word):
            if is_punctuation(letter):
                if start < index:
                    yield word[start:index]
                yield letter
                start = index + 1
        if start < len(word):
            yield word[start:]


def clean(letter: str) -> str:
    """Drop invisible characters, and put blanks around Chinese ones."""
    category = unicodedata.category(letter)
    if letter in '\t\n\r' or category.startswith('Z'):
        return ' '
    # Cn: for an older Python, a newer emoji is unassigned, and it must not vanish.
    if letter == '\ufffd' or (category.startswith('C') and category != 'Cn'):
        return ''
    if any(first <= ord(letter) <= last for first, last in CHINESE):
        return f' {letter} '
    return letter


def is_punctuation(letter: str) -> bool:
    """Return whether a character is punctuation; in ASCII, all but letters and digits are."""
    if letter.isascii():
        return not letter.isalnum()
    return unicodedata.category(letter).startswith('P')


class Layer(nn.Module):
    """One layer of BERT: attention, then two linear layers, with residual connections."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.mixed_norm = nn.LayerNorm(WIDTH, eps=LAYER_NORM_EPS)
        self.wide = nn.Linear(WIDTH, HIDDEN)
        self.narrow = nn.Linear(HIDDEN, WIDTH)
        self.narrow_norm = nn.LayerNorm(WIDTH, eps=LAYER_NORM_EPS)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the new tokens (N x T x 384); the mask (N x 1 x 1 x T) marks real ones."""
        query, key, value = (
            linear(tokens).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        tokens = self.mixed_norm(tokens + self.mixed(mixed.transpose(1, 2).flatten(2)))
        return self.narrow_norm(tokens + self.narrow(functional.gelu(self.wide(tokens))))


class MiniLMEncoder(nn.Module):
    """BERT with six layers, mean pooling and normalisation."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=LAYER_NORM_EPS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Turn token ids and their mask (both N x T) into unit vectors (N x 384)."""
        tokens = self.words(numbers) + self.positions.weight[: numbers.shape[1]]
        # The other kind is for the second of two texts.
        tokens = self.norm(tokens + self.kinds.weight[0])
        for layer in self.layers:
            tokens = layer(tokens, mask[:, None, None, :])
        mean = (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(mean, dim=1)


NAMES = {
    'embeddings.word_embeddings': 'words',
    'embeddings.position_embeddings': 'positions',
    'embeddings.token_type_embeddings': 'kinds',
    'embeddings.LayerNorm': 'norm',
    'attention.self.query': 'query',
    'attention.self.key': 'key',
    'attention.self.value': 'value',
    'attention.output.dense': 'mixed',
    'attention.output.LayerNorm': 'mixed_norm',
    'intermediate.dense': 'wide',
    'output.dense': 'narrow',
    'output.LayerNorm': 'narrow_norm',
}
"""From names in the file to names here; those of a layer without its number."""


def renamed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of the file with the names of this network."""
    state = {}
    for name, tensor in weights.items():
        part, _, kind = name.rpartition('.')
        # The head for another task, and a constant range.
        if part.startswith('pooler') or kind == 'position_ids':
            continue
        prefix = ''
        if part.startswith('encoder.layer.'):
            number, _, part = part.removeprefix('encoder.layer.').partition('.')
            prefix = f'layers.{number}.'
        state[f'{prefix}{NAMES[part]}.{kind}'] = tensor
    return state


class MiniLM:
    """Turns English texts into unit vectors, close together if the texts mean the same."""

    def __init__(self, store: ModelStore, device: torch.device) -> None:
        """Load the network and its vocabulary from the store."""
        vocabulary = store.read_text('minilm-vocabulary').split('\n')
        self._pieces = WordPiece(vocabulary)
        weights = renamed(store.load_safetensors('minilm'))
        self._encoder = MiniLMEncoder(len(weights['words.weight']))
        self._encoder.load_state_dict(weights)
        self._encoder.eval().to(device)
        self._device = device

    def knows(self, text: str) -> bool:
        """Return whether all of the text is known; unknown pieces all get the same token."""
        return self._pieces.knows(text)

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return one unit vector for each text (N x 384, float32)."""
        starts = range(0, len(texts), BATCH)
        batches = [self._embed(texts[start : start + BATCH]) for start in starts]
        return np.concatenate([np.empty((0, WIDTH), np.float32), *batches])

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = [torch.tensor(self._pieces.numbers(text)) for text in texts]
        numbers = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
        numbers = numbers.to(self._device)
        embeddings: np.ndarray = self._encoder(numbers, numbers != PADDING).cpu().numpy()
        return embeddings
