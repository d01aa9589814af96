"""Services that answer every request; those of rclpy raise exceptions for some."""

from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.service import Service

from niom_ros.nodes.faults import explained

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
        try:
            return callback(request, kind.Response())
        except Exception as error:
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
