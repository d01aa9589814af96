"""The root of all errors that users are meant to read."""


class UserError(Exception):
    """Something a user can fix; the message says what is wrong and what to do."""
