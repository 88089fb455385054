"""Start a program that the kernel kills when its parent dies, however the parent dies.

Run as a file before the real program: `python deploy/guard.py PARENT_PID COMMAND ARGUMENT ...`.
It asks the kernel for the signal and becomes the command, so the process id stays. A preexec_fn
would do the same inside a fork of a multi-threaded process, which is not safe.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before the request was made
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
