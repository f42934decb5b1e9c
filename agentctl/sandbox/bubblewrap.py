"""Level 3: the command line of bubblewrap, which gives a command file system, processes and network of its own.

The root is read-only; only the roots of the run are bound writable, and what decides over runs is bound read-only
again inside them. Sockets of other programs are out of sight, because a read-only mount does not stop a connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentctl.core.confine import FILTER_FD
from agentctl.core.spawn import DEFAULT_PATH

HIDDEN_FOLDERS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/glab-cli",
    ".config/op", ".config/rclone", ".password-store", ".local/share/keyrings", ".terraform.d",
)  # fmt: skip
HIDDEN_FILES = (
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".config/git/credentials",
    ".vault-token", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
)  # fmt: skip
"""Below HOME: where keys usually lie. Commands see an empty folder or an empty file."""

TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")
"""All of them are the private one."""
EMPTY_FOLDERS = ("/run", "/var/run")
"""Sockets of services, that of Docker among them."""
_ELSEWHERE = ("/proc/", "/dev/", "/run/", "/var/run/", "/tmp/", "/var/tmp/")
_MAX_SOCKETS = 256


def find_bwrap(path: str | None, roots: Sequence[Path]) -> str | None:
    """The bubblewrap of PATH, as absolute path. One that commands could have written does not count."""
    for folder in (path or DEFAULT_PATH).split(":"):
        found = Path(folder, "bwrap")
        if not folder.startswith("/") or not os.access(found, os.X_OK) or not found.is_file():
            continue
        if not any(place.is_relative_to(root) for place in (found, found.resolve()) for root in roots):
            return str(found)
    return None


def outer_words(bwrap: str, network: str) -> list[str]:
    """The namespaces. `network` is off, loopback or on; with `off` seccomp takes the sockets, too."""
    words = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if network != "on":
        words.append("--unshare-net")
    return [*words, "--die-with-parent", "--cap-drop", "ALL", "--seccomp", str(FILTER_FD)]


def file_words(
    *,
    roots: Sequence[Path],
    private: Sequence[Path],
    env: Mapping[str, str],
    hidden: Sequence[Path],
    shown: Sequence[str],
) -> list[str]:
    """The file system. `private` are TMPDIR, which stands for /tmp as well, and the other private folders; `hidden`
    are folders of agentctl itself that commands need not see, `shown` what stands again in a covered folder."""
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for folder in filter(covers, TEMPORARY_FOLDERS):
        words += ["--bind", str(private[0]), folder]
    for folder in filter(covers, EMPTY_FOLDERS):
        words += ["--tmpfs", folder]
    for again in shown:
        words += ["--ro-bind", again, again]
    for path in _hidden(env, hidden, roots):
        words += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
    for root in (*roots, *private):
        words += ["--bind", str(root), str(root)]
    return words


def covers(folder: str) -> bool:
    """Whether it is a folder of this machine and not a name for another one."""
    return Path(folder).is_dir() and not Path(folder).is_symlink()


def protect_words(folders: Sequence[Path], read_only: Sequence[Path]) -> list[str]:
    """Holds `folders` in their place (a mount point cannot be renamed) and makes `read_only` unwritable."""
    words = []
    for folder in folders:
        words += ["--bind", str(folder), str(folder)]
    for path in read_only:
        words += ["--ro-bind", str(path), str(path)]
    return words


def cover_words(paths: Sequence[str]) -> list[str]:
    """Puts an empty file over each; bubblewrap fails for one that is gone by then."""
    return [word for path in paths for word in ("--ro-bind", "/dev/null", path)]


def shown_again(env: Mapping[str, str], network: str) -> list[str]:
    """Programs and the name servers, where they lie in a folder that is covered."""
    import sys

    wanted = [*env.get("PATH", "").split(":"), env.get("VIRTUAL_ENV", ""), sys.prefix, sys.base_prefix]
    wanted.append(str(Path(__file__).parents[2]))
    if network == "on":
        wanted.append(os.path.realpath("/etc/resolv.conf"))
    covered = (*TEMPORARY_FOLDERS, *EMPTY_FOLDERS)
    found = [path for path in wanted if any(path.startswith(f"{folder}/") for folder in covered)]
    return [path for path in dict.fromkeys(found) if os.path.exists(path)]  # noqa: PTH110  # strings throughout


def _hidden(env: Mapping[str, str], own: Sequence[Path], roots: Sequence[Path]) -> list[Path]:
    home = Path(env.get("HOME") or "/nonexistent")
    named = [home / name for name in HIDDEN_FOLDERS if (home / name).is_dir()]
    named += [home / name for name in HIDDEN_FILES if (home / name).is_file()]
    real = dict.fromkeys(path.resolve() for path in (*named, *(folder for folder in own if folder.is_dir())))
    return [path for path in real if not any(root.is_relative_to(path) for root in roots)]


def sockets(roots: Sequence[Path], shown: Sequence[str]) -> list[str]:
    """Sockets of other programs that would be left in sight at this moment. `shown` are folders that stand again in
    one that is covered."""
    try:
        rows = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    found = dict.fromkeys(row.split(None, 7)[7] for row in rows if len(row.split(None, 7)) == 8)
    again = tuple(f"{folder}/" for folder in shown)
    paths = [
        path for path in found if path.startswith("/") and (path.startswith(again) or not path.startswith(_ELSEWHERE))
    ]
    outside = [path for path in paths if not any(Path(path).is_relative_to(root) for root in roots)]
    return [path for path in outside if os.path.exists(path)][:_MAX_SOCKETS]  # noqa: PTH110  # strings throughout
