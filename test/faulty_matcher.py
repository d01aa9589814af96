"""The real matcher node, with traps around its stages: each fails while a file says so.

FAULTS/extractor with the content MemoryError lets the extractor fail with that error, until the
file is gone; with the content WAIT it waits for that, and writes WAITING as soon as it does. The
node itself has nothing of this.
"""

from collections.abc import Callable
import os
from pathlib import Path
import time
from typing import Any

from geometry_msgs.msg import TransformStamped
import torch

from niom_ros.matching import image_analysis
from niom_ros.matching.features import Extractor
from niom_ros.matching.matchers.lightglue import LightGlueMatcher
from niom_ros.nodes import configuration, frame_worker, outputs, reference_services
from niom_ros.nodes.matcher_node import main
from niom_ros.semantics.detectors.grid_detector import GridDetector
from niom_ros.stream.match_deadline import MatchDeadline
from niom_ros.tracking.tracker import Tracker

ERRORS = {
    'MemoryError': MemoryError,
    'OutOfMemoryError': lambda: torch.OutOfMemoryError('CUDA out of memory. Tried to allocate'),
    'RuntimeError': lambda: RuntimeError('the plug-in broke'),
    'SystemExit': lambda: SystemExit(3),
}


class TransformBroadcaster:
    """Stands in for that of tf2_ros, which is not to be had as a wheel: it is a publisher."""

    def __init__(self, node: Any) -> None:
        self.pub_tf = node.create_publisher(TransformStamped, '/tf_stand_in', 10)

    def sendTransform(self, transform: TransformStamped) -> None:  # noqa: N802, tf2's name
        self.pub_tf.publish(transform)


def trapped(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that fails or waits while the file of its stage is there."""
    trap = Path(os.environ['FAULTS']) / stage

    def run(*arguments: Any, **named: Any) -> Any:
        if trap.exists() and trap.read_text() != 'WAIT':
            raise ERRORS[trap.read_text()]()
        while trap.exists():
            trap.with_suffix('.WAITING').touch()
            time.sleep(0.02)
        return function(*arguments, **named)

    return run


def with_pause(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function after which its thread waits while the file of the stage is there."""
    pause = trapped(stage, lambda: None)

    def run(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        pause()
        return result

    return run


if __name__ == '__main__':
    image_analysis.sift_features = trapped('sift', image_analysis.sift_features)
    Extractor.extract = trapped('extractor', Extractor.extract)
    LightGlueMatcher.match = trapped('matcher', LightGlueMatcher.match)
    GridDetector.detect = trapped('detector', GridDetector.detect)
    Tracker.follow = trapped('tracker', Tracker.follow)
    Tracker.matched = trapped('new_track', with_pause('begun_track', Tracker.matched))
    configuration.Matcher = trapped('matcher', configuration.Matcher)
    reference_services.reference_info = trapped('list', reference_services.reference_info)
    outputs.match_message = trapped('message', outputs.match_message)
    outputs.PICTURES = {
        topic: trapped('picture', draw) for topic, draw in outputs.PICTURES.items()
    }
    outputs.Outputs.publish_reference = trapped(
        'reference_image', outputs.Outputs.publish_reference
    )
    outputs.TransformBroadcaster = TransformBroadcaster
    frame_worker.MATCH_DEADLINE = MatchDeadline(seconds=8.0)
    main()
