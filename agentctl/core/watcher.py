"""The process below a run that starts its commands, and that kills them when the run is gone, even by kill -9.

    run ── socket ── watcher ── fork ── keeper ── command and all its descendants
     └───────── one socket per command ──┘

The watcher lives in its own session, so nothing that is sent to the group of the run reaches it. For each command it
forks a keeper: a process that adopts every orphan below it (PR_SET_CHILD_SUBREAPER), so that daemons of two commands
are never mixed up and no process id is signalled that could belong to somebody else: a keeper signals only its own
children and the group of a leader that it has not reaped. The end of a socket is the order to kill.

Started by `core/spawn.py` with one of these sockets as stdin. It is a script of its own that must start in about
10 ms, so it imports nothing of the project but prctl and confine, and `_socket` instead of `socket` (8 ms for its
enums). The first thing it is sent is a length (4 bytes) and the plan (core/confine.py) by which every command is
confined; a length of 0 is no plan. A plan that cannot be carried out fails each command.

What a keeper is sent on its socket: a length (4 bytes) and a marshalled (program, argv, cwd, env), then at most one
order, TERMINATE or KILL. What it answers, a line each: `starting 0` when the next thing is the
command (before that line nothing has happened), then `failed ERRNO PLACE`, or `exited STATUS` (negative: the signal)
and, when nothing of the tree is left, `dead COUNT` with the number of processes that could not be killed.
"""

# ruff: noqa: PTH123, PTH208, SIM105  # pathlib and contextlib would cost the start of the watcher 8 ms

from __future__ import annotations

import _signal as signals  # type: ignore[import-not-found]  # `signal` costs 5 ms
import _socket
import marshal
import os
import select
import sys
import time

from agentctl.core.confine import Confinement, NotConfined
from agentctl.core.prctl import SET_CHILD_SUBREAPER, SET_DUMPABLE, drop_capabilities, prctl

TERMINATE = b"T"
"""SIGTERM to the tree, up to GRACE_S to end, then SIGKILL."""
KILL = b"K"
GRACE_S = 1.0
KILL_S = 1.0
"""How long killed processes may take to be gone; one that hangs in the kernel is counted and left."""

SIGKILL, SIGTERM = 9, 15
RESET_SIGNALS = (1, 2, 3, 13, 14, SIGTERM, 25)
"""HUP, INT, QUIT, PIPE, ALRM, TERM and XFSZ go back to their defaults: Python ignores some, a `nohup` others. The
numbers are those of Linux and macOS; the `signal` module costs 5 ms."""
TICK_MS = 10
"""Where the kernel has no pidfd."""


