"""Becomes the command of ``relet run``. A program of its own, which stands alone: ``python -I -S launch.py …``.

Before a command runs it needs a process group of its own, the terminal, and plain signal handling. Doing that between
fork and exec (preexec_fn) would run Python in the copy of a process with threads.

Arguments: where to say that it did not work (a file descriptor, which is sent errno as text); the process id of the
keeper; the process group to take the terminal from, or 0; the command.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    report, keeper, giver, *command = os.fsencode("\0".join(sys.argv[1:])).split(b"\0")
    os.set_inheritable(int(report), False)
    os.setpgid(0, 0)
    if int(giver):
        _take_terminal(int(giver))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(keeper):
            sys.exit(1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(int(report), str(error.errno).encode())
        os._exit(127)


def _take_terminal(giver: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        if os.tcgetpgrp(terminal) == giver:
            os.tcsetpgrp(terminal, os.getpgrp())
    except OSError:
        pass  # it was hung up


if __name__ == "__main__":
    main()
