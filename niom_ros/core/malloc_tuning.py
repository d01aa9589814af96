"""Memory that a network frees is kept for its next image."""

import ctypes

# Of mallopt, as <malloc.h> numbers them.
TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8
MOST_KEPT = 2**30  # bytes at the end of the heap


def keep_freed_memory() -> None:
    """Let the C library keep memory that was freed instead of giving it back each time.

    Else each image costs tens of thousands of page faults, a fifth of the time of the extractor,
    and more in a thread than in the main one. One heap for all threads, so that it is kept once.
    To be called before there are any; without glibc it does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(ARENA_MAX, 1)
    mallopt(MMAP_MAX, 0)
    mallopt(TRIM_THRESHOLD, MOST_KEPT)
