"""Wrong options, servers that refuse, and how the command ends then."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
import redis

from relet import Pool
from tests.cli.conftest import Command
from tests.command import COMMAND, Ended, environment, failed, interrupted, relet
from tests.servers import Server
from tests.servers.ports import free_port

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

CLEAR = "\x1b[2J\x1b]0;owned\x07"
"""Clears the terminal and sets its title, if a terminal gets to see it."""


# Options, and wrong ones


def test_global_options_stand_before_or_after(server: Server, pool: Pool, namespace: str) -> None:
    pool.add("a")
    given = ["--url", server.url, "--namespace", namespace, "--json"]
    wrong = {"RELET_URL": f"redis://127.0.0.1:{free_port()}", "RELET_NAMESPACE": "other"}
    assert relet(*given, "pools", env=wrong).json == ["gpu"]
    assert relet("pools", *given, env=wrong).json == ["gpu"]
    assert relet("--url", "redis://127.0.0.1:1", "pools", *given).json == ["gpu"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["--frobnicate"],
        ["acquire"],
        ["acquire", "gpu", "--ttl", "long"],
        ["acquire", "gpu", "--ttl", "nan"],
        ["acquire", "gpu", "--ttl", "0"],
        ["acquire", "gpu", "--timeout", "-1"],
        ["acquire", "gpu", "--owner", "a\nb"],
        ["acquire", "g{u", "--ttl", "1"],
        ["add", "gpu"],
        ["add", "gpu", "a", "--order", "first"],
        ["add", "gpu", "a", "--order", "rank", "--set-order", "rank"],
        ["add", "gpu", "a", "--format", "csv"],
        ["add", "gpu", "--from-file", "/nonexistent/file"],
        ["add", "gpu", CLEAR],
        ["remove", "gpu"],
        ["renew", "gpu", "no-token"],
        ["release", "gpu"],
        ["release", "gpu", "0" * 32, "--force", "a"],
        ["--namespace", "a b", "pools"],
        ["--url", "localhost:6379", "pools"],
        ["--url", "http://localhost", "pools"],
        ["--url", "redis://localhost/abc", "pools"],
        ["--url", "local:elsewhere", "pools"],
        ["--url", "local:?idle=0", "pools"],
        ["run", "gpu"],
        ["run", "gpu", "--ttl", "0", "--", "true"],
        ["run", "gpu", "--count", "0", "--", "true"],
        ["run", "gpu", "--timeout", "-1", "--", "true"],
        ["run", "gpu", "--grace", "-1", "--", "true"],
        ["run", "g{u", "--", "true"],
        ["run", "gpu", "--owner", "a\nb", "--", "true"],
        [CLEAR],
    ],
)
def test_wrong_usage_is_2(run: Command, arguments: list[str]) -> None:
    said = failed(run(*arguments), 2)
    assert said
    assert said.isprintable()


def test_help_and_version(run: Command) -> None:
    assert run("--version").out.startswith("relet ")
    for command in ("add", "acquire", "demo"):
        assert command in run("--help").out
        assert "--json" in run(command, "-h").out
    bare = run()
    assert (bare.code, bare.out) == (2, "")
    assert "Usage: relet" in bare.err


# What goes wrong at the server


def test_connection_refused(run: Command) -> None:
    url = f"redis://someone:hush-hush@127.0.0.1:{free_port()}/0"
    said = failed(run("--url", url, "status", "gpu"), 1)
    assert said.startswith("cannot reach redis://***@127.0.0.1:")
    assert "hush" not in said


@pytest.mark.parametrize("url", ["unix:///nonexistent/redis.sock", "redis://host.invalid", "rediss://127.0.0.1:{port}"])
def test_a_server_that_is_not_there(run: Command, server: Server, url: str) -> None:
    assert "cannot reach " in failed(run("--url", url.format(port=server.port), "pools"), 1)


@pytest.mark.parametrize("encoded", ["hush-hush", "hush%2Dhush", "hush-%68ush"])
@pytest.mark.parametrize(
    "form", ["redis://:{password}@127.0.0.1:{port}", "redis://127.0.0.1:{port}?password={password}"]
)
def test_a_password_works_and_a_wrong_one_is_not_shown(server: Server, encoded: str, form: str) -> None:
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "default", "resetpass", ">hush-hush")
        try:
            assert relet("pools", "--json", "--url", form.format(password=encoded, port=server.port)).json == []
            wrong = failed(relet("pools", "--url", form.format(password=encoded + "t", port=server.port)), 1)
            none = failed(relet("pools", "--url", f"redis://127.0.0.1:{server.port}"), 1)
        finally:
            admin.execute_command("ACL", "SETUSER", "default", "nopass")
    assert "refused the login" in wrong
    assert "hush" not in wrong
    assert encoded not in wrong
    assert "wants a password" in none


def test_a_password_that_breaks_the_url_is_not_shown(run: Command) -> None:
    for url in ("redis://:hush/hush@localhost", "redis://:hush", "redis://localhost:hush", "redis://:hu#hush@h"):
        assert "hush" not in failed(run("--url", url, "pools"), 2)


def test_keys_of_another_kind(
    run: Command, client: redis.Redis, elsewhere: Callable[[str], str], namespace: str
) -> None:
    client.set(elsewhere(f"{namespace}:pool:{{text}}"), "a text")
    for command in (["status", "text"], ["acquire", "text"], ["add", "text", "a"]):
        assert "WRONGTYPE" in failed(run(*command), 1)
    assert run("pools", "--json").json == []


def test_one_damaged_pool_does_not_hide_the_others(
    run: Command, client: redis.Redis, pool: Pool, namespace: str
) -> None:
    pool.add("a")
    client.hset(f"{namespace}:pool:{{bad}}", "order", "rank")
    try:
        ended = run("status", "--json")
        bad = failed(run("ls", "bad"), 1)
    finally:
        client.delete(f"{namespace}:pool:{{bad}}")
    assert "'bad' is damaged" in bad
    assert (ended.code, [one["pool"] for one in ended.json]) == (1, ["gpu"])
    assert ended.err.count("\n") == 1
    assert "'bad' is damaged" in ended.err


def test_attributes_that_are_no_json(run: Command, client: redis.Redis, pool: Pool) -> None:
    pool.add({"a": {"x": 1}})
    client.hset(f"{pool.namespace}:pool:{{gpu}}:attributes", "a", "{nonsense")
    for command in ("ls", "acquire"):
        assert '"attributes": {}' in run(command, "gpu", "--json").out


# How it ends


def test_ctrl_c_is_130_and_quiet(server: Server, pool: Pool) -> None:
    ended = interrupted("add", "gpu", "--from-file", "-", "--url", server.url, "--namespace", pool.namespace)
    assert ended == Ended(130, "", "")
    assert pool.order() is None


def test_a_reader_that_has_seen_enough_is_no_error(server: Server, pool: Pool) -> None:
    pool.add([f"{number}-{'x' * 100}" for number in range(3000)])  # more than a pipe holds
    arguments = [*COMMAND, "ls", "gpu", "--url", server.url, "--namespace", pool.namespace]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_a_lease_whose_token_nobody_saw_is_given_back(server: Server, pool: Pool) -> None:
    pool.add("a")
    arguments = [*COMMAND, "acquire", "gpu", "--url", server.url, "--namespace", pool.namespace]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"relet: cannot write the output: No space left on device\n")
    assert (pool.stats().free, pool.stats().released) == (1, 1)
