"""The library of references, through the services of a real matcher process."""

import os

import cv2
from matcher_bench import Bench, FAST
from niom_ros.msg import Homography
from niom_ros.srv import ListReferences, RemoveReference, SelectReference, SetReference
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_client import call, ros_network, running, spin_until
from sensor_msgs.msg import Image
from std_msgs.msg import Header
import yaml

from niom_ros.images.camera_images import message_to_rgb
from niom_ros.nodes.ros_messages import rgb_to_message
from niom_ros.simulation.virtual_scene import example_photo


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Return a folder with a reference that a person laid there, and a broken one."""
    folder = tmp_path_factory.mktemp('references')
    cv2.imwrite(str(folder / 'cat.png'), example_photo('chelsea')[..., ::-1])
    (folder / 'broken.yaml').write_text('image: nowhere.png')
    return folder


def keeping(folder):
    return ('-p', f'reference_folder:={folder}', '-p', 'keep_references:=true', *FAST)


@pytest.fixture(scope='module')
def bench(tmp_path_factory, folder):
    with ros_network() as node:
        log = tmp_path_factory.mktemp('matcher') / 'log.txt'
        with running('matcher_node', log, *keeping(folder)) as process:
            bench = Bench(node, process)
            bench.log = log
            bench.wait_until_connected()
            yield bench


def listed(bench):
    answer = bench.call(ListReferences, 'list_references')
    assert answer.success
    return answer


@pytest.fixture
def two(bench, coffee):
    """Set two references beside the one in the folder; the cup is selected."""
    rocket = rgb_to_message(example_photo('rocket'), Header())
    answer = bench.set_reference(id='rocket', image=rocket)
    assert answer.success, answer.message
    answer = bench.set_reference(
        id='cup',
        label='espresso cup',
        image=rgb_to_message(coffee, Header()),
        landmark_names=['handle', 'spoon'],
        landmark_x=[480.0, 200.0],
        landmark_y=[180.0, 330.0],
        physical_width=0.25,
    )
    assert answer.success, answer.message
    return answer


def test_a_folder_is_loaded_and_what_is_broken_is_told(bench, folder):
    # The first test of the module: nothing else was set yet.
    answer = listed(bench)
    assert [info.id for info in answer.references] == ['cat']
    assert answer.selected_id == 'cat'  # the only one there is
    assert answer.references[0].file == str(folder / 'cat.png')
    text = bench.log.read_text()
    assert 'broken.yaml' not in [info.id for info in answer.references]
    assert 'a reference was left out' in text
    assert 'nowhere.png' in text


def test_references_are_listed_with_all_that_is_known(bench, two):
    answer = listed(bench)
    assert [info.id for info in answer.references] == ['cat', 'cup', 'rocket']
    assert answer.selected_id == 'cup'
    assert answer.message == '3 references'
    assert not answer.match_all
    cup = answer.references[1]
    assert cup.selected and not answer.references[0].selected
    assert (cup.label, cup.width, cup.height) == ('espresso cup', 600, 400)
    assert (cup.keypoints, cup.matchability) == (512, 1)
    assert cup.kind == cup.PHOTO
    assert list(cup.landmark_names) == ['handle', 'spoon']
    assert cup.physical_width == 0.25
    assert cup.revision == two.revision
    assert cup.weights_from == two.weights_from


def test_another_reference_is_selected_and_found(bench, two, scene):
    image = rgb_to_message(scene.view(8.0, 0).image, Header())
    assert bench.result_of(image).homography.status == Homography.OK
    answer = bench.call(SelectReference, 'select_reference', id='cat')
    assert answer.success, answer.message
    assert answer.message == "looking for 'cat'"
    other = bench.result_of(image)
    assert other.homography.reference_id == 'cat'
    assert other.homography.reference_revision == answer.revision
    assert other.homography.status != Homography.OK
    assert bench.call(SelectReference, 'select_reference', id='cup').success
    assert bench.result_of(image).homography.status == Homography.OK


def test_an_unknown_reference_is_refused_and_the_present_one_stays(bench, two):
    for service_type, service in (
        (SelectReference, 'select_reference'),
        (RemoveReference, 'remove_reference'),
    ):
        answer = bench.call(service_type, service, id='dog')
        assert not answer.success
        assert answer.error == service_type.Response.UNKNOWN_ID
        assert "no reference 'dog'; known: 'cat', 'cup', 'rocket'" in answer.message
        assert "still looking for 'cup'" in answer.message
    assert listed(bench).selected_id == 'cup'


def test_all_references_are_tried_and_the_best_is_reported(bench, two, scene):
    image = rgb_to_message(scene.view(8.0, 0).image, Header())
    assert bench.call(SelectReference, 'select_reference', id='cat').success
    assert bench.set_parameter('match_all', True).successful
    try:
        result = bench.result_of(image)
        assert listed(bench).match_all
    finally:
        assert bench.set_parameter('match_all', False).successful
    assert result.homography.status == Homography.OK, result.status_message
    assert result.homography.reference_id == 'cup'
    assert list(result.tried_reference_ids) == ['cat', 'cup', 'rocket']
    confidences = dict(zip(result.tried_reference_ids, result.tried_confidences, strict=True))
    assert confidences['cup'] == max(confidences.values()) > 0.5
    assert confidences['cat'] < 0.5 > confidences['rocket']


def test_a_reference_may_be_kept_for_later(bench, two):
    image = rgb_to_message(example_photo('astronaut'), Header())
    answer = bench.set_reference(id='later', image=image, keep_selection=True)
    assert answer.success
    assert "'later' is kept for later" in answer.message
    assert listed(bench).selected_id == 'cup'
    assert bench.call(RemoveReference, 'remove_reference', id='later').success
    # If it takes the place of the one that is looked for, it is looked for.
    answer = bench.set_reference(id='cup', image=image, keep_selection=True)
    assert answer.message.startswith("looking for 'cup'")
    assert newest_picture(bench).width == image.width


def test_a_removed_reference_is_gone_and_the_frames_say_so(bench, two, scene):
    image = rgb_to_message(scene.view(8.0, 0).image, Header())
    answer = bench.call(RemoveReference, 'remove_reference', id='cup')
    assert answer.success
    assert "'cup' is removed; none is selected of 'cat', 'rocket'" in answer.message
    result = bench.result_of(image)
    assert result.homography.status == Homography.NO_REFERENCE
    assert "none is selected of 'cat', 'rocket'" in result.status_message
    assert result.homography.reference_id == ''


def newest_picture(bench):
    """Return the reference image that a late joiner gets."""
    pictures = []
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    subscription = bench.node.create_subscription(
        Image, 'matcher/reference_image', pictures.append, latched
    )
    spin_until(bench.node, lambda: pictures, 'the reference image')
    bench.node.destroy_subscription(subscription)
    return pictures[-1]


def test_late_joiners_get_the_reference_image(bench, two, coffee):
    picture = newest_picture(bench)
    assert (message_to_rgb(picture) == coffee).all()
    assert picture.header.frame_id == 'cup'
    assert bench.call(SelectReference, 'select_reference', id='cat').success
    assert (message_to_rgb(newest_picture(bench)) == example_photo('chelsea')).all()
    assert bench.call(SelectReference, 'select_reference', id='cup').success
    assert bench.call(RemoveReference, 'remove_reference', id='cup').success
    empty = newest_picture(bench)
    assert (empty.width, empty.header.frame_id) == (0, '')
    # A node that is configured again says so as well to those who saw an earlier one.
    for transition in ('deactivate', 'cleanup', 'configure', 'activate'):
        assert bench.change_state(transition)
    assert newest_picture(bench).width == 0


def test_the_list_is_answered_also_when_the_disk_is_not(bench, two, folder):
    elsewhere = folder.with_name('elsewhere')
    folder.rename(elsewhere)
    try:
        assert [info.id for info in listed(bench).references] == ['cat', 'cup', 'rocket']
    finally:
        elsewhere.rename(folder)


def test_two_matchers_do_not_keep_their_references_in_one_folder(bench, folder, tmp_path):
    log = tmp_path / 'log.txt'
    with running('matcher_node', log, '-r', '__node:=second', *keeping(folder)) as process:
        assert process.wait(timeout=60) == os.EX_CONFIG
    assert 'give each its own folder' in log.read_text()


def test_references_are_kept_on_disk_and_known_after_a_restart(bench, two, folder, tmp_path):
    described = yaml.safe_load((folder / 'cup.yaml').read_text())
    assert described['landmarks'] == {'handle': [480.0, 180.0], 'spoon': [200.0, 330.0]}
    assert described['physical_width'] == 0.25
    assert (folder / described['image']).is_file()
    (cup,) = (info for info in listed(bench).references if info.id == 'cup')
    assert cup.file == str(folder / 'cup.yaml')
    # Another one reads the folder while this one writes it; without keeping anything there.
    arguments = ('-r', '__node:=second', '-p', f'reference_folder:={folder}', *FAST)
    with running('matcher_node', tmp_path / 'log.txt', *arguments) as process:
        second = Bench(bench.node, process, 'second')
        spin_until(bench.node, lambda: second.state() == 'active', 'the second matcher')
        answer = listed(second)
        assert [info.id for info in answer.references] == ['cat', 'cup', 'rocket']
        assert answer.selected_id == 'cup'
        again = next(info for info in answer.references if info.id == 'cup')
        assert again.label == 'espresso cup'
        assert list(again.landmark_names) == ['handle', 'spoon']
        assert (again.keypoints, again.file) == (cup.keypoints, cup.file)
        second.close()


def test_odd_files_in_the_folder_do_not_keep_the_others_from_being_known(bench, coffee, tmp_path):
    folder = tmp_path / 'odd'
    folder.mkdir()
    cv2.imwrite(str(folder / 'cup.png'), coffee[:, :, ::-1])
    for name, text in (
        (b'\xff.yaml', 'id: cup\nimage: cup.png'),  # which is no UTF-8
        (b'\xfe.yaml', 'image: cup.png'),
        (b'\xfd.yaml', 'not a description'),
        (b'half.yaml', '"\\ud800": half a character'),
    ):
        (folder / os.fsdecode(name)).write_text(text)
    log = tmp_path / 'log.txt'
    arguments = ('-r', '__node:=odd', '-p', f'reference_folder:={folder}', *FAST)
    with running('matcher_node', log, *arguments) as process:
        odd = Bench(bench.node, process, 'odd')
        spin_until(bench.node, lambda: odd.state() == 'active', 'the matcher')
        (cup,) = listed(odd).references
        assert cup.id == 'cup'
        assert cup.file.endswith('\\udcff.yaml')
        odd.close()
    assert log.read_text().count('a reference was left out') == 3


def test_a_folder_that_vanished_refuses_and_changes_nothing(bench, two, folder):
    elsewhere = folder.with_name('elsewhere')

    def block():
        folder.rename(elsewhere)
        folder.write_text('a file where the folder was')

    def restore():
        folder.unlink()
        elsewhere.rename(folder)

    before = listed(bench)
    block()
    try:
        picture = rgb_to_message(example_photo('astronaut'), Header())
        answer = bench.set_reference(id='new', image=picture)
        removed = bench.call(RemoveReference, 'remove_reference', id='cup')
        selected = bench.call(SelectReference, 'select_reference', id='cat')
    finally:
        restore()
    assert not answer.success and not removed.success and not selected.success
    assert answer.error == SetReference.Response.STORAGE
    assert removed.error == RemoveReference.Response.STORAGE
    assert selected.error == SelectReference.Response.STORAGE
    assert str(folder) in answer.message
    assert 'set keep_references to false' in answer.message
    assert listed(bench) == before


def test_the_list_is_answered_while_a_reference_is_being_prepared(bench, two):
    # A large picture takes a second or more to prepare.
    large = cv2.resize(example_photo('astronaut'), (4000, 4000))
    client = bench.node.create_client(SetReference, 'matcher/set_reference')
    request = SetReference.Request(id='large', image=rgb_to_message(large, Header()))
    future = client.call_async(request)
    answered_meanwhile = 0
    while not future.done():
        call(bench.node, ListReferences, 'matcher/list_references', ListReferences.Request())
        answered_meanwhile += not future.done()
    assert future.result().success, future.result().message
    assert answered_meanwhile > 0
    bench.node.destroy_client(client)
    assert bench.call(RemoveReference, 'remove_reference', id='large').success
