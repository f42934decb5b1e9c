"""Where processes start: argv without a shell, own session, a deadline, a scrubbed environment.

`run` is for the helpers of agentctl itself (shfmt, git, rg). Whatever a model or an extension causes goes through
sandbox/process.py, which lets a `Watcher` start it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from signal import SIGKILL
from typing import TYPE_CHECKING

from agentctl.core.record import Record

if TYPE_CHECKING:
    import socket
    import subprocess

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_OUTPUT = 8 * 1024 * 1024
HELD_PIPE_S = 0.5
"""How long the pipes of a program that has ended are still read when something else holds them open."""
CLOSE_S = 0.2
"""How long the end of a run waits for its watcher, which needs about 1 ms when no command is left."""

_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "SYSTEMROOT",
)
_SET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "TERM": "dumb",
}


class ProgramMissing(FileNotFoundError):
    """There is no such program. `program` is the word that was looked for."""

    def __init__(self, program: str) -> None:
        super().__init__(f"the program {program!r} was not found on PATH")
        self.program = program


class Finished(Record):
    """How a program ended."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes
    is_timed_out: bool = False
    is_truncated: bool = False
    """It wrote more than it was allowed to and was killed; both outputs hold what came before."""


def small_environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """What helpers of agentctl see: path, home, locale, and settings that keep them from asking. No secrets."""
    source = os.environ if env is None else env
    kept = {name: source[name] for name in _KEPT if name in source}
    return {"PATH": DEFAULT_PATH, **kept, **_SET}


def find_program(name: str, path: str | None = None, cwd: str | None = None) -> str | None:
    """The absolute path of a program, or None. Relative entries of PATH are skipped: they would name the workspace.

    A name with a slash is taken relative to `cwd`.
    """
    if "/" in name:
        full = os.path.join(cwd or os.getcwd(), name)  # noqa: PTH109, PTH118  # pathlib would normalise the name
        return full if _is_program(full) else None
    for folder in (os.environ.get("PATH", DEFAULT_PATH) if path is None else path).split(":"):
        full = f"{folder}/{name}"
        if folder.startswith("/") and _is_program(full):
            return full
    return None


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)  # noqa: PTH112  # pathlib costs 4 ms


def restart_in_utf8() -> None:
    """This very command again, with arguments and file names read as UTF-8. Returns when that was tried already."""
    import sys

    if os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, sys.orig_argv)


def run(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    stdin: bytes = b"",
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
) -> Finished:
    """Runs a helper to its end and blocks until then, at most `timeout_s` and a moment.

    `env` is the whole environment; without it `small_environment()` is used. Raises ProgramMissing, and OSError when
    the system cannot start it.
    """
    from subprocess import PIPE  # 8 ms when asyncio is not loaded yet, as for --version

    process = start(argv, cwd=cwd, env=env, stdin=PIPE if stdin else None, stdout=PIPE, stderr=PIPE)
    exchange = _Exchange(process, stdin, max_output)
    try:
        stopped = exchange.pump(time.monotonic() + timeout_s)
    finally:
        exchange.end()
    return Finished(
        exit_code=process.returncode,
        stdout=exchange.stdout,
        stderr=exchange.stderr,
        is_timed_out=stopped == "deadline",
        is_truncated=stopped == "output",
    )


