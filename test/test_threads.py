"""One number of threads for all that computes."""

import cv2
import torch

from niom_ros.core.threads import use_threads


def test_networks_and_opencv_use_the_same_number_of_threads() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads()
    try:
        for count in (1, 2):
            use_threads(count)
            assert (torch.get_num_threads(), cv2.getNumThreads()) == (count, count)
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])
