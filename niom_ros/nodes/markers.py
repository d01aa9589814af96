"""What RViz shows in 3D: the outline of the reference and its landmarks."""

from geometry_msgs.msg import Point
import numpy as np
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from niom_ros.core.homographies import warp_points
from niom_ros.stream.answers import Answer
from niom_ros.stream.camera import CameraModel
from niom_ros.stream.pose import in_widths

LIFETIME = 10  # seconds, after which the markers of a stopped node disappear
WITHOUT_DEPTH = 1.0  # metres in front of the camera, where things without a pose are drawn
# Colours that can be told apart with any kind of colour vision (Okabe and Ito).
OUTLINE = ColorRGBA(r=0.34, g=0.71, b=0.91, a=1.0)
LANDMARK = ColorRGBA(r=0.90, g=0.62, b=0.0, a=1.0)


def marker_array(answer: Answer, camera: CameraModel | None, header: Header) -> MarkerArray:
    """Return the markers of a frame, which replace all earlier ones.

    With a pose, they are at their true places. With only a calibrated camera, they are one metre
    in front of it, on the right line of sight. Without one, there are none.
    """
    markers = [Marker(header=header, action=Marker.DELETEALL)]
    if camera is not None:
        markers += markers_of(answer, camera, header)
        for other in answer.instances:
            if other.number != answer.number:
                markers += markers_of(other, camera, header, f' {other.number}')
    return MarkerArray(markers=markers)


def markers_of(
    answer: Answer, camera: CameraModel, header: Header, namesake: str = ''
) -> list[Marker]:
    """Return the markers of one object; equal ones differ by what their namespaces end with."""
    homography = answer.match.verdict.reference_to_image
    if answer.reference is None or homography is None:
        return []
    reference = answer.reference
    corners = reference.prepared.box.corners()
    marks = answer.landmarks
    visible = [mark for mark in marks if np.isfinite(mark.x) and np.isfinite(mark.y)]
    if answer.pose is not None:
        outline = in_space(answer, corners)
        given = {mark.name: (mark.x, mark.y) for mark in reference.given.landmarks}
        places = in_space(answer, np.array([given[mark.name] for mark in visible]).reshape(-1, 2))
    else:
        outline = on_line_of_sight(camera, warp_points(homography, corners))
        if not np.isfinite(outline).all():  # a corner is outside of what the lens model covers
            return []
        pixels = np.array([(mark.x, mark.y) for mark in visible]).reshape(-1, 2)
        places = on_line_of_sight(camera, pixels)
    size = float(np.linalg.norm(outline[1] - outline[0]))
    border = new_marker(header, f'outline{namesake}', 0, Marker.LINE_STRIP, OUTLINE)
    border.scale.x = size / 100
    border.points = [point(corner) for corner in (*outline, outline[0])]
    markers = [border]
    above = np.array([0, size / 20, 0])
    for number, (mark, place) in enumerate(zip(visible, places, strict=True)):
        if not np.isfinite(place).all():
            continue
        dot = new_marker(header, f'landmarks{namesake}', number, Marker.SPHERE, LANDMARK)
        dot.pose.position = point(place)
        dot.scale.x = dot.scale.y = dot.scale.z = size / 40
        names = f'landmark names{namesake}'
        name = new_marker(header, names, number, Marker.TEXT_VIEW_FACING, LANDMARK)
        name.pose.position = point(place - above)
        name.scale.z = size / 20
        name.text = mark.name
        markers += [dot, name]
    return markers


def in_space(answer: Answer, reference_points: np.ndarray) -> np.ndarray:
    """Return where the pose puts points of the reference, in metres."""
    assert answer.pose is not None and answer.reference is not None
    given = answer.reference.given
    metres = given.physical_width * in_widths(reference_points, given.size)
    return metres @ answer.pose.rotation.T + answer.pose.translation


def on_line_of_sight(camera: CameraModel, image_points: np.ndarray) -> np.ndarray:
    """Return the points one metre in front of the camera that are seen at the given pixels."""
    rays = camera.rays(image_points)
    return WITHOUT_DEPTH * np.column_stack([rays, np.ones(len(rays))])


def new_marker(
    header: Header, namespace: str, number: int, kind: int, colour: ColorRGBA
) -> Marker:
    """Return a marker without a position."""
    marker = Marker(header=header, ns=namespace, id=number, type=kind, color=colour)
    marker.pose.orientation.w = 1.0
    marker.lifetime.sec = LIFETIME
    return marker


def point(place: np.ndarray) -> Point:
    """Return a position as a message."""
    x, y, z = place.tolist()
    return Point(x=x, y=y, z=z)
