"""What went wrong, as one line on standard error and an exit code."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import click
import redis

from relet.cli.connection import masked, scrubbed
from relet.cli.output import shown
from relet.errors import LeaseLost, PoolExhausted, ReletError

ERROR = 1
USAGE = 2
EXHAUSTED = 75
LOST = 76
INTERRUPTED = 130
BROKEN_PIPE = 141

_ADVICE = (
    "No server was named, so that was tried. Name one with --url or RELET_URL, or use one of your own: "
    "relet --url local: … (pip install 'relet[embedded]')"
)

CODES: dict[type[BaseException], int] = {
    PoolExhausted: EXHAUSTED,  # a ReletError and an OSError, too: the order of these lines matters
    LeaseLost: LOST,
    ReletError: ERROR,
    redis.RedisError: ERROR,
    json.JSONDecodeError: ERROR,
    UnicodeError: ERROR,
    ValueError: USAGE,
    TypeError: USAGE,
    OSError: ERROR,
}
"""What each kind of error exits with: the first that fits."""


def report(error: BaseException, url: str, is_named: bool = True) -> int:
    """Print what is to be said about the error, and answer the exit code. ``url`` is the server's."""
    code, text = explain(error, url)
    if not is_named and isinstance(error, redis.ConnectionError):
        text = f"{text}. {_ADVICE}"
    if text is not None:
        complain(text, url)
    return code


def complain(text: str, url: str) -> None:
    """One line on standard error, with nothing in it that a terminal would obey or nobody may read."""
    line = " ".join(scrubbed(text, url).split())
    print(f"relet: {shown(line)}", file=sys.stderr)


def explain(error: BaseException, url: str) -> tuple[int, str | None]:
    """The exit code, and what to say: None for nothing."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED, None
    if isinstance(error, BrokenPipeError):  # whoever read our output has seen enough
        return BROKEN_PIPE, None
    if isinstance(error, click.ClickException):
        return error.exit_code, _of_click(error)
    code = next((code for kind, code in CODES.items() if isinstance(error, kind)), None)
    if code is None:
        return ERROR, f"unexpected {type(error).__name__}: {error} ({_place(error)})"
    return code, _of_redis(error, masked(url)) if isinstance(error, redis.RedisError) else _of_relet(error)


def _of_click(error: click.ClickException) -> str:
    text = error.format_message()
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
    return f"{text.rstrip('.')}; see {command} --help" if command else text


def _of_relet(error: BaseException) -> str:
    if isinstance(error, (json.JSONDecodeError, UnicodeError)):
        return f"the server holds something that relet did not write: {error}"
    if isinstance(error, OSError) and not isinstance(error, ReletError):
        return f"cannot write the output: {error.strerror or error}"
    return str(error)


def _of_redis(error: redis.RedisError, server: str) -> str:
    text = str(error).rstrip(".") or type(error).__name__
    if "HELLO must be called" in text or "Authentication required" in text:
        return f"{server} wants a password: put it into the URL (--url or RELET_URL), as redis://:PASSWORD@HOST"
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError)):
        return f"{server} refused the login: {text}. User and password go into the URL (--url or RELET_URL)"
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
        return f"cannot reach {server}: {text}"
    return f"{server} answered: {text}"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "place unknown"
