"""What may be sent, and under which keys: every argument is checked here, before anything goes to the server."""

from __future__ import annotations

import getpass
import json
import os
import re
import secrets
import socket
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

DEFAULT_NAMESPACE: Final = "relet"
ORDERS: Final = ("rank", "lru", "random")
MIN_TTL_S: Final = 0.001
MAX_TTL_S: Final = 366 * 86400.0
LONGEST_WAIT_S: Final = 1e9
"""Waiting for longer than some 30 years is waiting for ever."""
MAX_POOL_CHARACTERS: Final = 128
MAX_RESOURCE_BYTES: Final = 512
MAX_OWNER_BYTES: Final = 256
MAX_ATTRIBUTES_BYTES: Final = 65536
MAX_COUNT: Final = 500
MAX_WAITERS: Final = 250
"""So many of a line does a script look at."""

_NAMESPACE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_TOKEN = re.compile(r"[0-9a-f]{32}")


class Keys:
    """The keys of one pool, as the server sees them (gears/README.md has the table)."""

    __slots__ = ("root", "tracking", "wake")

    def __init__(self, namespace: str, pool: str) -> None:
        self.root = f"{namespace}:pool:{{{pool}}}".encode()
        self.tracking = f"{namespace}:lease:{{{pool}}}:".encode()
        self.wake = f"{namespace}:wake:{{{pool}}}".encode()
        """No key, but the channel on which all who wait are told; those of single processes begin with it."""


def new_token() -> str:
    """128 random bits in hexadecimal: the name of a request, and the proof of owning what it is granted."""
    return secrets.token_hex(16)


def new_token_for(count: int) -> str:
    """A token for a request of several: the last four digits number its leases, from 0001 on."""
    return new_token() if count == 1 else f"{secrets.token_hex(14)}0001"


def token_of(token: str, number: int) -> str:
    """The token of the ``number``-th lease (from 1) of a request."""
    return token if number == 1 else f"{token[:28]}{number:04x}"


def check_namespace(namespace: object) -> str:
    if not isinstance(namespace, str):
        raise TypeError(f"a namespace is text, not {_shown(namespace)}")
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError(f"a namespace has 1 to 64 letters, digits, '.', '_', ':' or '-', not {_shown(namespace)}")
    return namespace


