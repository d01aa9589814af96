from array import array

import cv2
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.images.camera_images import ENCODINGS, message_to_rgb
from niom_ros.images.decoding import ImageError
from niom_ros.nodes.ros_messages import rgb_to_message


def message(pixels, encoding, padding=0, big_endian=False):
    """Return an array as a driver would send it, with padded rows."""
    if pixels.dtype == np.uint16:
        pixels = pixels.astype('>u2' if big_endian else '<u2')
    height, width = pixels.shape[:2]
    rows = np.frombuffer(pixels.tobytes(), np.uint8).reshape(height, -1)
    padded = np.pad(rows, ((0, 0), (0, padding)), constant_values=213)
    return Image(
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=big_endian,
        step=padded.shape[1],
        data=array('B', padded.tobytes()),
    )


CHANNELS = {'rgb': (0, 1, 2), 'bgr': (2, 1, 0), 'rgba': (0, 1, 2, 3), 'bgra': (2, 1, 0, 3)}


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 9),
    height=st.integers(1, 9),
    order=st.sampled_from(sorted(CHANNELS)),
    bits=st.sampled_from([8, 16]),
    padding=st.integers(0, 7),
    big_endian=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_colour_encodings(width, height, order, bits, padding, big_endian, seed):
    rgba = np.random.default_rng(seed).integers(0, 256, (height, width, 4))
    rgba[0, 0] = 255  # so that all bits are used
    sent = rgba[:, :, CHANNELS[order]] * (257 if bits == 16 else 1)
    sent = sent.astype(np.uint16 if bits == 16 else np.uint8)
    received = message_to_rgb(message(sent, f'{order}{bits}', padding, big_endian))
    assert received.dtype == np.uint8
    assert (received == rgba[:, :, :3]).all()


@pytest.mark.parametrize('encoding', ['mono8', '8UC1'])
def test_grey_encodings(encoding):
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (message_to_rgb(message(grey, encoding, 3)) == grey[:, :, None]).all()


@pytest.mark.parametrize('bits', [8, 10, 12, 14, 16])
def test_sensors_that_use_some_of_16_bits(bits):
    grey = np.array([[0, 40, 120, 255]])
    sent = (grey << (bits - 8)).astype(np.uint16)
    for big_endian in (False, True):
        received = message_to_rgb(message(sent, 'mono16', 3, big_endian))
        assert received[0, :, 0].tolist() == [0, 40, 120, 255]


@pytest.mark.parametrize('pattern', ['rggb', 'bggr', 'gbrg', 'grbg'])
@pytest.mark.parametrize('bits', [8, 16])
def test_bayer_encodings_keep_the_colour(pattern, bits):
    colour = {'r': 200, 'g': 100, 'b': 30}
    cell = np.array([colour[c] for c in pattern]).reshape(2, 2)
    mosaic = np.tile(cell, (6, 8)) * (257 if bits == 16 else 1)
    sent = mosaic.astype(np.uint16 if bits == 16 else np.uint8)
    received = message_to_rgb(message(sent, f'bayer_{pattern}{bits}'))
    assert received.shape == (12, 16, 3)
    assert received[5, 7].tolist() == [200, 100, 30]


@pytest.mark.parametrize(
    ('encoding', 'pixel_pair'),
    [('yuv422', (128, 90, 128, 160)), ('yuv422_yuy2', (90, 128, 160, 128))],
)
def test_yuv_encodings(encoding, pixel_pair):
    sent = np.tile(np.array(pixel_pair, np.uint8), (4, 3)).reshape(4, 6, 2)
    received = message_to_rgb(message(sent, encoding, 2))
    assert received.shape == (4, 6, 3)
    # Video range: luma 16 is black and 235 is white; neutral chroma gives grey.
    expected = [round((luma - 16) * 255 / 219) for luma in (90, 160)]
    assert abs(received[0, 0].astype(int) - expected[0]).max() <= 1
    assert abs(received[0, 1].astype(int) - expected[1]).max() <= 1


def test_round_trip():
    rgb = cv2.applyColorMap(np.arange(60, dtype=np.uint8).reshape(6, 10), cv2.COLORMAP_JET)
    header = Header(frame_id='camera')
    sent = rgb_to_message(rgb, header)
    assert (sent.encoding, sent.step, sent.header.frame_id) == ('rgb8', 30, 'camera')
    assert (message_to_rgb(sent) == rgb).all()


def bad(**changes):
    good = {'width': 4, 'height': 3, 'encoding': 'rgb8', 'step': 12, 'data': array('B', bytes(36))}
    return Image(**{**good, **changes})


@pytest.mark.parametrize(
    ('image', 'words'),
    [
        (bad(width=0), 'the image is empty'),
        (bad(height=0), 'the image is empty'),
        (bad(encoding='jpeg'), "unknown encoding 'jpeg': use one of rgb8"),
        (bad(encoding=''), "unknown encoding ''"),
        (bad(encoding='16UC1'), 'carries depth'),
        (bad(encoding='32FC1'), 'carries depth'),
        (bad(step=11), 'step is 11, but a row of 4 pixels'),
        (bad(step=0), 'step is 0'),
        (bad(step=2**32 - 1), 'data holds 36 bytes'),
        (bad(data=array('B', bytes(35))), 'data holds 35 bytes, but 3 rows of step 12 take 36'),
        (bad(width=20_000, height=20_000), 'more than the limit of 50 million'),
        (bad(width=2**32 - 1, height=2**32 - 1), 'more than the limit'),
        (bad(width=3, step=6, encoding='yuv422'), 'needs an even width'),
    ],
)
def test_bad_messages_are_refused_with_a_reason(image, words):
    with pytest.raises(ImageError, match=words):
        message_to_rgb(image)


@settings(max_examples=300, deadline=None)
@given(
    width=st.integers(0, 40),
    height=st.integers(0, 40),
    step=st.integers(0, 200),
    encoding=st.sampled_from([*ENCODINGS, '16UC1', 'nonsense']),
    data=st.binary(max_size=4000),
)
def test_any_message_is_read_or_refused(width, height, step, encoding, data):
    image = Image(width=width, height=height, step=step, encoding=encoding, data=array('B', data))
    try:
        rgb = message_to_rgb(image)
    except ImageError as error:
        assert str(error)
    else:
        assert rgb.shape == (height, width, 3)
        assert rgb.dtype == np.uint8
