"""The server that the command line works on, and how its URL may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

from relet.client import LOCAL, connect
from relet.errors import ReletError
from relet.model import Stats
from relet.names import DEFAULT_NAMESPACE, check_namespace, check_pool
from relet.pool import Pool

DEFAULT_URL = "redis://localhost:6379/0"
PATIENCE_S = 10
"""For a connection to be made, and for each answer (redis-py's own default was for ever until version 8)."""
DEFAULT_TTL_S = 30.0

_HOST = r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(:\d+)?"
_SHOWABLE = re.compile(rf"({_HOST}(,{_HOST})*)?(/[^:]*)?")
_ECHOED = re.compile(r",? with args beginning with: .*", re.DOTALL)
"""A server's answer to a command it does not know echoes the arguments, cut off somewhere: a login's among them."""
SHORTEST_SECRET = 3
"""Characters. A shorter password is in any text by chance, and masking it there would give it away."""


@dataclass
class Session:
    """What the global options said, and the one connection that a command makes."""

    url: str = DEFAULT_URL
    url_from: str = "default"
    namespace: str = DEFAULT_NAMESPACE
    json: bool = False
    _client: Any = field(default=None, repr=False)

    @property
    def is_named(self) -> bool:
        """Whether anybody said which server it is."""
        return self.url_from != "default"

    def client(self) -> Any:
        """The client, connected. It closes with the process.

        Raises:
            ValueError: the URL is none.
        """
        if self._client is None:
            over_tcp = self.url.startswith(("redis://", "rediss://", "sentinel://"))
            options = {"socket_connect_timeout": PATIENCE_S, "socket_timeout": PATIENCE_S} if over_tcp else {}
            try:
                self._client = connect(self.url, **options)
            except ValueError as error:
                source = "RELET_URL" if self.url_from == "RELET_URL" else "--url"
                if self.url.startswith(LOCAL):
                    raise ValueError(f"{source}: {error}") from None
                # The text may hold a piece of a password that was not percent-encoded.
                raise ValueError(
                    f"{source} is no URL of a server: {masked(self.url)}. It looks like "
                    f"redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], rediss://…, unix://PATH, "
                    f"sentinel://HOST[:PORT][,HOST…]/MASTER[/DB] or local:[?idle=SECONDS], with a number for DB, "
                    f"and the special characters of a password percent-encoded"
                ) from None
        return self._client

    def pool(self, name: str) -> Pool:
        """The pool of that name, be it there or not."""
        self.check(name)  # a wrong name shows also where there is no server
        return Pool(self.client(), name, DEFAULT_TTL_S, namespace=self.namespace)

    def check(self, name: str) -> None:
        """Raises ValueError where the namespace, or the pool's name, is none."""
        check_namespace(self.namespace)
        check_pool(name)

    def existing_pool(self, name: str) -> Pool:
        """The pool of that name.

        Raises:
            ReletError: there is none.
        """
        pool = self.pool(name)
        if pool.order() is None:
            raise self.no_pool(name)
        return pool

    def no_pool(self, name: str) -> ReletError:
        where = f" in namespace {self.namespace!r}" if self.namespace != DEFAULT_NAMESPACE else ""
        return ReletError(f"there is no pool {name!r}{where}; relet add {name} … makes it, relet pools lists all")


def order_and_stats(pool: Pool) -> tuple[str | None, Stats]:
    """The order, None where there is no pool, and the counts of the same instant."""
    order, stats = pool._send(pool._requests.stats())
    return order or None, stats


def masked(url: str) -> str:
    """The URL as it may be shown: without user, password and query; an ellipsis stands for what is not clear."""
    if url.startswith(LOCAL):
        return LOCAL
    scheme, found, rest = url.partition("://")
    if not found:
        scheme, rest = "", url
    login, at, place = rest.rpartition("@")
    if "?" in login:  # part of a password, or a query with an "@" in it
        place = "…"
    place = place.partition("?")[0].partition("#")[0]
    if not _SHOWABLE.fullmatch(place):
        place = "…"
    return f"{scheme}{found}{'***@' if at else ''}{place}"


def scrubbed(text: str, url: str) -> str:
    """The text with the URL's password masked, however it is written there."""
    text = _ECHOED.sub("", text)
    for secret in sorted(_secrets(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _secrets(url: str) -> set[str]:
    _, found, after = url.partition("://")
    rest = after if found else url
    login = rest.rpartition("@")[0]
    user, colon, password = login.partition(":")
    raw = [password if colon else user]
    pairs = (part.partition("=") for part in re.split("[?&]", rest))
    raw += [value for key, _, value in pairs if "pass" in key.lower()]
    forms = {form for secret in raw for form in (secret, unquote(secret), unquote_plus(secret))}
    return {form for form in forms if len(form) >= SHORTEST_SECRET}
