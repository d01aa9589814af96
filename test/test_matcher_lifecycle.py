"""The lifecycle of a real matcher process: who starts and stops it, and what it then does."""

import signal
import time

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
from niom_ros.srv import ListReferences, SelectReference, SetReference
import pytest
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
import rclpy
from rclpy.context import Context
from rclpy.node import Node
from ros_client import call, Inbox, ros_network, running, spin_until
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from niom_ros.nodes.ros_messages import rgb_to_message

MANUAL = ('-p', 'autostart:=false', *FAST)
HOMELESS = ('-p', 'reference_folders:=[~nobody-of-this-name]')


@pytest.fixture(scope='module')
def bench(tmp_path_factory):
    """Run a matcher that nobody started yet."""
    with ros_network() as node:
        log = tmp_path_factory.mktemp('matcher') / 'log.txt'
        with running('matcher_node', log, *MANUAL, *HOMELESS) as process:
            bench = Bench(node, process)
            bench.log = log
            yield bench


def in_state(bench, wanted):
    """Bring the matcher into a state, from wherever it is."""
    ways = {
        ('unconfigured', 'inactive'): ['configure'],
        ('unconfigured', 'active'): ['configure', 'activate'],
        ('inactive', 'active'): ['activate'],
        ('inactive', 'unconfigured'): ['cleanup'],
        ('active', 'inactive'): ['deactivate'],
        ('active', 'unconfigured'): ['deactivate', 'cleanup'],
    }
    state = bench.state()
    for transition in ways.get((state, wanted), []):
        assert bench.change_state(transition), transition
    assert bench.state() == wanted


def set_cup(bench, coffee, **fields):
    return bench.set_reference(id='cup', image=rgb_to_message(coffee, Header()), **fields)


def test_without_autostart_it_waits_and_refuses_references_with_a_reason(bench, coffee):
    # The first test of the module: nobody made a transition yet.
    assert bench.state() == 'unconfigured'
    assert bench.camera.get_subscription_count() == 0
    answer = set_cup(bench, coffee)
    assert not answer.success
    assert answer.error == SetReference.Response.NOT_READY
    assert 'the node is unconfigured: ros2 lifecycle set /matcher configure' in answer.message
    listed = bench.call(ListReferences, 'list_references')
    assert not listed.success
    assert 'unconfigured' in listed.message
    status = matching_status(bench, lambda status: 'unconfigured' in status.message)
    assert status.level == DiagnosticStatus.WARN
    assert 'until ros2 lifecycle set /matcher configure' in status.message


def matching_status(bench, wanted):
    """Return the next status of matching that is as wanted."""
    heard = Inbox(bench.node, DiagnosticArray, '/diagnostics')
    found = []

    def look():
        found.extend(
            status
            for message in heard.messages
            for status in message.status
            if status.name == 'matcher: matching' and wanted(status)
        )
        return found

    spin_until(bench.node, look, 'the status')
    heard.close()
    return found[0]


def test_another_node_of_the_same_name_is_told(bench):
    other = Node('matcher', context=bench.node.context, start_parameter_services=False)
    try:
        status = matching_status(bench, lambda status: '2 nodes are called' in status.message)
        assert status.level in (DiagnosticStatus.WARN, DiagnosticStatus.ERROR)
        assert '2 nodes are called /matcher' in status.message
        assert 'give each its own namespace or name' in status.message
        assert '2 nodes are called /matcher' in bench.log.read_text()
    finally:
        other.destroy_node()


def test_inactive_it_takes_references_but_hears_no_camera(bench, coffee):
    in_state(bench, 'inactive')
    answer = set_cup(bench, coffee)
    assert answer.success, answer.message
    for reliable in (False, True):
        assert bench.set_parameter('reliable_image', reliable).successful
    assert bench.camera.get_subscription_count() == 0
    current = bench.set_reference(use_current_frame=True)
    assert current.error == SetReference.Response.NO_CAMERA_IMAGE
    assert 'the node is inactive and receives no images: activate it' in current.message


def test_without_a_home_folder_it_takes_no_files_and_says_why(bench):
    in_state(bench, 'inactive')
    for _ in range(2):
        answer = bench.set_reference(path='/etc/hostname')
        assert answer.error == SetReference.Response.BAD_REQUEST
        assert 'takes no files (~nobody-of-this-name in reference_folders' in answer.message
    warnings = [line for line in bench.log.read_text().splitlines() if 'name a folder' in line]
    assert len(warnings) == 1
    assert '~nobody-of-this-name in reference_folders is left out' in warnings[0]


def test_active_it_matches_and_keeps_the_reference_through_a_pause(bench, coffee, scene):
    image = rgb_to_message(scene.view(8.0, 0).image, Header())
    in_state(bench, 'inactive')
    assert set_cup(bench, coffee).success
    in_state(bench, 'active')
    bench.wait_until_connected()
    first = bench.result_of(image)
    assert first.homography.status == Homography.OK
    in_state(bench, 'inactive')
    spin_until(bench.node, lambda: bench.camera.get_subscription_count() == 0, 'its end')
    heard = len(bench.results.messages)
    for _ in range(10):
        bench.publish(image)
        rclpy.spin_once(bench.node, timeout_sec=0.1)
    assert len(bench.results.messages) == heard
    in_state(bench, 'active')
    bench.wait_until_connected()
    again = bench.result_of(image)
    assert again.homography.status == Homography.OK
    assert again.homography.reference_revision == first.homography.reference_revision
    assert again.frames_received <= first.frames_received + 5  # counted anew


