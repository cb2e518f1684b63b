"""What can go wrong with a test server.

Unavailable    this machine cannot have the server: a reason to skip
ServerFailed   the server is here but did not start, or did not do as told: a reason to fail
"""


class Unavailable(Exception):
    """The server cannot be had here; the text says why, in words for a skip message."""


class ServerFailed(RuntimeError):
    """The server ended or stayed silent when it should have been ready; the text ends with the tail of its log."""
