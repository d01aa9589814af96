"""Which networks to use, where, and on how much of an image."""

from dataclasses import dataclass
import os
from typing import TYPE_CHECKING

from niom_ros.errors import UserError

if TYPE_CHECKING:
    import torch

EXTRACTORS = ('aliked', 'disk', 'superpoint')
DEVICES = ('auto', 'cpu', 'cuda')


class SettingsError(UserError):
    """A setting that cannot work on this machine; the message says what to use instead."""


@dataclass(frozen=True)
class Settings:
    """What is fixed once the networks are loaded."""

    extractor: str = 'aliked'
    device: str = 'auto'
    max_keypoints: int = 1024  # of each image
    max_image_side: int = 1024  # larger images are shrunk to this, never enlarged

    def __post_init__(self) -> None:
        """Refuse what no network can work with."""
        if self.extractor not in EXTRACTORS:
            raise SettingsError(
                f"unknown extractor '{self.extractor}': use one of {', '.join(EXTRACTORS)}"
            )
        if self.device not in DEVICES:
            raise SettingsError(f"unknown device '{self.device}': use one of {', '.join(DEVICES)}")
        for name, value in (
            ('max_keypoints', self.max_keypoints),
            ('max_image_side', self.max_image_side),
        ):
            if value < 64:
                raise SettingsError(f'{name} is {value}: it must be 64 or more')


def default_threads() -> int:
    """Return how many CPU threads leave one core to the rest of the machine."""
    return max(1, (os.cpu_count() or 2) - 1)


def choose_device(name: str) -> 'torch.device':
    """Turn 'auto', 'cpu' or 'cuda' into a device that works on this machine."""
    import torch  # takes seconds, and the table of parameters needs only the names above

    cuda_works = torch.cuda.is_available()
    if name == 'cuda' and not cuda_works:
        raise SettingsError("no usable CUDA GPU found: use device 'cpu' or 'auto'")
    return torch.device('cuda' if cuda_works and name != 'cpu' else 'cpu')