def test_a_frame_that_is_being_matched_is_not_published_after_deactivation(bench, coffee, scene):
    # So slow that a frame takes it many seconds.
    in_state(bench, 'unconfigured')
    assert bench.set_parameter('max_keypoints', 4096).successful
    assert bench.set_parameter('keypoint_search', 'networks').successful
    in_state(bench, 'active')
    bench.wait_until_connected()
    assert set_cup(bench, coffee).success
    stamp = bench.publish(rgb_to_message(scene.view(8.0, 0).image, Header()))
    time.sleep(1.0)  # until the worker has it, but is far from done
    in_state(bench, 'inactive')
    for _ in range(20):
        rclpy.spin_once(bench.node, timeout_sec=0.1)
    for inbox in (bench.results, bench.homographies):
        assert stamp not in [message.header.stamp for message in inbox.messages]
    in_state(bench, 'unconfigured')
    assert bench.set_parameter('max_keypoints', 512).successful
    assert bench.set_parameter('keypoint_search', 'both').successful


def test_cleanup_frees_the_references(bench, coffee):
    in_state(bench, 'inactive')
    before = set_cup(bench, coffee)
    assert before.success
    in_state(bench, 'unconfigured')
    assert bench.node.count_publishers('matcher/match') == 0
    in_state(bench, 'inactive')
    assert list(bench.call(ListReferences, 'list_references').references) == []
    # Revisions go on: a number never means two pictures.
    assert set_cup(bench, coffee).revision > before.revision


def test_a_transition_that_is_not_possible_is_refused_and_the_node_lives(bench):
    in_state(bench, 'inactive')
    assert not bench.change_state('configure')
    assert not bench.change_state('no such thing')
    assert bench.state() == 'inactive'
    assert bench.process.poll() is None


def test_a_parameter_of_no_known_type_is_refused_and_the_node_lives(bench):
    in_state(bench, 'inactive')
    strange = Parameter(name='tracking', value=ParameterValue(type=99))
    known = Parameter(name='min_inliers', value=ParameterValue(type=2, integer_value=30))
    both = bench.call(SetParameters, 'set_parameters', parameters=[strange, known]).results
    assert [result.successful for result in both] == [False, True]
    assert '99 is not a valid' in both[0].reason
    none = bench.call(
        SetParametersAtomically, 'set_parameters_atomically', parameters=[known, strange]
    ).result
    assert not none.successful
    assert '99 is not a valid' in none.reason
    assert bench.set_parameter('min_inliers', 20).successful


def test_a_parameter_that_is_not_there_is_told_with_the_one_that_may_be_meant(bench):
    refused = bench.set_parameter('min_inlier', 30)
    assert not refused.successful
    assert refused.reason == (
        "there is no parameter 'min_inlier': maybe min_inliers, see `ros2 param list /matcher`"
    )
    refused = bench.set_parameter('', 30)
    assert not refused.successful
    assert refused.reason == "there is no parameter '': see `ros2 param list /matcher`"
    assert bench.call(ListParameters, 'list_parameters').result.names.count('') == 0


def test_neither_a_client_nor_a_camera_can_forge_the_log(bench):
    in_state(bench, 'active')
    bench.wait_until_connected()
    forged = 'x\n[INFO] FORGED\x1b[2J'
    shown = r'x\n[INFO] FORGED\x1b[2J'
    picture = Image(width=1, height=1, step=3, encoding=forged, data=bytes(3))
    diagnostics = Inbox(bench.node, DiagnosticArray, '/diagnostics')
    answers = [
        bench.set_reference(image=picture).message,
        bench.call(SelectReference, 'select_reference', id=forged).message,
        bench.set_parameter(forged, 1).reason,
        bench.set_parameter('image_transport', forged).reason,
        bench.result_of(picture).status_message,
        bench.set_reference(use_current_frame=True).message,
    ]
    for answer in answers:
        assert shown in answer
        assert answer.isprintable()
    assert not bench.change_state(forged)
    told = diagnostics.wait_for(lambda d: 'FORGED' in d.status[0].message, 'the fault').status[0]
    assert told.message.isprintable()
    assert all(pair.value.isprintable() for pair in told.values)
    diagnostics.close()
    log = bench.log.read_text()
    assert log.count(shown) == 4  # three answers, and the transition
    assert not any(line.startswith('[INFO] FORGED') for line in log.splitlines())