def check_pool(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a pool's name is text, not {_shown(name)}")
    _encode("a pool's name", name)
    if not 1 <= len(name) <= MAX_POOL_CHARACTERS:
        raise ValueError(f"a pool's name has 1 to {MAX_POOL_CHARACTERS} characters, not {len(name)}: {_shown(name)}")
    for character in name:
        if character in "{}:" or character.isspace() or _is_control(character):
            raise ValueError(
                f"a pool's name has no braces, colon, white space or control characters; "
                f"{_shown(name)} has {character!a}"
            )
    return name


def check_resource(name: object) -> bytes:
    if not isinstance(name, str):
        hint = "; decode it first" if isinstance(name, (bytes, bytearray)) else ""
        raise TypeError(f"a resource's name is text, not {_shown(name)}{hint}")
    encoded = _encode("a resource's name", name)
    if not 1 <= len(encoded) <= MAX_RESOURCE_BYTES:
        raise ValueError(
            f"a resource's name has 1 to {MAX_RESOURCE_BYTES} bytes in UTF-8, not {len(encoded)}: {_shown(name)}"
        )
    _refuse_controls("a resource's name", name)
    return encoded


def check_owner(owner: object) -> bytes:
    if not isinstance(owner, str):
        raise TypeError(f"an owner is text, not {_shown(owner)}")
    encoded = _encode("an owner", owner)
    if len(encoded) > MAX_OWNER_BYTES:
        raise ValueError(f"an owner has at most {MAX_OWNER_BYTES} bytes in UTF-8, not {len(encoded)}: {_shown(owner)}")
    _refuse_controls("an owner", owner)
    return encoded


def check_after(after: object) -> str:
    """Where to begin in a log: an entry's id, or a time, as the server has it."""
    if isinstance(after, str):
        if not re.fullmatch(r"\d{1,19}(-\d{1,19})?", after):
            raise ValueError(f"an event's id looks like 1700000000000-0, not {_shown(after)}")
        return after
    if isinstance(after, bool) or not isinstance(after, (int, float)):
        raise TypeError(f"after is an event's id, or seconds since 1970, not {_shown(after)}")
    if not 0 <= after < 1e13:
        raise ValueError(f"after is in seconds since 1970, not {_shown(after)}")
    return str(int(after * 1000))


def check_reason(reason: object) -> bytes:
    if not isinstance(reason, str):
        raise TypeError(f"a reason is text, not {_shown(reason)}")
    encoded = _encode("a reason", reason)
    if len(encoded) > MAX_OWNER_BYTES:
        raise ValueError(f"a reason has at most {MAX_OWNER_BYTES} bytes in UTF-8, not {len(encoded)}: {_shown(reason)}")
    _refuse_controls("a reason", reason)
    return encoded


def check_destination(way: str, destination: object) -> str:
    """Where a resource goes that comes back in a way; "" for None: as it was."""
    if destination is None:
        return ""
    if destination not in ("free", "quarantine"):
        raise ValueError(f'{way} is "free" or "quarantine", not {_shown(destination)}')
    return str(destination)


def check_attributes(resource: str, attributes: object) -> bytes:
    if not isinstance(attributes, Mapping):
        raise TypeError(f"the attributes of {_shown(resource)} are a mapping, not {_shown(attributes)}")
    for key in attributes:
        if not isinstance(key, str):
            raise TypeError(f"the attributes of {_shown(resource)} have text as keys, not {_shown(key)}")
    try:
        text = json.dumps(dict(attributes), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the attributes of {_shown(resource)} are no JSON object: {error}") from None
    encoded = _encode(f"the attributes of {_shown(resource)}", text)
    if len(encoded) > MAX_ATTRIBUTES_BYTES:
        raise ValueError(
            f"the attributes of {_shown(resource)} have {len(encoded)} bytes as JSON; at most {MAX_ATTRIBUTES_BYTES} go"
        )
    return encoded


def check_ttl(ttl: object) -> int:
    """A time to live in seconds, as whole milliseconds (rounded)."""
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        raise TypeError(f"a ttl is a number of seconds, not {_shown(ttl)}")
    if not MIN_TTL_S <= ttl <= MAX_TTL_S:
        raise ValueError(f"a ttl is {MIN_TTL_S} s to {MAX_TTL_S:.0f} s (366 days), not {_shown(ttl)}")
    return round(ttl * 1000)


def check_timeout(timeout: object) -> float | None:
    """A time to wait in seconds: 0 not at all, None for ever."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"a timeout is a number of seconds or None (for ever), not {_shown(timeout)}")
    if not timeout >= 0:
        raise ValueError(f"a timeout is 0 s or more, or None (for ever), not {_shown(timeout)}")
    return None if timeout > LONGEST_WAIT_S else float(timeout)


def check_count(count: object) -> int:
    """How many resources at once."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"the number of resources is a whole number, not {_shown(count)}")
    if not 1 <= count <= MAX_COUNT:
        raise ValueError(f"1 to {MAX_COUNT} resources can be acquired at once, not {count}")
    return count


def check_limit(limit: object) -> int:
    """How many of a line to list."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"a limit is a whole number, not {_shown(limit)}")
    if not 1 <= limit <= MAX_WAITERS:
        raise ValueError(f"the first 1 to {MAX_WAITERS} in line can be listed, not {limit}")
    return limit


def check_replicas(count: object) -> int:
    """How many replicas have to confirm a lease."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"min_replicas is a whole number, not {_shown(count)}")
    if count < 0:
        raise ValueError(f"min_replicas is 0 or more, not {count}")
    return count


def check_order(order: object) -> str:
    if order not in ORDERS:
        raise ValueError(f"an order is one of {', '.join(ORDERS)}, not {_shown(order)}")
    return str(order)


def check_token(token: object) -> bytes:
    if not isinstance(token, str):
        raise TypeError(f"a token is text, not {_shown(token)}")
    if not _TOKEN.fullmatch(token):
        raise ValueError(f"a token has 32 hexadecimal digits (as lease.token shows it), not {_shown(token)}")
    return token.encode()


def decode_attributes(encoded: bytes) -> dict[str, Any]:
    """What :func:`check_attributes` made; empty for anything else, which some other program must have stored."""
    try:
        decoded = json.loads(encoded) if encoded else {}
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def default_owner() -> bytes:
    """``user@host:pid``, so that people can find who holds a resource."""
    return _owner_of(os.getpid())


def owner_of(pid: int) -> str:
    """``user@host:pid`` for another process than this one."""
    return _owner_of(pid).decode()


@cache
def _owner_of(pid: int) -> bytes:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = "?"
    text = "".join(c for c in f"{user}@{socket.gethostname()}" if not _is_control(c))
    short = text.encode("utf-8", "replace")[: MAX_OWNER_BYTES - 16].decode("utf-8", "ignore")
    return f"{short}:{pid}".encode()


def _encode(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: text that UTF-8 can carry is wanted; {_shown(text)} has a lone surrogate") from None


def _refuse_controls(what: str, text: str) -> None:
    if text.isascii() and text.isprintable():
        return
    for character in text:
        if _is_control(character):
            raise ValueError(f"{what} has no control characters; {_shown(text)} has {character!a}")


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc"


def _shown(value: object) -> str:
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
