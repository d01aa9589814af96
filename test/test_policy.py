"""The policy for SROS 2 that is shipped allows what the real node needs, and nothing else."""

import os
import subprocess
import sys
from xml.etree import ElementTree

from matcher_bench import Bench, FAST
import pytest
from ros_client import ros_network, running, spin_until

from niom_ros.nodes.policy import Interfaces, interfaces_of, policy_of, TF_TOPICS

# In the order in which they were switched on, so that each is seen before it is asked for.
SWITCHES = (
    ('image_transport', 'compressed', '/image/compressed'),
    ('use_sim_time', True, '/clock'),
)


@pytest.fixture(scope='module')
def used(tmp_path_factory):
    """Run the matcher, switch on all that it can listen to, and return all that it used."""
    log = tmp_path_factory.mktemp('matcher') / 'log.txt'
    with ros_network() as node, running('matcher_node', log, *FAST) as process:
        bench = Bench(node, process)
        seen = [Interfaces()]

        def hears(topic):
            seen.append(seen[-1] | interfaces_of(node, 'matcher', '/'))
            return topic in seen[-1].subscribed

        spin_until(node, lambda: ('matcher', '/') in node.get_node_names_and_namespaces(), 'it')
        spin_until(node, lambda: hears('/image'), 'the subscription of the camera')
        bench.wait_until_connected()
        for name, value, topic in SWITCHES:
            assert bench.set_parameter(name, value).successful
            spin_until(node, lambda topic=topic: hears(topic), topic)
        printed = subprocess.run(
            [sys.executable, '-m', 'niom_ros.nodes.policy', '/matcher'],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        yield seen[-1], printed
        bench.close()


def test_the_shipped_policy_is_what_the_node_needs(used, clone):
    needed = policy_of(used[0] | Interfaces(published=TF_TOPICS), 'matcher', '/')
    shipped = (clone / 'security/matcher_policy.xml').read_text()
    assert shipped == needed, f'security/matcher_policy.xml should be:\n{needed}'


def test_the_policy_is_printed_for_a_running_node(used):
    enclave = ElementTree.fromstring(used[1]).find('enclaves/enclave')
    assert enclave.get('path') == '/matcher'
    profile = enclave.find('profiles/profile')
    assert profile.attrib == {'ns': '/', 'node': 'matcher'}
    listed = [each.text for each in profile.findall("topics[@subscribe='ALLOW']/topic")]
    assert listed == ['/camera_info', '/clock', '/image/compressed']  # as it is set now
    assert '/tf' in [each.text for each in profile.findall("topics[@publish='ALLOW']/topic")]
    replies = [each.text for each in profile.findall("services[@reply='ALLOW']/service")]
    assert '/matcher/set_reference' in replies and '/matcher/change_state' in replies


def test_a_policy_names_the_namespace():
    policy = policy_of(Interfaces(called=frozenset({'/x', '/a'})), 'matcher', '/left')
    enclave = ElementTree.fromstring(policy).find('enclaves/enclave')
    assert enclave.get('path') == '/left/matcher'
    requests = enclave.findall("profiles/profile[@ns='/left']/services[@request='ALLOW']/service")
    assert [each.text for each in requests] == ['/a', '/x']


def test_security_that_cannot_be_had_is_told(tmp_path, monkeypatch):
    """Here DDS itself lacks it; where it has it, the keys are missing."""
    (tmp_path / 'keys/enclaves/matcher').mkdir(parents=True)
    monkeypatch.setenv('ROS_SECURITY_ENABLE', 'true')
    monkeypatch.setenv('ROS_SECURITY_STRATEGY', 'Enforce')
    monkeypatch.setenv('ROS_SECURITY_KEYSTORE', str(tmp_path / 'keys'))
    log = tmp_path / 'log.txt'
    with running('matcher_node', log, '--enclave', '/matcher') as process:
        assert process.wait(timeout=60) == os.EX_CONFIG
    text = log.read_text()
    assert 'cannot start: ' in text and 'ecurity' in text
    assert 'Traceback' not in text


def test_it_is_installed(clone):
    assert (
        'install(DIRECTORY config launch rviz security' in (clone / 'CMakeLists.txt').read_text()
    )
