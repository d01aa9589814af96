"""Let malloc reuse the memory that a network frees for its next image."""

import ctypes

# Options of mallopt, as numbered in <malloc.h>.
TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8
MAX_KEPT = 2**30  # bytes at the end of the heap


def reuse_freed_memory() -> None:
    """Let the C library keep freed memory instead of returning it to the system each time.

    Otherwise each image costs tens of thousands of page faults, a fifth of the extractor's time,
    and more in other threads than in the main one. All threads share one heap, so that the memory
    is kept only once. Call it before any thread is started; without glibc it does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(ARENA_MAX, 1)
    mallopt(MMAP_MAX, 0)
    mallopt(TRIM_THRESHOLD, MAX_KEPT)
