"""How many cores this process may use."""


def use_threads(count: int) -> None:
    """Let the networks and OpenCV use this many threads each; they take turns."""
    import cv2
    import torch  # takes seconds, and most of this floor does without

    torch.set_num_threads(count)
    cv2.setNumThreads(count)
