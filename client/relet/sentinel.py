"""sentinel:// URLs: the master that Redis Sentinel names, whichever server that is at the time.

::

    sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/MASTER[/DB][?OPTION=VALUE&…]

USER and PASSWORD are the master's. The options are redis-py's for a URL (``username``, ``password``,
``socket_timeout``, …) and for TLS ``ssl=true`` with ``ssl_ca_certs`` and the like; one that begins with ``sentinel_``
is for the connections to the sentinels themselves: ``sentinel_password``, ``sentinel_ssl``. Special characters are
percent-encoded.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import redis.asyncio.sentinel
import redis.connection
import redis.sentinel

from relet.line import CONNECT_S

SCHEME = "sentinel://"
PORT = 26379
_PREFIX = "sentinel_"
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?")
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


class Address(NamedTuple):
    """What a sentinel:// URL says."""

    sentinels: list[tuple[str, int]]
    master: str
    options: dict[str, Any]
    """For the connections to the master."""
    sentinel_options: dict[str, Any]


def parse(url: str, options: dict[str, Any]) -> Address:
    """Takes a sentinel:// URL apart; ``options`` win over what it says.

    Raises:
        ValueError: it is none. The text has nothing of the URL in it, which may hold a password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _wrong("its hosts have unbalanced brackets") from None
    login, _, hosts = parts.netloc.rpartition("@")
    found = [_HOST.fullmatch(host) for host in hosts.split(",")]
    sentinels = [(one["six"] or one["host"], int(one["port"] or PORT)) for one in found if one]
    if len(sentinels) < len(found) or any(not 0 < port < 65536 for _, port in sentinels):
        raise _wrong("its hosts are none")
    master, *database = parts.path.removeprefix("/").split("/")
    if not master:
        raise _wrong("it does not name the master")
    if len(database) > 1 or not re.fullmatch(r"\d*", "".join(database)):
        raise _wrong("its database is no number")
    said = _query(parts.query)
    said.setdefault("db", int("".join(database) or 0))
    user, _, password = login.partition(":")
    said |= {key: unquote(value) for key, value in (("username", user), ("password", password)) if value}
    said |= options
    ours = {key: value for key, value in said.items() if not key.startswith(_PREFIX)}
    theirs = {key.removeprefix(_PREFIX): value for key, value in said.items() if key.startswith(_PREFIX)}
    # A sentinel that does not answer must not keep us from asking the next.
    theirs = {"socket_timeout": CONNECT_S, "socket_connect_timeout": CONNECT_S, **theirs}
    return Address(sentinels, unquote(master), ours, theirs)


def master(url: str, options: dict[str, Any]) -> redis.Redis:
    """A client of the master, for threads. Raises redis-py's ConnectionError if no sentinel knows one now."""
    address = parse(url, options)
    sentinel = _Sentinel(address.sentinels, sentinel_kwargs=address.sentinel_options)
    try:
        sentinel.discover_master(address.master)
    except BaseException:
        for one in sentinel.sentinels:
            one.close()
        raise
    client: redis.Redis = sentinel.master_for(address.master, **address.options)
    return client


async def master_async(url: str, options: dict[str, Any]) -> Any:
    """Like :func:`master`, for asyncio."""
    address = parse(url, options)
    sentinel = _AsyncSentinel(address.sentinels, sentinel_kwargs=address.sentinel_options)
    try:
        await sentinel.discover_master(address.master)
    except BaseException:
        for client in sentinel.sentinels:
            await (client.aclose if hasattr(client, "aclose") else client.close)()
        raise
    return sentinel.master_for(address.master, **address.options)


def sentinels_of(client: Any) -> list[Any]:
    """The clients by which a client that was made here asks for its master; they are closed along with it."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return list(manager.sentinels) if isinstance(manager, (_Sentinel, _AsyncSentinel)) else []


# While it asks, redis-py puts the sentinel that answered first in its list; of several callers at once, one may so put
# another's place on top of it, and that sentinel is gone from the list. So each asks with a list of its own.
class _Sentinel(redis.sentinel.Sentinel):
    def discover_master(self, service_name: str) -> Any:
        mine = copy.copy(self)
        mine.sentinels = list(self.sentinels)
        ask: Callable[[str], Any] = super(_Sentinel, mine).discover_master
        try:
            found = ask(service_name)
            self.sentinels = mine.sentinels
            return found
        except redis.sentinel.MasterNotFoundError:  # its text may hold the sentinels' password
            raise redis.sentinel.MasterNotFoundError(_none_knows(self.sentinels, service_name)) from None


class _AsyncSentinel(redis.asyncio.sentinel.Sentinel):
    async def discover_master(self, service_name: str) -> Any:
        mine = copy.copy(self)
        mine.sentinels = list(self.sentinels)
        try:
            found = await super(_AsyncSentinel, mine).discover_master(service_name)
            self.sentinels = mine.sentinels
            return found
        except redis.asyncio.sentinel.MasterNotFoundError:
            text = _none_knows(self.sentinels, service_name)
            raise redis.asyncio.sentinel.MasterNotFoundError(text) from None


def _none_knows(sentinels: list[Any], name: str) -> str:
    kwargs = [client.connection_pool.connection_kwargs for client in sentinels]
    asked = ", ".join(f"{each.get('host')}:{each.get('port')}" for each in kwargs)
    return f"no sentinel of {asked} knows a master {name!r} that is up: check the name, the password, and the sentinels"


def _query(text: str) -> dict[str, Any]:
    """The options of a URL, as redis-py reads them; those for the sentinels by the same rules."""
    pairs = [pair for pair in text.split("&") if pair]
    theirs = [pair.removeprefix(_PREFIX) for pair in pairs if pair.startswith(_PREFIX)]
    ours = [pair for pair in pairs if not pair.startswith(_PREFIX)]
    return _typed(ours) | {_PREFIX + key: value for key, value in _typed(theirs).items()}


def _typed(pairs: list[str]) -> dict[str, Any]:
    try:
        options = dict(redis.connection.parse_url("redis://?" + "&".join(pairs)))
    except ValueError:
        raise _wrong("an option has a value that it cannot have") from None
    if "ssl" in options:
        if str(options["ssl"]).lower() not in _YES + _NO:
            raise _wrong("ssl is true or false")
        options["ssl"] = str(options["ssl"]).lower() in _YES
    return options


def _wrong(what: str) -> ValueError:
    return ValueError(
        f"no sentinel URL: {what}. It looks like sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST…]/MASTER[/DB][?OPTIONS], "
        f"with the special characters of a password percent-encoded"
    )
