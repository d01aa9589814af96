"""Images and calibrations as a camera, or whoever claims to be one, sends them."""

from array import array

from chosen import Chosen, noises
import cv2
import numpy as np
from pictures import damaged_pictures
from sensor_msgs.msg import CameraInfo, CompressedImage, Image

from niom_ros.images.camera_images import DEPTH_ENCODINGS, ENCODINGS, message_to_rgb
from niom_ros.images.decoding import ImageError
from niom_ros.stream.camera import CameraCalibration

INPUTS = 40_000
MODELS = ('plumb_bob', 'rational_polynomial', 'equidistant', '', 'other')


def seeds() -> list[bytes]:
    compressed = [b'\0' + data for data in damaged_pictures()]
    return [*compressed, *(bytes([kind]) + noise for noise in noises(20) for kind in (1, 3))]


def attempt(data: bytes) -> None:
    chosen = Chosen(data)
    kind = chosen.bytes(1)[0] % 4
    if kind == 0:
        content = array('B', chosen.rest())
        check_picture(CompressedImage(format='jpeg', data=content))
    elif kind == 3:
        check_calibration(chosen)
    else:
        check_picture(raw_image(chosen))


def raw_image(chosen: Chosen) -> Image:
    image = Image(encoding=chosen.pick((*ENCODINGS, *DEPTH_ENCODINGS, chosen.text())))
    claimed = (chosen.integer(0, 40), chosen.integer(0, 40), 60_000, 2**32 - 1)
    image.width, image.height = chosen.pick(claimed), chosen.pick(claimed)
    exact = image.width * chosen.integer(1, 8)
    image.step = min(chosen.pick((exact, exact + 3, 0, 2**32 - 1)), 2**32 - 1)
    image.is_bigendian = chosen.bytes(1)[0]
    size = min(image.step * image.height, 20_000)
    image.data = array('B', chosen.rest().ljust(size, b'\x55'))
    return image


def check_picture(message: Image | CompressedImage) -> None:
    try:
        picture = message_to_rgb(message)
    except ImageError:
        return
    assert picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8
    assert min(picture.shape[:2]) > 0
    cv2.resize(picture, (2, 2))  # its memory can be read to the end


def check_calibration(chosen: Chosen) -> None:
    info = CameraInfo(distortion_model=chosen.pick(MODELS))
    info.width, info.height = chosen.integer(0, 2000), chosen.integer(0, 2000)
    info.binning_x, info.binning_y = chosen.integer(0, 9), chosen.integer(0, 2**32 - 1)
    info.roi.x_offset, info.roi.width = chosen.integer(0, 9), chosen.integer(0, 2**32 - 1)
    info.d = [chosen.number() for _ in range(chosen.pick((0, 4, 5, 8, 12, 14, 3)))]
    info.k = [chosen.number() for _ in range(9)]
    info.p = [chosen.number() for _ in range(12)]
    if chosen.chance():
        info.r = np.eye(3).ravel()
    camera, problem = CameraCalibration().camera_for(
        info, chosen.chance(), info.width, info.height, info.header.frame_id
    )
    assert (camera is None) == bool(problem)