def test_what_needs_other_networks_changes_only_while_unconfigured(bench, coffee):
    in_state(bench, 'inactive')
    refused = bench.set_parameter('max_keypoints', 256)
    assert not refused.successful
    assert refused.reason == (
        'max_keypoints can only change while the node is unconfigured, it is inactive: '
        'ros2 lifecycle set /matcher cleanup first'
    )
    in_state(bench, 'unconfigured')
    assert bench.set_parameter('max_keypoints', 256).successful
    assert not bench.set_parameter('max_keypoints', 3).successful
    try:
        in_state(bench, 'inactive')
        assert set_cup(bench, coffee).keypoints == 256
    finally:
        in_state(bench, 'unconfigured')
        assert bench.set_parameter('max_keypoints', 512).successful


def test_a_configuration_that_cannot_work_fails_with_a_reason_and_can_be_mended(bench):
    in_state(bench, 'unconfigured')
    assert bench.set_parameter('detector', 'onnx').successful
    assert not bench.change_state('configure')
    assert bench.state() == 'unconfigured'
    assert (
        "cannot configure: detector 'onnx' needs a model file: set detector_path"
        in bench.log.read_text()
    )
    assert bench.set_parameter('detector', 'yolov4-tiny').successful
    in_state(bench, 'inactive')


def test_parameters_say_what_they_are(bench):
    names = ['min_inliers', 'extractor', 'image_rotation']
    described = call(
        bench.node,
        DescribeParameters,
        'matcher/describe_parameters',
        DescribeParameters.Request(names=names),
    ).descriptors
    assert described[0].integer_range[0].from_value == 4
    assert described[1].additional_constraints == 'one of: aliked, disk, xfeat, superpoint'
    assert described[2].additional_constraints == 'one of: 0, 90, 180, 270'
    assert not bench.set_parameter('image_rotation', 45).successful
    refused = bench.set_parameter('autostart', True)
    assert 'is only read at startup' in refused.reason
    values = call(
        bench.node, GetParameters, 'matcher/get_parameters', GetParameters.Request(names=names)
    ).values
    assert values[2].integer_value == 0


def test_the_shutdown_transition_frees_everything(bench, tmp_path):
    arguments = ('-r', '__node:=brief', *MANUAL)
    with running('matcher_node', tmp_path / 'log.txt', *arguments) as process:
        brief = Bench(bench.node, process, 'brief')
        assert brief.change_state('configure')
        assert brief.change_state('activate')
        assert brief.change_state('shutdown')
        assert brief.state() == 'finalized'
        brief.close()


@pytest.mark.parametrize('state', ['unconfigured', 'configuring', 'inactive', 'active'])
def test_it_ends_in_time_in_every_state(bench, state, tmp_path):
    log = tmp_path / 'log.txt'
    name = f'{state}_until_stopped'
    with running('matcher_node', log, '-r', f'__node:={name}', *MANUAL) as process:
        stopped = Bench(bench.node, process, name)
        spin_until(bench.node, lambda: services_of(name, bench.node), 'its start')
        assert name in nodes_seen_by_a_newcomer(bench.node)
        if state == 'configuring':
            configure_without_waiting(bench.node, name)
        else:
            in_state(stopped, state)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0, log.read_text()
        assert time.monotonic() - started < 10  # 2 on a machine that has nothing else to do
        stopped.close()
    assert 'Traceback' not in log.read_text()
    # It has left the network: nobody calls a service that is not there any more. A name alone may
    # stay in the list of a node that was busy when it left, see leaving_network.
    spin_until(bench.node, lambda: not services_of(name, bench.node), 'its leaving')
    assert name not in nodes_seen_by_a_newcomer(bench.node)


def services_of(name, node):
    """Return the services of a node that another one sees."""
    services = [service for service, _ in node.get_service_names_and_types()]
    return [service for service in services if service.startswith(f'/{name}/')]


def nodes_seen_by_a_newcomer(node):
    """Return the names of the nodes that one sees that has just joined the network."""
    context = Context()
    context.init()
    newcomer = Node('newcomer', context=context)
    try:
        spin_until(node, lambda: node.get_name() in newcomer.get_node_names(), 'our being seen')
        settled = time.monotonic() + 1
        spin_until(node, lambda: time.monotonic() > settled, 'the finding of others')
        return newcomer.get_node_names()
    finally:
        newcomer.destroy_node()
        context.shutdown()


def configure_without_waiting(node, name):
    """Ask for the configuration and come back while it is under way."""
    events = Inbox(node, TransitionEvent, f'{name}/transition_event')
    client = node.create_client(ChangeState, f'{name}/change_state')
    assert client.wait_for_service(timeout_sec=60)
    spin_until(node, lambda: node.count_publishers(f'{name}/transition_event'), 'the events')
    # That we know of the publisher does not mean yet that it knows of us.
    known_since = time.monotonic()
    spin_until(node, lambda: time.monotonic() > known_since + 2, 'its knowing of us')
    client.call_async(ChangeState.Request(transition=Transition(label='configure')))
    spin_until(
        node,
        lambda: 'configuring' in [event.goal_state.label for event in events.messages],
        'the beginning of the configuration',
    )
    assert 'inactive' not in [event.goal_state.label for event in events.messages]
    node.destroy_client(client)
    events.close()
