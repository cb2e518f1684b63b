"""Pools out of a definition file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relet import Pool
from tests.cli.conftest import Command
from tests.command import failed

pytestmark = pytest.mark.parametrize("spec", ["valkey-9.1"], indirect=True, scope="session")

YAML = """
pools:
  gpu:
    order: lru
    on_lapse: quarantine
    resources:
      gpu-0: {memory: 80, tags: [a, b]}
      gpu-1:
      "2": {}
"""
TOML = """
[pools.gpu]
order = "lru"
on_lapse = "quarantine"
[pools.gpu.resources]
gpu-0 = {memory = 80, tags = ["a", "b"]}
gpu-1 = {}
2 = {}
"""
JSON = {
    "pools": {
        "gpu": {
            "order": "lru",
            "on_lapse": "quarantine",
            "resources": {"gpu-0": {"memory": 80, "tags": ["a", "b"]}, "gpu-1": None, "2": {}},
        }
    }
}

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(text: str, name: str = "pools.yaml") -> str:
        (tmp_path / name).write_text(text, "utf-8")
        return str(tmp_path / name)

    return to


def resources(pool: Pool) -> dict[str, dict[str, Any]]:
    return {info.name: dict(info.attributes) for info in pool.resources()}


@pytest.mark.parametrize(
    ("text", "name"), [(YAML, "p.yml"), (TOML, "p.TOML"), (json.dumps(JSON), "p.json")], ids=["yaml", "toml", "json"]
)
def test_every_form_says_the_same(run: Command, pool: Pool, write: Write, text: str, name: str) -> None:
    file = write(text, name)
    dry = run("apply", file, "--dry-run")
    assert (dry.code, pool.order()) == (0, None)
    assert "pool gpu (new):\n  ~ order lru\n  ~ on_lapse quarantine (was free)\n  + gpu-0 " in dry.out
    assert run("apply", file).code == 0
    assert (pool.order(), pool.policy().on_lapse, pool.policy().on_release) == ("lru", "quarantine", "free")
    assert resources(pool) == {"gpu-0": {"memory": 80, "tags": ["a", "b"]}, "gpu-1": {}, "2": {}}
    assert run("apply", file, "--prune").out == "pool gpu: nothing to do\n"


def test_what_differs_is_changed_and_nothing_else(run: Command, pool: Pool, write: Write) -> None:
    pool.add({"gpu-0": {"memory": 40}, "gpu-1": {"kept": True}, "2": {"one": 1}, "old": None}, order="random")
    file = write(YAML)
    said = run("apply", file, "--json").json
    assert said == {
        "applied": True,
        "pools": [
            {
                "pool": "gpu",
                "new": False,
                "settings": {
                    "order": {"old": "random", "new": "lru"},
                    "on_lapse": {"old": "free", "new": "quarantine"},
                },
                "added": [],
                "attributes": {
                    "gpu-0": {"old": {"memory": 40}, "new": {"memory": 80, "tags": ["a", "b"]}},
                    "2": {"old": {"one": 1}, "new": {}},
                },
                "removed": [],
                "later": [],
                "extra": ["old"],
            }
        ],
    }
    assert resources(pool) == {"gpu-0": {"memory": 80, "tags": ["a", "b"]}, "gpu-1": {"kept": True}, "2": {}, "old": {}}
    again = run("apply", file)
    assert (
        again.out == "pool gpu: nothing to do\n  not in the file, and left alone: 1 resource (--prune removes them)\n"
    )
    assert run("apply", file, "--prune", "--json").json["pools"][0]["removed"] == ["old"]
    assert "old" not in resources(pool)


def test_one_and_true_are_not_the_same(run: Command, pool: Pool, write: Write) -> None:
    pool.add({"a": {"n": 1}})
    assert run("apply", write("pools: {gpu: {resources: {a: {n: true}}}}")).code == 0
    assert resources(pool)["a"]["n"] is True


def test_with_50_leased_nothing_is_freed_and_nothing_doubled(run: Command, pool: Pool, write: Write) -> None:
    names = [f"r-{number:03}" for number in range(100)]
    pool.add(names)
    leases = pool.acquire_many(50, ttl=300)
    held = {lease.resource: lease.fence for lease in leases}
    keep, new = [*names[25:], *(f"n-{number}" for number in range(10))], 10
    file = write(
        json.dumps({"pools": {"gpu": {"order": "lru", "on_release": "quarantine", "resources": keep}}}), "p.json"
    )

    dry = run("apply", file, "--prune", "--dry-run").out
    assert "  - r-000 (leased: when it comes back)\n" in dry
    assert "nothing was changed" in dry
    assert pool.stats().total == 100
    (said,) = run("apply", file, "--prune", "--json").json["pools"]
    assert (len(said["added"]), len(said["removed"]), len(said["later"])) == (new, 25, 25)

    after = {info.name: info for info in pool.resources()}
    assert {name: info.fence for name, info in after.items() if info.state == "leased"} == held
    assert {name for name, info in after.items() if info.mark == "leaving"} == set(names[:25])
    assert (pool.stats().leased, pool.stats().free) == (50, 50 + new)
    assert run("apply", file, "--prune").out == "pool gpu: nothing to do\n"
    assert {lease.resource for lease in pool.acquire_many(50 + new, timeout=0)} == set(keep) - set(held)
    for lease in leases:
        lease.renew(300)
        lease.release()
    assert (pool.stats().total, pool.stats().quarantined) == (len(keep), 25)


def test_one_on_its_way_out_stays_if_the_file_has_it(run: Command, pool: Pool, write: Write) -> None:
    pool.add("gpu-0")
    lease = pool.acquire()
    pool.remove("gpu-0")
    assert run("apply", write("pools: {gpu: {resources: [gpu-0]}}"), "--json").json["pools"][0]["added"] == ["gpu-0"]
    lease.release()
    assert pool.stats().free == 1


def test_what_the_file_does_not_mention_stays(run: Command, pool: Pool, write: Write) -> None:
    pool.add("a", order="lru")
    pool.set_policy(on_lapse="quarantine")
    assert run("apply", write("pools: {gpu: }"), "--prune").out == "pool gpu: nothing to do\n"
    assert run("apply", write("pools: {}"), "--prune").out == ""
    assert run("apply", write("pools: {gpu: {resources: []}}"), "--prune").code == 0
    assert (pool.order(), pool.policy().on_lapse, pool.stats().total) == ("lru", "quarantine", 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a mapping with the key pools is wanted, not None"),
        ("pool: {}", "'pool' is none of the keys pools"),
        ("{}", "the key pools is missing"),
        ("pools: {gpu: [a]}", "pools.gpu: a mapping is wanted, not ['a']"),
        ("pools: {g:u: {}}", "pools: a pool's name has no braces"),
        ("pools: {1: {}}", "pools: a pool's name is text, not 1; put it in quotes"),
        ("pools: {gpu: {ordre: lru}}", "pools.gpu: 'ordre' is none of the keys order, on_lapse, on_release, resources"),
        ("pools: {gpu: {order: fifo}}", "pools.gpu.order: an order is one of rank, lru, random, not 'fifo'"),
        ("pools: {gpu: {on_lapse: away}}", """pools.gpu: on_lapse is "free" or "quarantine", not 'away'"""),
        ("pools: {gpu: {resources: }}", "pools.gpu.resources: a list of names"),
        ("pools: {gpu: {resources: [a, 1]}}", "pools.gpu.resources: entry 2: a resource's name is text, not 1; put it"),
        ("pools: {gpu: {resources: [a, a]}}", "pools.gpu.resources: 'a' stands there twice"),
        ("pools: {gpu: {resources: [{a: {}}]}}", "pools.gpu.resources: entry 1 is a mapping, {'a': {}}"),
        ("pools: {gpu: {resources: {a: 1}}}", "pools.gpu.resources: the attributes of 'a' are a mapping, not 1"),
        ("pools: {gpu: {resources: {a: {d: 2020-01-01}}}}", "the attributes of 'a' are no JSON object"),
        ("pools:\n  gpu: {}\n  gpu: {}", "line 3: the key 'gpu' stands in line 2 already"),
        ("pools: [", "not YAML"),
        ("pools: &a {gpu: {resources: {x: {y: *a}}}}", "the attributes of 'x'"),
        ("a: !!python/object/apply:os.system [true]", "not YAML"),
    ],
)
def test_a_wrong_file_changes_nothing(run: Command, pool: Pool, write: Write, text: str, said: str) -> None:
    file = write(text)
    error = failed(run("apply", file), 2)
    assert error.startswith(f"{file}: ")
    assert said in error
    assert pool.order() is None


def test_files_that_cannot_be_read(run: Command, write: Write) -> None:
    assert "cannot read" in failed(run("apply", "no-such.yaml"), 2)
    assert "ends in .yaml, .yml, .toml, .json" in failed(run("apply", write("", "pools.txt")), 2)
    assert "not TOML" in failed(run("apply", write("pools", "p.toml")), 2)
    assert "not JSON" in failed(run("apply", write("{", "p.json")), 2)
    assert "'pools' stands twice" in failed(run("apply", write('{"pools": {}, "pools": {}}', "q.json")), 2)
