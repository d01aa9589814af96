"""Services that answer every request with words; those of rclpy raise exceptions for some."""

from collections.abc import Callable
import difflib
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.node import Node
from rclpy.service import Service

from niom_ros.core.faults import explained, printable

LONGEST_NAME = 100  # characters of a name that is not known

Answer = Callable[[Any, Any], Any]  # of a request and an empty response


def answer_every_request(node: Node) -> None:
    """Let each service of a node refuse what it fails at."""
    for service in node.services:
        service.callback = answered(node, service)


def answered(node: Node, service: Service) -> Answer:
    """Return the callback of a service, with a refusal in place of exceptions."""
    callback: Answer = service.callback
    kind: Any = service.srv_type

    def answer(request: Any, response: Any) -> Any:
        if isinstance(request, SetParameters.Request):
            # One by one, because some may be set before one fails.
            response.results = [
                answer_one(SetParameters.Request(parameters=[parameter])).results[0]
                for parameter in request.parameters
            ]
            return response
        return answer_one(request)

    def answer_one(request: Any) -> Any:
        if isinstance(request, SetParameters.Request | SetParametersAtomically.Request):
            for parameter in request.parameters:
                if not node.has_parameter(parameter.name):
                    return refusal(kind.Response(), why_unknown(node, parameter.name))
        try:
            return callback(request, kind.Response())
        except BaseException as error:  # also of what calls sys.exit, or panics in Rust
            reason = explained(error)
            node.get_logger().error(f'{service.srv_name} refused: {reason}')
            return refusal(kind.Response(), reason)

    return answer


def refusal(response: Any, reason: str) -> Any:
    """Return an empty response that says no, as far as its type can say so."""
    result = SetParametersResult(successful=False, reason=reason)
    if isinstance(response, SetParameters.Response):
        response.results = [result]
    elif isinstance(response, SetParametersAtomically.Response):
        response.result = result
    return response


def why_unknown(node: Node, name: str) -> str:
    """Say what to do about the name of a parameter that a node does not have."""
    name = printable(name[:LONGEST_NAME])
    alike = difflib.get_close_matches(name, node.get_parameters_by_prefix(''), 1)
    guess = f'maybe {alike[0]}, ' if alike else ''
    known = f'ros2 param list {node.get_fully_qualified_name()}'
    return f"there is no parameter '{name}': {guess}see `{known}`"
