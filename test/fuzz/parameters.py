"""Values that a client sets for parameters of the running node."""

from chosen import Chosen
from chosen import noises
import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from niom_ros.nodes.parameters import declare
from niom_ros.nodes.parameters import read
from niom_ros.nodes.parameters import refuse_wrong_values
from niom_ros.parameters import guide_options_of
from niom_ros.parameters import MATCHER_PARAMETERS

INPUTS = 20_000

rclpy.init(args=['--ros-args', '--disable-rosout-logs'])
_node = Node('fuzzed', enable_rosout=False, start_parameter_services=False)
declare(_node, MATCHER_PARAMETERS, read_only=False)
refuse_wrong_values(_node, MATCHER_PARAMETERS, lambda known: 'start' if known.at_start else '')
_start = {each.name for each in MATCHER_PARAMETERS if each.at_start}
_values = read(_node, MATCHER_PARAMETERS)


def seeds() -> list[bytes]:
    return noises(60, 100)


def attempt(data: bytes) -> None:
    chosen = Chosen(data)
    changes = [change(chosen) for _ in range(chosen.integer(1, 3))]
    if chosen.chance():
        _node.set_parameters(changes)
    else:
        _node.set_parameters_atomically(changes)
    after = read(_node, MATCHER_PARAMETERS)
    for known in MATCHER_PARAMETERS:
        value = after[known.name]
        assert type(value) is type(_values[known.name])
        assert not known.choices or value in known.choices
        assert known.minimum is None or known.minimum <= value <= known.maximum
        assert known.name not in _start or value == _values[known.name]
    guide_options_of(after)


def change(chosen: Chosen) -> Parameter:
    known = chosen.pick(MATCHER_PARAMETERS)
    own = _node.get_parameter(known.name).type_
    kind = own if chosen.chance(0.8) else chosen.pick(tuple(Parameter.Type))
    number = chosen.number()
    whole = int(number) if abs(number) < 2**62 else 0
    allowed = chosen.pick(tuple(map(str, known.choices)) or ('',))
    value = {
        Parameter.Type.NOT_SET: None,
        Parameter.Type.BOOL: chosen.chance(),
        Parameter.Type.INTEGER: whole,
        Parameter.Type.DOUBLE: float(number),
        Parameter.Type.STRING: allowed if chosen.chance() else chosen.text(),
        Parameter.Type.BYTE_ARRAY: [chosen.bytes(1)],
        Parameter.Type.BOOL_ARRAY: [chosen.chance()],
        Parameter.Type.INTEGER_ARRAY: [whole] * chosen.integer(0, 3),
        Parameter.Type.DOUBLE_ARRAY: [float(number)] * chosen.integer(0, 3),
        Parameter.Type.STRING_ARRAY: [chosen.text()] * chosen.integer(0, 3),
    }[kind]
    return Parameter(known.name, kind, value)
