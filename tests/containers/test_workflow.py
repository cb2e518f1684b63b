""".github/workflows/tests.yml runs what the README and .ci/run say. The workflow itself runs on GitHub alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.compose import ROOT
from tests.containers.tools import complaints

FILE = ROOT / ".github" / "workflows" / "tests.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text("utf-8"))
JOBS: dict[str, Any] = WORKFLOW["jobs"]
ACTIONS = {"actions/checkout@v4", "actions/setup-python@v5"}

each = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


def readme_commands() -> dict[str, str]:
    """The commands of the README that scripts look up, by the mark above each."""
    found = re.findall(r"^<!-- (\w+) -->\n```sh\n(.*)\n```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return dict(found)


def pytest_command() -> str:
    """The one with which the README runs the tests."""
    (found,) = (command for command in readme_commands().values() if "pytest" in command)
    return found


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def pythons(job: dict[str, Any]) -> list[str]:
    wanted = next(step["with"]["python-version"] for step in job["steps"] if "python" in step.get("uses", ""))
    return list(job["strategy"]["matrix"]["python"]) if "matrix.python" in wanted else [wanted]


def test_it_fits_the_schema_of_workflows() -> None:
    assert complaints("vendor.github-workflows", FILE) == ""


def test_it_runs_on_pushes_and_pull_requests_and_may_only_read() -> None:
    assert set(WORKFLOW[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key "on" as true
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "secrets" not in FILE.read_text("utf-8")


@each
def test_a_job_uses_pinned_actions_and_ends(job: dict[str, Any]) -> None:
    assert {step["uses"] for step in job["steps"] if "uses" in step} == ACTIONS
    assert job["timeout-minutes"] <= 90
    assert job["runs-on"] == "ubuntu-latest"


def test_everything_is_run_by_the_script_that_runs_it_here() -> None:
    assert commands(JOBS["suite"]) == ["bash .ci/run"]
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert script.startswith("#!/usr/bin/env bash\n")
    assert "RELET_TESTS_STRICT=1" in script
    asked = re.findall(r"\$\(command_of (\w+)\)", script)
    assert set(asked) <= set(readme_commands())
    assert pytest_command() in {readme_commands()[mark] for mark in asked}


def test_the_oldest_python_runs_the_tests_as_the_readme_does() -> None:
    assert commands(JOBS["oldest"]) == [pytest_command()]
    assert JOBS["oldest"]["env"]["RELET_TESTS_STRICT"] == "1"
    minimum = re.search(r'^requires-python = ">=(.*)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert minimum
    assert pythons(JOBS["oldest"]) == [minimum[1]]


def test_no_python_is_left_out() -> None:
    minors = [int(version.split(".")[1]) for version in pythons(JOBS["oldest"]) + pythons(JOBS["suite"])]
    assert minors == list(range(10, minors[-1] + 1))
    assert minors[-1] >= 13


def test_the_containers_have_a_job_of_their_own_which_may_not_skip_them() -> None:
    folder = Path(__file__).parent.relative_to(ROOT).as_posix()
    assert commands(JOBS["containers"])[-1] == f"{pytest_command()} {folder}"
    wishes = {name: job["env"]["RELET_TESTS_CONTAINERS"] for name, job in JOBS.items()}
    assert wishes == {"suite": "0", "oldest": "0", "containers": "1"}
