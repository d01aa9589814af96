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


def reason(error: BaseException) -> str:
    """Return the message of an error in one line, or else its type."""
    text = getattr(error, 'strerror', None) or str(error) or type(error).__name__
    return ' '.join(text.split())


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an error, shortened, or else its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def printable(text: str) -> str:
    """Return a text in one line, escaping what could forge a log entry or control a terminal.

    Clients and cameras can send line breaks and terminal codes; a file name can be any bytes.
    """
    if text.isprintable():
        return text
    return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode() for c in text)


def printable_lines(text: str) -> str:
    """Escape several lines, and indent them so that none looks like a log entry of its own."""
    first, *others = map(printable, text.split('\n'))
    indented = (line if line.startswith(' ') else f'  {line}' for line in others)
    return '\n'.join([first, *indented]).rstrip()
