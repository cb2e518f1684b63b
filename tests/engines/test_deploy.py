"""deploy, undeploy and deployed: what they refuse, and what they say on each server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import redis
import redis.asyncio

from relet import Deployment, Pool, ReletError, deploy, deployed, undeploy
from relet.deploy import planned, survey
from relet.engines import gears1, gears2
from tests.helpers import take, unique
from tests.servers import Server

# Nothing listens there: whoever sends to it gets a ConnectionError.
NOWHERE: dict[str, Any] = {"host": "127.0.0.1", "port": 1}
Act = Callable[..., Any]
each = pytest.mark.parametrize("act", [deploy, undeploy, deployed])


@each
def test_only_database_0(act: Act) -> None:
    refusal = pytest.raises(ValueError, match="database 0 alone, and this client is in database 3")
    with closing(redis.Redis(**NOWHERE, db=3)) as client, refusal:
        act(client)


@each
def test_only_database_0_by_url(act: Act) -> None:
    with closing(redis.Redis.from_url("unix:///nowhere?db=1")) as client, pytest.raises(ValueError, match="database 1"):
        act(client)


@each
@pytest.mark.parametrize("namespace", ["", "a b", 'x"\nimport os', "{a}", "a" * 65])
def test_bad_namespaces(act: Act, namespace: str) -> None:
    with closing(redis.Redis(**NOWHERE)) as client, pytest.raises(ValueError, match="a namespace has 1 to 64"):
        act(client, namespace)


@each
def test_what_is_no_client_for_threads(act: Act) -> None:
    with pytest.raises(TypeError, match="a client for threads"):
        act(redis.asyncio.Redis(**NOWHERE))
    with pytest.raises(TypeError, match="redis-py or valkey-py"):
        act("redis://localhost")


@each
def test_a_server_that_is_not_there(act: Act) -> None:
    with closing(redis.Redis(**NOWHERE, retry=None)) as client, pytest.raises(redis.ConnectionError):
        act(client)


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}])
def test_which_engine_answers(server: Server, options: dict[str, Any]) -> None:
    namespace = unique("ns")
    with closing(server.client(**options)) as client:
        deployment = deploy(client, namespace)
        assert deployment.engine == server.spec.engine
        if server.spec.engine == "none":
            assert (deployment.version, deployment.hash, deployment.replaced) == ("", "", 0)
            assert "come back with the next call" in deployment.detail
            assert deployed(client, namespace) is None
        else:
            assert (deployment.version, deployment.hash) != ("", "")
            assert deploy(client, namespace).replaced == 1
            running = deployed(client, namespace)
            assert running is not None
            assert (running.engine, running.namespace) == (deployment.engine, namespace)
            assert (running.version, running.hash) == (deployment.version, deployment.hash)
            assert (running.current, running.missing) == (True, ())
            assert deployed(client, f"{namespace}-other") is None
            assert undeploy(client, namespace) == 1
            assert deployed(client, namespace) is None
        assert deployment.namespace == namespace
        assert repr(namespace) in deployment.detail
        assert undeploy(client, namespace) == 0


def test_what_would_be_sent(server: Server) -> None:
    namespace = unique("ns")
    with closing(server.client()) as client:
        engine, commands = planned(client, namespace)
        assert engine == server.spec.engine
        first_words = [command.words[0] for command in commands]
        expected = {
            "none": [],
            "redisgears-1": ["RG.REFRESHCLUSTER", "RG.PYEXECUTE"],
            "redisgears-2": ["REDISGEARS_2.REFRESHCLUSTER", "TFUNCTION"],
        }
        assert first_words == expected[engine]
        assert survey(client, namespace) == (engine, None), "nothing was done"


def test_valkey_py(server: Server) -> None:
    valkey = pytest.importorskip("valkey", reason="valkey-py is not installed: pip install valkey")
    with closing(valkey.Valkey(**NOWHERE, db=3)) as client, pytest.raises(ValueError, match="database 3"):
        deploy(client)
    with closing(valkey.Valkey(port=server.port)) as client:
        namespace = unique("ns")
        assert deploy(client, namespace).engine == server.spec.engine
        assert (deployed(client, namespace) is None) is (server.spec.engine == "none")
        assert undeploy(client, namespace) == (0 if server.spec.engine == "none" else 1)


def test_the_pool_is_left_alone(pool: Pool, client: redis.Redis) -> None:
    pool.add("r1", "r2")
    lease = take(pool)
    before = pool.stats()
    deploy(client, pool.namespace)
    undeploy(client, pool.namespace)
    assert pool.stats() == before
    lease.release()


def test_a_deployment_is_a_value() -> None:
    one = Deployment("none", "relet", "text")
    assert one == Deployment("none", "relet", "text")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.engine = "redisgears-1"  # type: ignore[misc]


def test_the_text_for_a_namespace() -> None:
    text = gears1.source("lab.2:x-y_z")
    assert 'NAMESPACE = "lab.2:x-y_z"\n' in text
    assert 'NAMESPACE = "relet"' not in text
    assert gears1.constant(text, "HASH") == gears1.constant(gears1.source("relet"), "HASH")
    with pytest.raises(ReletError, match="does not set NOTHING"):
        gears1.constant(text, "NOTHING")


def test_the_library_for_a_namespace() -> None:
    text = gears2.source("lab.2:x-y_z")
    assert text.startswith("#!js api_version=1.0 name=relet_lab_2e2_3ax_2dy_5fz\n")
    assert 'const NAMESPACE = "lab.2:x-y_z";\n' in text
    assert 'NAMESPACE = "relet"' not in text
    assert gears2.source("relet").startswith("#!js api_version=1.0 name=relet_relet\n")
    assert gears2.constant(text, "HASH") == gears2.constant(gears2.source("relet"), "HASH")
