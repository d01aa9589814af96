"""What went wrong, in words that say what to do about it."""

# Each library has its own exception for it, and some only a text.
OUT_OF_MEMORY = ('out of memory', "can't allocate memory", 'insufficient memory', 'bad_alloc')
REMEDY = 'free memory, or lower max_image_side or max_keypoints'


def explained(error: BaseException) -> str:
    """Return an unexpected error as a user reads it, with a remedy if memory ran out."""
    text = printable(repr(error))
    lower = text.lower()
    if isinstance(error, MemoryError) or any(words in lower for words in OUT_OF_MEMORY):
        return f'out of memory: {REMEDY} ({text})'
    return text


def printable(text: str) -> str:
    """Return a text that messages and logs can carry: names of files may be no valid text."""
    return text.encode(errors='backslashreplace').decode()
