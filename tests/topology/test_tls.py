"""rediss:// with certificates on both sides: the same round, waiting included."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from relet import AsyncPool, Pool
from tests.helpers import missing
from tests.servers import Server, ServerFailed, Spec
from tests.servers.ports import free_port
from tests.topology import certificates
from tests.waiting.drivers import DRIVERS, World

pytestmark = pytest.mark.parametrize(
    "spec", ["redis-6.2", "redis-7.0", "redis-8.2", "valkey-9.1", "redis-stack-7.4"], indirect=True
)


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates."""
    if shutil.which("openssl") is None:
        missing("the program openssl, which makes the certificates, is not here")
    folder = tmp_path_factory.mktemp("certificates")
    certificates.make(folder)
    return folder


@pytest.fixture(scope="module")
def port(spec: Spec, papers: Path) -> Iterator[int]:
    """The port on which a server speaks TLS, and wants a certificate."""
    try:
        number = free_port()
        with Server.start(
            spec,
            tls_port=number,
            tls_cert_file=str(papers / "server.crt"),
            tls_key_file=str(papers / "server.key"),
            tls_ca_cert_file=str(papers / "ca.crt"),
        ) as server:
            assert server.running
            yield number
    except ServerFailed as failure:
        if "tls-" not in str(failure) and "TLS" not in str(failure):
            raise
        pytest.skip(f"this build of {spec.name} has no TLS")  # never one that has it: no machine could make up for it


def url(port: int, papers: Path, authority: str = "ca", client: str = "client") -> str:
    query = f"ssl_ca_certs={papers / authority}.crt"
    if client:
        query += f"&ssl_certfile={papers / client}.crt&ssl_keyfile={papers / client}.key"
    return f"rediss://127.0.0.1:{port}/0?{query}"


def test_a_round(driver: str, port: int, papers: Path) -> None:
    async def run() -> None:
        async with World(driver, url(port, papers)) as world:
            pool, other = world.pool("tls"), world.pool("tls")
            assert await pool.add("r1", "r2") == 2
            first, second = await pool.acquire(ttl=600), await pool.acquire_many(1, ttl=600)
            waiter = await world.line_up(other, other.acquire(ttl=60))
            await first.release()
            (lease,) = await world.done(waiter)
            assert (lease.resource, lease.fence > first.fence) == ("r1", True)
            await lease.renew()
            await other.release_many([lease])
            await pool.release_many(second)
            async with pool.lease(timeout=5) as held:
                assert held.resource == "r1"
            assert (await pool.stats()).granted == 4

    asyncio.run(run())


def test_by_url(driver: str, port: int, papers: Path) -> None:
    async def run() -> None:
        async with await AsyncPool.from_url(url(port, papers), "tls") as pool:
            await pool.add("r1")
            async with pool.lease(timeout=5) as lease:
                assert lease.resource == "r1"
            await pool.destroy()

    if driver == "tasks":
        asyncio.run(run())
        return
    with Pool.from_url(url(port, papers), "tls") as threads:
        threads.add("r1")
        with threads.lease(timeout=5) as held:
            assert held.resource == "r1"
        threads.destroy()


@pytest.mark.parametrize(("authority", "client"), [("stranger", "client"), ("ca", "")], ids=["of it", "of ours"])
def test_a_certificate_that_is_missing(authority: str, client: str, port: int, papers: Path) -> None:
    with pytest.raises(redis.RedisError, match=r"(?i)certificate|closed by server|to socket"):
        Pool.from_url(url(port, papers, authority, client), "tls")
