"""Runs the command ``relet`` as its users do: in a process of its own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

TIMEOUT_S = 60.0
COMMAND = (sys.executable, "-m", "relet")
MORE_THAN_A_PIPE_HOLDS = 1 << 20  # bytes; Linux: 64 KiB


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def relet(*arguments: str, stdin: str | bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
    """Runs ``relet`` to its end. Nothing that it prints may be a traceback, and all errors are one line each."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, env=environment(env), timeout=TIMEOUT_S, check=False
    )
    ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in ended.out + ended.err
    return ended


def failed(ended: Ended, code: int) -> str:
    """What the one line on standard error says, once it is clear that there is exactly one and the exit code fits."""
    assert (ended.code, ended.out) == (code, ""), ended
    assert ended.err.startswith("relet: "), ended
    assert ended.err.count("\n") == 1, ended
    return ended.err.removeprefix("relet: ").rstrip("\n")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of this process, without what would change what relet does."""
    strange = ("RELET_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED")
    own = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    return {**own, "TERM": "xterm", **(more or {})}


def on_a_terminal(*arguments: str, columns: int) -> tuple[int, str]:
    """Runs ``relet`` with a terminal for its output; answers the exit code, and what the terminal got."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=environment({"COLUMNS": str(columns)}),
        ) as process:
            os.close(theirs)
            got = b""
            while True:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # how Linux says that the other side is closed
                    break
                if not piece:
                    break
                got += piece
            return process.wait(TIMEOUT_S), got.decode()
    finally:
        os.close(ours)


def interrupted(*arguments: str) -> Ended:
    """Starts ``relet`` with a standard input that never ends, and sends it what Ctrl-C sends while it reads."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"name\n" * (MORE_THAN_A_PIPE_HOLDS // 5))
        process.stdin.flush()  # done only once the command has read the most of it
        process.send_signal(signal.SIGINT)
        process.stdin.close()  # a signal between two reads waits for the next one to end
        out, err = process.stdout.read(), process.stderr.read()
        return Ended(process.wait(TIMEOUT_S), out.decode(), err.decode())
