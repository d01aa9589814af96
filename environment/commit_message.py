"""Check the form of a commit message; pre-commit calls it with the file that holds the message.

area[, area]: what it does, in at most 72 characters

Why, after an empty line, unless that is plain.
"""

from pathlib import Path
import re
import sys

MAX_TITLE_LENGTH = 72
AREA = r'[\w./-]+( [\w./-]+)?'
WRITTEN_BY_GIT = ('Merge ', 'Revert ', 'fixup! ', 'squash! ', 'amend! ')


def problem_with(message: str) -> str:
    """Return what is wrong with a commit message and how to write it, or '' if it is fine."""
    lines = [line for line in message.splitlines() if not line.startswith('#')]
    title = lines[0] if lines else ''
    if title.startswith(WRITTEN_BY_GIT):
        return ''
    if not re.match(rf'{AREA}(, {AREA})*: \S', title):
        return f"the title '{title}' is not of the form 'area: what', as in 'replay: read db3'"
    if len(title) > MAX_TITLE_LENGTH:
        return f'the title has {len(title)} characters: use at most {MAX_TITLE_LENGTH}'
    if title.endswith('.'):
        return 'the title ends with a full stop: leave it out'
    if len(lines) > 1 and lines[1].strip():
        return 'the second line is not empty: leave an empty line between title and body'
    return ''


def main() -> int:
    """Check the file named on the command line."""
    problem = problem_with(Path(sys.argv[1]).read_text())
    if problem:
        print(f'commit message: {problem}', file=sys.stderr)
    return 1 if problem else 0


if __name__ == '__main__':
    sys.exit(main())
