"""Programs that run a command somewhere in their arguments, but whose grammar is not ours: a rule has to allow them by
name. Every tail of their arguments is still shown to guards and deny rules, and so is the shell text they are given."""

from __future__ import annotations

from collections.abc import Sequence

from agentctl.core.record import Record


class Runner(Record):
    """How a program is given a command. `words` are the program and its subcommand."""

    words: tuple[str, ...]
    reach: int
    """How many of the first operands may be the program, for when a word is not known before it runs."""
    texts: tuple[str, ...] = ()
    """Options whose value is shell text."""
    is_permuted: bool = False
    """Its options may also stand behind operands; otherwise they belong to the program there."""
    joins: bool = False
    """Operands are joined and given to a shell."""
    is_elsewhere: bool = False
    """The command runs on other files."""
    is_remote: bool = False
    """It runs on another machine: guards, which are about this one, do not see it."""


def _rows(reach: int, *commands: str, **facts: bool | tuple[str, ...]) -> tuple[Runner, ...]:
    return tuple(Runner(words=tuple(command.split()), reach=reach, **facts) for command in commands)  # type: ignore[arg-type]  # facts are fields of Runner


_CALL = ("-c", "--call")
_COMMAND = ("-c", "--command")

RUNNERS: tuple[Runner, ...] = (
    *_rows(
        1, "uv run", "uv tool run", "uvx", "pipx run", "poetry run", "pdm run", "pipenv run", "rye run", "pixi run",
        "conda run", "bundle exec", "bunx", "bun x", "pnpm dlx", "pnpx", "yarn exec", "yarn dlx", "direnv exec",
        "nix run", "nix develop", "nix shell", "guix shell", "flatpak run", "op run", "doppler run",
        "aws-vault exec", "chamber exec", "cross-env", "dotenv", "dotenvx run",
    ),
    *_rows(1, "npx", "npm exec", "npm x", texts=_CALL),
    *_rows(1, "mise exec", "mise x", texts=_COMMAND),
    *_rows(1, "nix-shell", texts=("--run", "--command"), is_permuted=True),
    *_rows(1, "pnpm exec", "hatch run", "devbox run", "cross-env-shell", "concurrently", joins=True),
    *_rows(
        1, "hyperfine", joins=True, texts=("-p", "--prepare", "-s", "--setup", "-c", "--cleanup", "-C", "--conclude"),
        is_permuted=True,
    ),
    *_rows(
        0, "docker exec", "docker run", "podman exec", "podman run", "kubectl exec", "docker compose",
        "docker-compose", "oc exec", "nerdctl run", "nerdctl exec", texts=("-c",), is_permuted=True, is_elsewhere=True,
    ),
    *_rows(
        64, "chronic", "unbuffer", "fakeroot", "xvfb-run", "dbus-run-session", "dbus-launch", "strace", "ltrace",
        "chroot", "unshare", "nsenter", "setpriv", "systemd-run", "prlimit", "chrt", "numactl", "proot", "setarch",
        "uclampset", "runcon", "capsh", "logsave", "pkexec", "gosu", "su-exec", "tini", "dumb-init", "setuidgid",
        "faketime", "eatmydata", "valgrind", "perf", "catchsegv", "cpulimit", "firejail", "bwrap", "torsocks",
        "proxychains", "proxychains4", "ssh-agent", "cgexec", "sshpass", "start-stop-daemon", "ld.so",
        "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
    ),
    *_rows(64, "parallel", "sem", "watch", joins=True),
    *_rows(64, "entr", joins=True, texts=("-s",)),
    *_rows(64, "script", "runuser", "su", texts=(*_COMMAND, "--session-command"), is_permuted=True),
    *_rows(64, "sg", joins=True, texts=("-c",), is_permuted=True),
    *_rows(0, "ssh", "autossh", "mosh", is_elsewhere=True, is_remote=True),
)  # fmt: skip

_BY_PROGRAM: dict[str, list[Runner]] = {}
for _row in RUNNERS:
    _BY_PROGRAM.setdefault(_row.words[0], []).append(_row)


def is_runner(name: str) -> bool:
    """Whether the program runs others with some subcommand."""
    return name in _BY_PROGRAM


def find_runner(names: Sequence[str]) -> Runner | None:
    """The row of a command by the known texts of its words."""
    for row in _BY_PROGRAM.get(names[0], ()):
        if tuple(names[: len(row.words)]) == row.words:
            return row
    return None