def main() -> None:
    """Serves the run on fd 0 until it closes, then ends with the last keeper. Never returns."""
    try:
        os.closerange(3, 4096)
        prctl(SET_DUMPABLE, 0)
        prctl(SET_CHILD_SUBREAPER, 1)
        drop_capabilities()
        run = _socket.socket(fileno=os.dup(0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _serve(run, _read_plan(run))
    finally:
        os._exit(0)


def _read_plan(run: _socket.socket) -> Confinement | NotConfined | None:
    """How commands are confined, or why they cannot be; None when they need not be."""
    size = int.from_bytes(read_exactly(run, 4), "little")
    if not size:
        return None
    try:
        return Confinement(read_exactly(run, size))
    except NotConfined as error:
        return error


def read_exactly(source: _socket.socket, size: int) -> bytes:
    """Raises ConnectionResetError at an early end."""
    data = b""
    while len(data) < size:
        chunk = source.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError
        data += chunk
    return data


def _serve(run: _socket.socket, confinement: Confinement | NotConfined | None) -> None:
    keepers: dict[int, int] = {}
    poller = select.poll()
    poller.register(run.fileno(), select.POLLIN)
    is_open = True
    while is_open or keepers:
        ready = poller.poll(TICK_MS if -1 in keepers.values() else None)
        if any(fd == run.fileno() for fd, _ in ready):
            fds = _receive(run)
            if fds is None:
                is_open = False
                poller.unregister(run.fileno())
            elif (pid := _fork_keeper(run, keepers, fds, confinement)) > 0:
                keepers[pid] = _watch(pid, poller)
        ended = [pid for pid in keepers if _reap(pid) is not None]
        for pid in ended:
            _unwatch(keepers.pop(pid), poller)
        if ended:
            kill_strays(set(keepers))
    kill_strays(set())


def _receive(run: _socket.socket) -> list[int] | None:
    """The descriptors of one command: its stdout, its stderr and the socket of its keeper; fewer when this process
    may not have more of them. None at the end."""
    try:
        data, ancillary, _, _ = run.recvmsg(1, _socket.CMSG_SPACE(12))
    except OSError:
        return None
    fds = [
        int.from_bytes(item[at : at + 4], sys.byteorder) for *_, item in ancillary for at in range(0, len(item) - 3, 4)
    ]
    for fd in fds:
        os.set_inheritable(fd, False)
    return fds if data else None


def _fork_keeper(
    run: _socket.socket, keepers: dict[int, int], fds: list[int], confinement: Confinement | NotConfined | None
) -> int:
    """Its pid, or -1 when there cannot be one; the run sees its socket close."""
    try:
        pid = os.fork() if len(fds) == 3 else -1
    except OSError as error:
        os.write(fds[2], b"failed %d process\n" % (error.errno or 0))
        pid = -1
    if pid == 0:
        try:
            run.close()
            for fd in keepers.values():
                if fd >= 0:
                    os.close(fd)
            prctl(SET_CHILD_SUBREAPER, 1)
            _Keeper(_socket.socket(fileno=fds[2]), confinement).keep(fds[0], fds[1])
        finally:
            os._exit(0)
    for fd in fds:
        os.close(fd)
    return pid


def kill_strays(keepers: set[int]) -> None:
    """Kills and reaps all other children: a keeper that was killed by its own command leaves its tree to us."""
    deadline = time.monotonic() + KILL_S
    while strays := [pid for pid in children() if pid not in keepers and _reap(pid) is None]:
        for pid in strays:
            _signal(os.kill, pid, SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.002)


class _Keeper:
    """Holds one command. Every method may run after the run is gone; then answers go nowhere."""

    def __init__(self, control: _socket.socket, confinement: Confinement | NotConfined | None) -> None:
        self.control = control
        self.confinement = confinement
        self.is_wrapped = isinstance(confinement, Confinement) and confinement.is_wrapped
        self.leader = 0
        self.pidfd = -1
        self.status: int | None = None
        self.poller = select.poll()
        self.poller.register(control.fileno(), select.POLLIN)

    def keep(self, stdout: int, stderr: int) -> None:
        place = "request"
        try:
            size = int.from_bytes(read_exactly(self.control, 4), "little")
            program, argv, cwd, env = marshal.loads(read_exactly(self.control, size))
            place = "cwd"
            os.chdir(cwd)
            place = "program"
            self._say("starting 0")
            self._start(program, argv, env, stdout, stderr)
        except NotConfined as error:
            self._say(f"failed {error.errno or 0} {error.place}")
            return
        except OSError as error:
            self._say(f"failed {error.errno or 0} {place}")
            return
        os.close(stdout)
        os.close(stderr)
        self._wait()
        _reap(self.leader)

    def _start(self, program: bytes, argv: list[bytes], env: dict[bytes, bytes], stdout: int, stderr: int) -> None:
        if isinstance(self.confinement, NotConfined):
            raise self.confinement
        if self.confinement is None:
            self.leader = _spawn(program, argv, env, stdout, stderr)
        else:
            self.leader = _fork_confined(self.confinement, program, argv, env, stdout, stderr)
        self.pidfd = _watch(self.leader, self.poller)

    def _wait(self) -> None:
        """Until the leader has ended and nothing is left, or until the run says how to end it."""
        while True:
            is_ticking = self.pidfd < 0 and self.status is None
            if self._is_ordered(TICK_MS if is_ticking else 1000):
                self._end(self._order() == TERMINATE)
                return
            self._reap_others()
            if self.status is None and self._look():
                self._say(f"exited {self.status}")
                if not self._others():
                    self._say("dead 0")
                    return

    def _end(self, is_gentle: bool) -> None:
        if is_gentle:
            self._signal_all(SIGTERM)
            deadline = time.monotonic() + GRACE_S
            while not self._is_gone() and time.monotonic() < deadline:
                if self._is_ordered(TICK_MS):
                    break
        deadline = time.monotonic() + KILL_S
        while not self._is_gone() and time.monotonic() < deadline:
            self._signal_all(SIGKILL)
            time.sleep(0.001)
        left = len(self._others()) + (self.status is None)
        if self.status is not None:
            self._say(f"exited {self.status}")
        self._say(f"dead {left}")

    def _is_ordered(self, timeout_ms: int) -> bool:
        return any(fd == self.control.fileno() for fd, _ in self.poller.poll(timeout_ms))

    def _signal_all(self, number: int) -> None:
        """To the group, and to the daemons that have left it and lost their parent.

        A wrapper would end at a SIGTERM and take the command along before it can clean up, so it is passed over: what
        stands below it ends first, and its first process does not hear signals from outside.
        """
        if self.is_wrapped and number == SIGTERM:
            for pid in _below(self.leader):
                _signal(os.kill, pid, number)
            return
        _signal(os.killpg, self.leader, number)
        for pid in self._others():
            _signal(os.kill, pid, number)

    def _is_gone(self) -> bool:
        self._reap_others()
        return self._look() and not self._others()

    def _look(self) -> bool:
        """Whether the leader has ended. It stays a zombie where possible, so that its group id stays ours."""
        if self.status is None:
            self.status = _peek(self.leader)
            if self.status is not None:
                _unwatch(self.pidfd, self.poller)
                self.pidfd = -1
        return self.status is not None

    def _others(self) -> list[int]:
        return [pid for pid in children() if pid != self.leader]

    def _reap_others(self) -> None:
        for pid in self._others():
            _reap(pid)

    def _order(self) -> bytes:
        try:
            return self.control.recv(1) or KILL
        except OSError:
            return KILL

    def _say(self, line: str) -> None:
        try:
            self.control.send(line.encode() + b"\n")
        except OSError:
            pass  # the run is gone


def _spawn(program: bytes, argv: list[bytes], env: dict[bytes, bytes], stdout: int, stderr: int) -> int:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
    ]
    return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=RESET_SIGNALS)


