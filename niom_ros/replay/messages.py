"""ROS messages without ROS: built from fields, serialised for bags, and converted to JSON."""

from functools import cache
import math
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys import get_types_from_msg, get_typestore, Stores
from rosbags.typesys.store import Typestore

from niom_ros.core.installation import NotInstalled, share_folder


@cache
def message_types() -> Typestore:
    """Return the message types of ROS 2 and of this package.

    They are used for every bag, whatever it says about its types: images and camera_info are the
    same in all ROS 2 releases, and many bags do not define their types.
    """
    own: dict[str, Any] = {}
    for file in sorted((share_folder() / 'msg').glob('*.msg')):
        own |= get_types_from_msg(file.read_text(), f'niom_ros/msg/{file.stem}')
    if not own:
        raise NotInstalled(
            'the message definitions of niom_ros are not installed: '
            'build the package with `make setup` or colcon'
        )
    types = get_typestore(Stores.ROS2_JAZZY)
    types.register(own)
    return types


def build(kind: str, **fields: Any) -> Any:
    """Return a message of a type such as 'sensor_msgs/Image'; other fields are zero or empty."""
    name = kind.replace('/', '/msg/')
    described = dict(message_types().fielddefs[name][1])
    values = {field: zero(*described[field]) for field in described.keys() - fields.keys()}
    values |= {field: as_field(value, *described[field]) for field, value in fields.items()}
    return message_types().types[name](**values)


def zero(form: Nodetype, content: Any) -> Any:
    """Return the default value of a field of this form."""
    if form == Nodetype.NAME:
        return build(content.replace('/msg/', '/'))
    if form == Nodetype.BASE:
        return '' if content[0] == 'string' else 0
    length = content[1] if form == Nodetype.ARRAY else 0
    return as_field([0] * length, form, content)


def as_field(value: Any, form: Nodetype, content: Any) -> Any:
    """Return a value as a field of this form needs it: a list of numbers becomes an array."""
    if form in (Nodetype.NAME, Nodetype.BASE):
        return value
    (item_form, item), _ = content
    if item_form == Nodetype.NAME or item[0] == 'string':
        return list(value)
    return np.ascontiguousarray(value, item[0])


def plain(value: Any) -> Any:
    """Return a message, or a value in one, ready for JSON: NaN and infinity become null."""
    if hasattr(value, '__msgtype__'):
        fields = message_types().fielddefs[value.__msgtype__][1]
        return {name: plain(getattr(value, name)) for name, _ in fields}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def serialised(message: Any) -> memoryview:
    """Return a message in the CDR encoding of bags."""
    return message_types().serialize_cdr(message, message.__msgtype__)


def deserialised(data: bytes, kind: str) -> Any:
    """Decode a message of a bag, of a type such as 'sensor_msgs/msg/Image'."""
    return message_types().deserialize_cdr(data, kind)
