"""A terminal with a program in it, as a user has it: typed into, and read."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

ATTACH = "import os, sys; os.close(os.open(os.ttyname(0), os.O_RDWR)); os.execvp(sys.argv[1], sys.argv[1:])"
"""The leader of a new session takes the first terminal that it opens for its own."""
CTRL_C, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x1a", "\x1c"
TIMEOUT_S = 60.0


class Terminal:
    """Runs a program as the first one of a session with a terminal."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", ATTACH, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self._from = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._ours)  # hangs up: what runs there gets SIGHUP
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Reads until the pattern comes, after what was waited for before."""
        until = time.monotonic() + TIMEOUT_S
        while not (found := re.compile(pattern, re.MULTILINE).search(self.seen, self._from)):
            assert time.monotonic() < until, f"{pattern!r} does not come: {self.seen!r}"
            assert self._read(), f"it ended without {pattern!r}: {self.seen!r}"
        self._from = found.end()
        return found

    def end(self) -> int:
        """Reads until it ends; answers how, as subprocess does."""
        until = time.monotonic() + TIMEOUT_S
        while self._read():
            assert time.monotonic() < until, f"it does not end: {self.seen!r}"
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        """False once nobody has the terminal open any more."""
        if not select.select([self._ours], [], [], 1)[0]:
            return True
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # how Linux says so
            return False
        self.seen += piece.decode("utf-8", "replace")
        return bool(piece)
