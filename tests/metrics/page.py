"""``relet metrics`` as a process, and its page as Prometheus' own parser reads it."""

from __future__ import annotations

import signal
import subprocess
import urllib.request
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.command import COMMAND, environment

GUARD_S = 60.0
"""Ends what hangs; no test is about it."""

Samples = dict[tuple[str, ...], float]
"""By the metric's name and the values of its labels, in the order of their names."""


class Ending(NamedTuple):
    code: int
    err: str


class Page:
    """Started with ``relet metrics``, scraped by ``samples()``, ended by SIGTERM at the latest."""

    def __init__(self, *arguments: str, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "metrics", "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(env),
            text=True,
        )
        assert self._process.stdout is not None
        self.line = self._process.stdout.readline()
        self.url = self.line.split()[-1] if self.line.strip() else ""

    def samples(self) -> Samples:
        """A scrape."""
        with urllib.request.urlopen(self.url, timeout=GUARD_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            return parsed(answer.read().decode())

    def end(self, number: int = signal.SIGTERM) -> Ending:
        if self._process.poll() is None:
            self._process.send_signal(number)
        _, err = self._process.communicate(timeout=GUARD_S)
        assert "Traceback" not in err
        return Ending(self._process.returncode, err)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.returncode is None:
            self.end()


def parsed(text: str) -> Samples:
    """The page's samples, without the times at which counters were made."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *(value for _, value in sorted(sample.labels.items())))
            assert key not in samples, f"twice: {key}"
            if not sample.name.endswith("_created"):
                samples[key] = sample.value
    return samples


def samples_of(registry: CollectorRegistry) -> Samples:
    return parsed(generate_latest(registry).decode())


def named(samples: Iterable[tuple[str, ...]], name: str) -> set[tuple[str, ...]]:
    """The label values under which a metric of that name is there."""
    return {labels for found, *rest in samples if found == name for labels in [tuple(rest)]}
