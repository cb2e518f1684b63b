"""Becomes a server that the kernel kills when the process that asked for it is gone.

    python -I -S launcher.py PARENT_PID LIBRARY_PATH PROGRAM [ARGUMENT ...]

A program of its own, since the alternative (`preexec_fn`) runs Python in a forked copy of a process with threads.
The signal is tied to the parent's thread that started this, not to the parent as a whole: see process.py.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parent, library_path, *command = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != int(parent):  # it was gone before the kernel knew that we care
        sys.exit("the process that started this server is gone")
    if library_path:
        os.environ["LD_LIBRARY_PATH"] = library_path
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
