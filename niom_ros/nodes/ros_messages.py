"""ROS messages from plain fields and NumPy arrays, without a check of each number."""

from array import array
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.core.faults import printable
from niom_ros.messages.results import image_message

TYPE_CODES = {'float32': 'f', 'float64': 'd', 'uint8': 'B'}


def build(kind: str, **fields: Any) -> Any:
    """Return a message of a type such as 'sensor_msgs/Image'."""
    message_class, field_types = message_type(kind)
    return message_class(**{name: as_ros(v, field_types[name]) for name, v in fields.items()})


@cache
def message_type(kind: str) -> tuple[type, dict[str, str]]:
    """Return the class of a message and the types of its fields."""
    package, name = kind.split('/')
    message_class = getattr(import_module(f'{package}.msg'), name)
    return message_class, message_class.get_fields_and_field_types()


def as_ros(value: Any, field_type: str) -> Any:
    """Return a value in the form that a message accepts fastest; texts become one line."""
    if isinstance(value, str):
        return printable(value)
    if not isinstance(value, np.ndarray) or not field_type.startswith('sequence'):
        return value
    code = TYPE_CODES.get(str(value.dtype))
    return value.tolist() if code is None else array(code, value.tobytes())


def rgb_to_message(rgb: np.ndarray, header: Header) -> Image:
    """Return an RGB array as an image message."""
    return image_message(build, rgb, header)