def start(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a program in its own session and returns at once. Streams are descriptors or subprocess.PIPE;
    None is /dev/null. Raises ProgramMissing and OSError.
    """
    import subprocess

    whole = small_environment() if env is None else dict(env)
    program = find_program(argv[0], whole.get("PATH"), None if cwd is None else os.fspath(cwd))
    if program is None:
        raise ProgramMissing(argv[0])
    null = subprocess.DEVNULL
    # close_fds would close a million descriptors one by one where /proc/self/fd is unreadable, as it is for an ordinary
    # user once agentctl is not dumpable. Python opens everything close-on-exec, so nothing of ours is inherited.
    return subprocess.Popen(
        list(argv),
        executable=program,
        cwd=cwd,
        env=whole,
        stdin=null if stdin is None else stdin,
        stdout=null if stdout is None else stdout,
        stderr=null if stderr is None else stderr,
        bufsize=0,
        start_new_session=True,
        close_fds=False,
    )


class Launched(Record):
    """A command that is about to start: descriptors of this process, non-blocking, that the caller closes."""

    control: int
    """The socket to the keeper of the command; what is said on it stands in core/watcher.py. Closing it kills."""
    request: bytes
    """The first thing that has to be written to it."""
    stdout: int
    stderr: int


_ending: list[subprocess.Popen[bytes]] = []
"""Watchers that took longer to end, as on a busy machine; they are reaped when the next one ends."""


class Watcher:
    """The process below this run that starts its commands. Started at the first use, and again when it was killed.

    Ends by itself, and all commands with it, when this process is gone. `plan` (core/confine.py) confines every
    command; one that cannot be confined by it does not run.
    """

    def __init__(self, plan: bytes = b"") -> None:
        self._plan = plan
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.losses = 0
        """How often it was killed by somebody else."""

    def start(self) -> None:
        """Takes 1 ms; the process is ready about 15 ms later, and whatever is launched before that waits for it."""
        self._started()

    def _started(self) -> socket.socket:
        import socket
        import sys
        from pathlib import Path

        if self._socket is None:
            ours, theirs = socket.socketpair()
            root = str(Path(__file__).parents[2])
            code = f"import sys; sys.path.append({root!r}); from agentctl.core.watcher import main; main()"
            argv = [sys.executable, "-I", "-S", "-c", code]
            with theirs:
                self._process = start(argv, cwd="/", env={"LC_ALL": "C.UTF-8"}, stdin=theirs.fileno())
            ours.sendall(len(self._plan).to_bytes(4, "little") + self._plan)
            self._socket = ours
        return self._socket

    def launch(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Launched:
        """Hands a command over. Raises ProgramMissing, ValueError for a word that no program can get (a NUL byte),
        and OSError. Whether it really started is said on the control socket."""
        import socket

        request = _request(argv, cwd, env)
        with ExitStack() as ours, ExitStack() as theirs:
            control, remote = socket.socketpair()
            ours.callback(control.close)
            theirs.callback(remote.close)
            out_read, out_write = _pipe(ours, theirs)
            err_read, err_write = _pipe(ours, theirs)
            self._hand_over([out_write, err_write, remote.fileno()])
            ours.pop_all()
        control.setblocking(False)
        return Launched(control=control.detach(), request=request, stdout=out_read, stderr=err_read)

    def close(self) -> None:
        """Lets the watcher end and waits a moment for it."""
        from subprocess import TimeoutExpired

        if self._socket is None or self._process is None:
            return
        self._socket.close()
        self._socket = None
        try:
            if self._process.wait(CLOSE_S) < 0:
                self.losses += 1
        except TimeoutExpired:
            _ending.append(self._process)
        _ending[:] = [process for process in _ending if process.poll() is None]

    def _hand_over(self, fds: list[int]) -> None:
        from socket import send_fds

        try:
            send_fds(self._started(), [b"+"], fds)
        except (BrokenPipeError, ConnectionResetError):
            self.close()
            send_fds(self._started(), [b"+"], fds)


def kill_adopted() -> None:
    """Kills the children of this process that it did not start: daemons of a command that killed its watchers first.

    Only for a process that adopts orphans and whose own children have all ended.
    """
    from agentctl.core.watcher import kill_strays

    kill_strays(set())


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    os.set_blocking(read, False)
    return read, write


def _request(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> bytes:
    import marshal

    program = find_program(argv[0], env.get("PATH", DEFAULT_PATH), cwd)
    if program is None:
        raise ProgramMissing(argv[0])
    words = [word.encode("utf-8", "surrogateescape") for word in (program, cwd, *argv)]
    pairs = {
        name.encode("utf-8", "surrogateescape"): value.encode("utf-8", "surrogateescape") for name, value in env.items()
    }
    if any(b"\0" in word for word in (*words, *pairs, *pairs.values())):
        raise ValueError("a command cannot hold a NUL byte")
    body = marshal.dumps((words[0], words[2:], words[1], pairs))
    return len(body).to_bytes(4, "little") + body


class _Exchange:
    """Feeds stdin and drains both outputs of one program, within its deadline and its share of memory."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, max_output: int) -> None:
        self._process = process
        self._unsent = memoryview(stdin)
        self._room = max_output
        self._poller = select.poll()
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
        self._chunks: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in self._pipes}
        self._stdin, self._stdout, self._stderr = (
            -1 if pipe is None else pipe.fileno() for pipe in (process.stdin, process.stdout, process.stderr)
        )
        for fd in self._chunks:
            os.set_blocking(fd, False)
            self._poller.register(fd, select.POLLOUT if fd == self._stdin else select.POLLIN)
        self._open = set(self._chunks)
        self._pidfd = _open_pidfd(process.pid)
        if self._pidfd >= 0:
            self._poller.register(self._pidfd, select.POLLIN)

    @property
    def stdout(self) -> bytes:
        return b"".join(self._chunks[self._stdout])

    @property
    def stderr(self) -> bytes:
        return b"".join(self._chunks[self._stderr])

    def pump(self, deadline: float) -> str:
        """Returns when the outputs are at their end and the program has ended (empty), or why it has to be stopped:
        deadline, output (too much of it) or held (it ended, but something else keeps its pipes open)."""
        held_until = float("inf")
        tick_s = 60.0 if self._pidfd >= 0 else 0.01
        while True:
            has_ended = self._has_ended()
            if has_ended and not self._open:
                return ""
            now = time.monotonic()
            if has_ended:
                held_until = min(held_until, now + HELD_PIPE_S)
                self._forget_pidfd()
            if now > min(deadline, held_until):
                return "deadline" if deadline <= held_until else "held"
            for fd, _ in self._poller.poll(1 + 1000 * min(deadline - now, held_until - now, tick_s)):
                if fd != self._pidfd:
                    self._serve(fd)
            if self._room < 0:
                return "output"

    def end(self) -> None:
        """Kills what is left of the group of a program that has not come to its end by itself, and reaps it."""
        if self._open or not self._has_ended():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, SIGKILL)
        self._forget_pidfd()
        for pipe in self._pipes:
            pipe.close()
        self._process.wait()

    def _has_ended(self) -> bool:
        """Leaves the zombie where the system can: as long as it is there, its group id belongs to nobody else."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _forget_pidfd(self) -> None:
        if self._pidfd >= 0:
            self._poller.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _serve(self, fd: int) -> None:
        try:
            is_over = self._feed() if fd == self._stdin else self._drain(fd)
        except BlockingIOError:
            return
        except BrokenPipeError:
            is_over = True
        if is_over:
            self._poller.unregister(fd)
            self._open.discard(fd)
            if fd == self._stdin and self._process.stdin is not None:
                self._process.stdin.close()

    def _feed(self) -> bool:
        self._unsent = self._unsent[os.write(self._stdin, self._unsent) :]
        return not self._unsent

    def _drain(self, fd: int) -> bool:
        chunk = os.read(fd, 65536)
        self._chunks[fd].append(chunk[: max(0, self._room)])
        self._room -= len(chunk)
        return not chunk


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return -1
