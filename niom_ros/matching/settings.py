"""Which networks to use, where, and on how much of an image."""

from dataclasses import dataclass

import torch

from niom_ros.errors import UserError

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
        """Refuse numbers that no network can work with."""
        for name, value in (
            ('max_keypoints', self.max_keypoints),
            ('max_image_side', self.max_image_side),
        ):
            if value < 64:
                raise SettingsError(f'{name} is {value}: it must be 64 or more')


def choose_device(name: str) -> torch.device:
    """Turn 'auto', 'cpu' or 'cuda' into a device that works on this machine."""
    if name not in DEVICES:
        raise SettingsError(f"unknown device '{name}': use one of {', '.join(DEVICES)}")
    cuda_works = torch.cuda.is_available()
    if name == 'cuda' and not cuda_works:
        raise SettingsError("no usable CUDA GPU found: use device 'cpu' or 'auto'")
    return torch.device('cuda' if cuda_works and name != 'cpu' else 'cpu')
