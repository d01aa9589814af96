"""Requests that a client sends to the parameter services of the running node."""

from chosen import Chosen, noises
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    GetParameterTypes,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
import rclpy
from rclpy.node import Node

from niom_ros.core.parameters import MATCHER_PARAMETERS, stream_options_of
from niom_ros.nodes.parameters import declare, read, refuse_wrong_values
from niom_ros.nodes.rclpy_workarounds import answer_every_request

INPUTS = 20_000
TYPES = range(10)  # that ROS knows

rclpy.init(args=['--ros-args', '--disable-rosout-logs', '--log-level', 'fatal'])
_node = Node('fuzzed', enable_rosout=False)
declare(_node, MATCHER_PARAMETERS, read_only=False)
refuse_wrong_values(_node, MATCHER_PARAMETERS, lambda known: 'start' if known.at_start else '')
answer_every_request(_node)
_services = {service.srv_type: service for service in _node.services}
_start = {each.name for each in MATCHER_PARAMETERS if each.at_start}
_names = [each.name for each in MATCHER_PARAMETERS]
_values = read(_node, MATCHER_PARAMETERS)


def seeds() -> list[bytes]:
    return noises(60, 150)


def attempt(data: bytes) -> None:
    chosen = Chosen(data)
    changes = [change(chosen) for _ in range(chosen.integer(0, 3))]
    if chosen.chance():
        results = called(SetParameters, parameters=changes).results
        assert len(results) == len(changes)
    else:
        results = [called(SetParametersAtomically, parameters=changes).result]
    if all(parameter.value.type in TYPES for parameter in changes):
        assert not any('Error(' in result.reason for result in results), results
    names = [name(chosen) for _ in range(chosen.integer(0, 2))]
    for kind in (GetParameters, GetParameterTypes, DescribeParameters):
        called(kind, names=names)
    called(ListParameters, prefixes=names, depth=chosen.integer(0, 2**32))
    check_values()


def called(kind: type, **fields) -> object:
    """Return what a service of the node answers."""
    answer = _services[kind].callback(kind.Request(**fields), kind.Response())
    assert isinstance(answer, kind.Response)
    return answer


def check_values() -> None:
    """Whatever was asked for, all values are allowed ones."""
    after = read(_node, MATCHER_PARAMETERS)
    for known in MATCHER_PARAMETERS:
        value = after[known.name]
        assert type(value) is type(_values[known.name])
        assert not known.choices or value in known.choices
        assert known.minimum is None or known.minimum <= value <= known.maximum
        assert known.name not in _start or value == _values[known.name]
    stream_options_of(after)
    assert not _node.has_parameter('')


def name(chosen: Chosen) -> str:
    return chosen.pick(_names) if chosen.chance(0.9) else chosen.text()


def change(chosen: Chosen) -> Parameter:
    own = name(chosen)
    kind = chosen.integer(0, 255)
    if chosen.chance(0.8) and _node.has_parameter(own):
        kind = _node.get_parameter(own).type_.value
    number = chosen.number()
    whole = int(number) if abs(number) < 2**62 else 0
    known = [each for each in MATCHER_PARAMETERS if each.name == own]
    allowed = chosen.pick([str(choice) for each in known for choice in each.choices] or [''])
    value = ParameterValue(
        type=kind,
        bool_value=chosen.chance(),
        integer_value=whole,
        double_value=float(number),
        string_value=allowed if chosen.chance() else chosen.text(),
        byte_array_value=[chosen.bytes(1)],
        bool_array_value=[chosen.chance()],
        integer_array_value=[whole] * chosen.integer(0, 3),
        double_array_value=[float(number)] * chosen.integer(0, 3),
        string_array_value=[chosen.text()] * chosen.integer(0, 3),
    )
    return Parameter(name=own, value=value)
