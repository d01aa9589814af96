"""The services with which clients set, select, remove and list references."""

from collections.abc import Callable
from threading import Lock
import traceback
from typing import Any, Protocol

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup

from niom_ros.core.faults import explained, printable, printable_lines
from niom_ros.images.camera_images import message_to_rgb
from niom_ros.images.pages.reading import read_reference_picture, ReadPicture
from niom_ros.images.safe_open import AllowedFolders
from niom_ros.nodes.camera_input import CameraInput
from niom_ros.nodes.configuration import Configured, Live
from niom_ros.nodes.reference_request import (
    check_request,
    fill_answer,
    given_reference,
    NoCameraImage,
    NotReady,
    reference_info,
    refusal,
)
from niom_ros.srv import ListReferences, RemoveReference, SelectReference, SetReference
from niom_ros.stream.rotation import Rotation

OLDEST_CURRENT_FRAME = 5.0  # seconds since it arrived

Response = Any  # a response of one of the services


class Host(Protocol):
    """What the services need from the node that offers them."""

    live: Live
    configured: Configured | None
    changes: Lock  # held while the state or the references change
    camera: CameraInput

    @property
    def state(self) -> str:
        """Return the lifecycle state of the node."""

    def report(self, fault: str) -> None:
        """Report a fault in the log and in the diagnostics."""

    def create_service(self, kind: Any, name: str, callback: Any, *, callback_group: Any) -> Any:
        """Offer a service."""

    def get_logger(self) -> Any:
        """Return the log."""

    def get_fully_qualified_name(self) -> str:
        """Return the name of the node with its namespace."""


class ReferenceServices:
    """Offers the services of a matcher; each call is answered, whatever happens."""

    def __init__(self, node: Host) -> None:
        """Offer the services; they refuse with a reason until the node is configured."""
        self._node = node
        # Separate groups: preparing a reference takes a while, and listing must not wait for it.
        changes, lists = MutuallyExclusiveCallbackGroup(), MutuallyExclusiveCallbackGroup()
        for kind, name, callback, group in (
            (SetReference, '~/set_reference', self._set, changes),
            (SelectReference, '~/select_reference', self._select, changes),
            (RemoveReference, '~/remove_reference', self._remove, changes),
            (ListReferences, '~/list_references', self._list, lists),
        ):
            node.create_service(kind, name, callback, callback_group=group)
        if problem := AllowedFolders.named(node.live.values['reference_folders']).problem:
            node.get_logger().warning(f'{problem}: name a folder there, or none')

    def _answer(self, name: str, response: Response, act: Callable[[Configured], str]) -> Response:
        """Answer a service that changes references; a refusal says why and changes nothing."""
        log = self._node.get_logger()
        try:
            # Wait for a transition in progress: at startup, the networks are still loading.
            with self._node.changes:
                if self._node.configured is None:
                    raise NotReady(self._why_not_ready())
                response.message = printable(act(self._node.configured))
            response.success = True
            log.info(f'{name}: {response.message}')
        except BaseException as error:  # the caller always gets an answer
            response.success = False
            response.error, reason = refusal(error, type(response))
            if response.error == response.FAULT:
                log.error(printable_lines(traceback.format_exc()))
            response.message = f'refused: {printable(reason)}'
            configured = self._node.configured
            if configured is not None and (selected := configured.library.selected) is not None:
                response.message += f" (still looking for '{selected.id}')"
            log.warning(f'{name} {response.message}')
        return response

    def _set(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> SetReference.Response:
        def act(configured: Configured) -> str:
            check_request(request)
            given = given_reference(request, self._requested_picture(request, response))
            fewest = self._node.live.fewest_keypoints
            reference = configured.matcher.prepare(given, fewest)
            library = configured.library
            known, problem = library.put(reference, select=not request.keep_selection)
            fill_answer(response, known)
            if problem:
                response.warnings.append(problem)
            looking = f"'{known.id}' is kept for later"
            if library.selected is known:
                self._show(configured)
                looking = f"looking for '{known.id}'"
            return (
                f'{looking}, {response.width} x {response.height} pixels with '
                f'{response.keypoints} keypoints; weights from {response.weights_from}'
            )

        return self._answer('set_reference', response, act)

    def _requested_picture(
        self, request: SetReference.Request, response: SetReference.Response
    ) -> ReadPicture:
        if request.path:
            allowed = AllowedFolders.named(self._node.live.values['reference_folders'])
            return read_reference_picture(request.path, request.page, request.page_dpi, allowed)
        if request.use_current_frame:
            return ReadPicture(self._current_frame(response))
        return ReadPicture(message_to_rgb(request.image))

    def _current_frame(self, response: SetReference.Response) -> np.ndarray:
        """Return the current camera image, upright."""
        message = self._node.camera.frames.newest(OLDEST_CURRENT_FRAME)
        if message is None:
            if self._node.state != 'active':
                raise NoCameraImage(
                    f'the node is {self._node.state} and receives no images: activate it'
                )
            raise NoCameraImage(
                f'no camera image arrived in the last {OLDEST_CURRENT_FRAME:.0f} s on '
                f'{self._node.camera.topic}: check the camera and its topic'
            )
        response.header = message.header
        image = message_to_rgb(message)
        degrees = self._node.live.options.rotation
        return Rotation(degrees, image.shape[1], image.shape[0]).upright(image)

    def _select(
        self, request: SelectReference.Request, response: SelectReference.Response
    ) -> SelectReference.Response:
        def act(configured: Configured) -> str:
            known = configured.library.select(request.id)
            response.revision = known.revision
            self._show(configured)
            return f"looking for '{known.id}'"

        return self._answer('select_reference', response, act)

    def _remove(
        self, request: RemoveReference.Request, response: RemoveReference.Response
    ) -> RemoveReference.Response:
        def act(configured: Configured) -> str:
            library = configured.library
            removed = library.remove(request.id)
            if library.selected is None:
                self._show(configured)
                return f"'{removed.id}' is removed; {library.why_no_target()}"
            return f"'{removed.id}' is removed; still looking for '{library.selected.id}'"

        return self._answer('remove_reference', response, act)

    def _show(self, configured: Configured) -> None:
        """Publish the picture of the selected reference; a failure does not undo the change."""
        try:
            configured.outputs.publish_reference(configured.library.selected)
        except Exception as error:
            self._node.report(f'~/reference_image was not published: {explained(error)}')

    def _list(
        self, _: ListReferences.Request, response: ListReferences.Response
    ) -> ListReferences.Response:
        try:
            self._fill_list(response)
        except BaseException as error:  # the caller always gets an answer
            response.success = False
            response.message = f'the node failed: {explained(error)}'
            self._node.get_logger().error(f'list_references: {response.message}')
        return response

    def _fill_list(self, response: ListReferences.Response) -> None:
        configured = self._node.configured
        if configured is None:
            response.message = self._why_not_ready()
            return
        selected = configured.library.selected
        response.selected_id = selected.id if selected else ''
        response.match_all = self._node.live.values['match_all']
        response.references = [
            reference_info(known, known.id == response.selected_id)
            for known in configured.library.all()
        ]
        count = len(response.references)
        response.message = f'{count} reference{"" if count == 1 else "s"}'
        response.success = True

    def _why_not_ready(self) -> str:
        if self._node.state == 'finalized':
            return 'the node is finalized: start it again'
        name = self._node.get_fully_qualified_name()
        return f'the node is {self._node.state}: ros2 lifecycle set {name} configure'