def _fork_confined(
    confinement: Confinement, program: bytes, argv: list[bytes], env: dict[bytes, bytes], stdout: int, stderr: int
) -> int:
    """As `_spawn`, with the walls put up between fork and exec. Returns when the program is loaded; raises OSError
    when it could not be, NotConfined when a wall does not stand."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        number, place = 0, "process"
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            for reset in RESET_SIGNALS:
                signals.signal(reset, signals.SIG_DFL)
            signals.pthread_sigmask(signals.SIG_SETMASK, ())
            confinement.enter()
            place = "program"
            os.execve(program, argv, env)
        except NotConfined as error:
            place, number = error.place, error.errno or 0
        except OSError as error:
            number = error.errno or 0
        finally:
            os.write(said, b"%d %s" % (number, place.encode()))
            os._exit(127)
    os.close(said)
    failure = os.read(heard, 100)
    os.close(heard)
    if failure:
        os.waitpid(pid, 0)
        code, _, place = failure.decode().partition(" ")
        raise OSError(int(code), place) if place in ("program", "process") else NotConfined(place, int(code))
    return pid


def _below(pid: int) -> list[int]:
    """The descendants of a process, as far as they have parents among them."""
    found = []
    waiting = [pid]
    while waiting:
        inner = children(waiting.pop())
        found += inner
        waiting += inner
    return found


def children(parent: int = 0) -> list[int]:
    """The children of a process, zombies too; without a number, of this one. Of others those of the first thread.
    Only on Linux; elsewhere there are only groups."""
    me = parent or os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return _children_by_scan(me) if sys.platform == "linux" else []


def _children_by_scan(parent: int) -> list[int]:
    """For kernels that were built without the list of children."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    fields = stat.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
    return found


def _peek(pid: int) -> int | None:
    """The exit status of a child, negative for a signal; None while it runs."""
    if not hasattr(os, "waitid"):
        return _reap(pid)
    try:
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return -SIGKILL
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _reap(pid: int) -> int | None:
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -SIGKILL  # already reaped: it is gone, and how it ended is not known
    return os.waitstatus_to_exitcode(status) if found else None


def _watch(pid: int, poller: select.poll) -> int:
    """A descriptor that becomes readable when the child ends, or -1."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
    poller.register(fd, select.POLLIN)
    return fd


def _unwatch(fd: int, poller: select.poll) -> None:
    if fd >= 0:
        poller.unregister(fd)
        os.close(fd)


def _signal(send: object, pid: int, number: int) -> None:
    try:
        send(pid, number)  # type: ignore[operator]  # os.kill or os.killpg; typing costs 4 ms
    except (ProcessLookupError, PermissionError):
        pass
