"""The short form of the soak; `make soak` runs the long one."""

import pytest
from soak import problems
from soak import run_soak
from soak import table

MINUTES = 2.0


@pytest.mark.timeout(600)  # it waits for others, and is two minutes long by itself
def test_two_minutes_of_load_leave_the_node_as_it_was(tmp_path):
    found = run_soak(60 * MINUTES, tmp_path)
    print(table(found))  # which pytest shows if it fails
    assert problems(found) == []
