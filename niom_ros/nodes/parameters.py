"""The table of parameters, declared and read in ROS."""

from collections.abc import Callable, Iterable
import sys
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
import rclpy
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node

from niom_ros.core.faults import printable
from niom_ros.core.parameters import Parameter
from niom_ros.core.settings import SettingsError
from niom_ros.nodes.parameter_files import mistakes_in_arguments
from niom_ros.nodes.rclpy_workarounds import EMPTY_LIST, is_set_to_empty_list


def descriptor(parameter: Parameter, read_only: bool) -> ParameterDescriptor:
    """Return what `ros2 param describe` shows."""
    # Parameters that are only read at startup are not read-only: rclpy would refuse a change
    # without saying what to do.
    described = ParameterDescriptor(
        name=parameter.name, description=parameter.description, read_only=read_only
    )
    if parameter.at_start:
        described.additional_constraints = 'only read at startup'
    if parameter.choices:
        described.additional_constraints = f'one of: {parameter.listed_choices()}'
    if parameter.minimum is not None and parameter.maximum is not None:
        if isinstance(parameter.default, int):
            integers = IntegerRange(
                from_value=int(parameter.minimum), to_value=int(parameter.maximum)
            )
            described.integer_range = [integers]
        else:
            numbers = FloatingPointRange(from_value=parameter.minimum, to_value=parameter.maximum)
            described.floating_point_range = [numbers]
    return described


def declare(node: Node, table: Iterable[Parameter], read_only: bool) -> None:
    """Declare all parameters of a table; a value that it does not allow is an error.

    Names that are probably mistakes are warned about.
    """
    table = tuple(table)
    known = [parameter.name for parameter in table]
    for mistake in mistakes_in_arguments(sys.argv, node.get_fully_qualified_name(), known):
        node.get_logger().warning(printable(mistake))
    for parameter in table:
        default = parameter.default
        described = descriptor(parameter, read_only)
        try:
            if isinstance(default, tuple) and is_set_to_empty_list(node, parameter.name):
                default = EMPTY_LIST
            value = node.declare_parameter(
                parameter.name, default, described, ignore_override=default is EMPTY_LIST
            ).value
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise SettingsError(str(error)) from None
        if value is None:
            raise SettingsError(f'parameter {parameter.name} has no value: give it one')
        problem = parameter.problem_with(value)
        if problem:
            raise SettingsError(f'parameter {problem}')


def refuse_wrong_values(
    node: Node, table: Iterable[Parameter], why_fixed: Callable[[Parameter], str]
) -> None:
    """Refuse values that the table does not allow, and changes that are not possible now."""
    parameters = {parameter.name: parameter for parameter in table}

    def check(changes: Iterable[rclpy.Parameter]) -> SetParametersResult:
        for change in changes:
            known = parameters.get(change.name)
            if known is None:
                continue
            problem = known.problem_with(change.value) or why_fixed(known)
            if problem:
                return SetParametersResult(successful=False, reason=printable(problem))
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(check)


def read(node: Node, table: Iterable[Parameter]) -> dict[str, Any]:
    """Return the present value of every parameter of a table."""
    return {parameter.name: node.get_parameter(parameter.name).value for parameter in table}
