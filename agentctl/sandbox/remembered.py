"""What the sandbox was found to be worth on this machine, so that a run which calls no command pays nothing for it.

The answer of a machine does not change until its kernel, its user, its container or agentctl does. Only the best is
remembered: where a level did not hold although it could be tried, it is tried again each time. And whatever stands
here, a command whose walls do not stand does not run.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentctl.core.codec import dumps, loads
from agentctl.core.confine import landlock_version
from agentctl.core.files import make_private_dir, read_limited, replace_file
from agentctl.core.prctl import GET_DUMPABLE, prctl
from agentctl.core.record import Record
from agentctl.version import __version__

CACHE_FILE = "sandbox.json"
MAX_ROWS = 32

_FACTS = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/attr/current",
)


class Chosen(Record):
    """What commands of a run get: the level, what they can reach, and what does not hold."""

    level: int
    network: str
    missing: tuple[str, ...]
    fix: str


class Remembered:
    """What was proven on this machine under these circumstances, in the cache home. Never raises."""

    def __init__(self, folder: Path, key: Sequence[object]) -> None:
        from hashlib import sha256

        self._path = folder / CACHE_FILE
        self._key = sha256(dumps([str(item) for item in key])).hexdigest()

    def get(self) -> Chosen | None:
        row = self._read().get(self._key, ())
        try:
            level, network, missing, fix = row
            return Chosen(level=int(level), network=str(network), missing=tuple(map(str, missing)), fix=str(fix))
        except (TypeError, ValueError):
            return None

    def put(self, chosen: Chosen) -> None:
        """Another run may write at the same time: the last one counts, and all of them are true."""
        rows = {**self._read(), self._key: [chosen.level, chosen.network, list(chosen.missing), chosen.fix]}
        kept = dict(list(rows.items())[-MAX_ROWS:])
        try:
            make_private_dir(self._path.parent)
            replace_file(self._path, dumps(kept) + b"\n", mode=0o600, syncs=False)
        except OSError:
            return

    def forget(self) -> None:
        """After a command whose walls did not stand."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        try:
            rows = loads(read_limited(self._path, 100_000))
        except (OSError, ValueError):
            return {}
        return rows if isinstance(rows, dict) else {}


def circumstances(root: Path, network: str, bwrap: str | None) -> list[object]:
    """What a proof depends on: kernel and boot, user and container, agentctl, the workspace, bubblewrap."""
    release = os.uname()
    who = (__version__, sys.executable, os.getuid(), os.geteuid(), prctl(GET_DUMPABLE))
    kernel = (release.release, release.version, release.machine, landlock_version())
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    files = [_stamp(Path(path)) for path in (bwrap, __file__, root) if path]
    spaces = [_link(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid", "net")]
    return [network, bwrap, *who, *kernel, *limits, *files, *spaces, *map(_read, _FACTS), _status()]


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    whose = (found.st_dev, found.st_uid, found.st_gid, found.st_mode)
    return (*whose, path.parts[:2]) if path.is_dir() else (*whose, found.st_mtime_ns)


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115  # a name of the kernel, no path
    except OSError:
        return None


def _status() -> list[str]:
    wanted = ("CapBnd", "CapEff", "NoNewPrivs", "Seccomp")
    try:
        rows = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    return [row for row in rows if row.startswith(wanted)]
