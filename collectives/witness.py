"""What can be learnt of a rank from outside: where it runs, whether it lives, what it is doing.

Each rank shows itself to the others of its node: its process, a signal that makes it write the
stack of its main thread, and the memory that it goes to. The signal is handled in C
(`faulthandler`), so it is heard also by a rank that holds Python's lock for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any, NamedTuple

SAID = b"\n(has spoken for itself)\n"
"""What a rank writes behind its stacks when it has told them by itself."""

_TGKILL = {"x86_64": 234, "aarch64": 131, "riscv64": 131, "ppc64le": 250, "s390x": 241}
"""The number of Linux's call that signals one thread: older C libraries have no name for it."""


class Shown(NamedTuple):
    """What a rank shows of itself.

    Attributes:
        rank: in COMM_WORLD.
        place: the same for two ranks that see each other's processes.
        process: its number.
        born: when the process was started, in the system's own words; "" where it does not say.
        number: of the signal.
        stacks: a file, which others of the same place can read.
    """

    rank: int
    place: str
    process: int
    born: str
    number: int
    stacks: str

    def lives(self) -> bool:
        """Return whether the process is still there. It is of the same place."""
        return not self.born or _born(self.process) == self.born

    def ask(self) -> None:
        """Make the rank, of the same place, write the stack of its main thread."""
        if self.lives():
            _signal_main_thread(self.process, self.number)

    def written(self) -> bytes:
        """Return what the rank, of the same place, has written."""
        try:
            return Path(self.stacks).read_bytes()
        except OSError:
            return b""


class Witness:
    """This process, as it shows itself, until it ends. One for each process.

    Args:
        rank: in COMM_WORLD.

    Attributes:
        shown: for the others.
    """

    def __init__(self, rank: int) -> None:
        process = os.getpid()
        self._file = _memory_file()
        path = f"/proc/{process}/fd/{self._file.fileno()}"
        stacks = path if os.path.exists(path) else str(self._file.name)
        number = _free_signal()
        with contextlib.suppress(ValueError):  # which all threads but the main one get
            # For the time when Python has gone, and MPI has not: by default it would kill.
            signal.signal(number, signal.SIG_IGN)
        # Of the thread that the signal comes to: the others may be running, and to read their
        # frames then may crash.
        faulthandler.register(number, file=self._file, all_threads=False)
        self.shown = Shown(rank, _place(), process, _born(process), number, stacks)

    def asked(self) -> bool:
        """Return whether somebody has asked for the stacks."""
        return os.fstat(self._file.fileno()).st_size > 0

    def has_spoken(self) -> None:
        """Note that this rank has told its stacks by itself."""
        os.write(self._file.fileno(), SAID)

    def end_soon(self, seconds: float) -> None:
        """End this process after so many seconds, whatever it does and holds by then."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._file)


def stacks_here() -> str:
    """Return the stacks of all threads of this process but the one that calls, the main one first.

    The innermost call comes last.
    """
    own, main = threading.get_ident(), threading.main_thread().ident
    names = {t.ident: t.name for t in threading.enumerate()}
    frames = sys._current_frames()
    parts = []
    for ident in sorted(frames, key=lambda i: i != main):
        if ident != own:
            lines = "".join(traceback.format_stack(frames[ident])).rstrip()
            parts.append(f"thread {names.get(ident, ident)}:\n{lines}")
    return "\n".join(parts)


def _signal_main_thread(process: int, number: int) -> None:
    """Send a signal to the main thread, whose number is that of the process.

    One to the process may go to any thread, as one of MPI's, which has no stack of Python.
    """
    call = _TGKILL.get(os.uname().machine) if sys.platform == "linux" else None
    if call is not None:
        ctypes.CDLL(None).syscall(call, process, process, number)
        return
    with contextlib.suppress(OSError):
        os.kill(process, number)


def _free_signal() -> int:
    """Return a signal that nobody uses: a real-time one, where the system has such."""
    first, last = getattr(signal, "SIGRTMIN", None), getattr(signal, "SIGRTMAX", None)
    if first is not None and last is not None:
        for number in range(int(first) + 10, int(last)):
            if signal.getsignal(number) is signal.SIG_DFL:
                return number
    return int(signal.SIGUSR2)


def _memory_file() -> Any:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stacks"), "w+b", buffering=0)
    return tempfile.NamedTemporaryFile(prefix="stacks-", buffering=0)


def _place() -> str:
    """Name the machine, and the numbering of processes, of which a machine may have several."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _born(process: int) -> str:
    """Return when a process was started; "" where it has ended or the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    fields = text[text.rindex(")") + 2 :].split()  # the name may hold anything
    return "" if fields[0] in "ZX" else fields[19]
