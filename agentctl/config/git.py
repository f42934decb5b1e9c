"""Runs git without letting the repository run anything.

A checkout's own settings can name programs (fsmonitor, hooks, pager, textconv, a fetch for missing objects). All of
these are off, nothing reaches the network, and a git that lies in the workspace is never the one that is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentctl.core.text import one_line

_HARDENED = (
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "protocol.allow=never"),
    *("-c", "safe.bareRepository=explicit"),
    *("-c", "safe.directory=*"),  # reading with the rest off is safe, and CI checkouts have other owners
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}


def run_git(
    root: Path, *arguments: str, timeout_s: float, env: Mapping[str, str] | None = None
) -> tuple[bytes | None, str]:
    """The output of a git command in `root`, or None and the reason in git's words."""
    import agentctl.core.spawn as spawn  # most runs never start git

    try:
        ended = spawn.run(
            ("git", *_HARDENED, *arguments),
            cwd=str(root),
            timeout_s=timeout_s,
            env={**_ENVIRONMENT, **(env or {}), "PATH": path_outside(root)},
        )
    except OSError as error:
        return None, f"git did not start: {error.strerror or error}"
    if ended.exit_code != 0:
        said = one_line(ended.stderr.decode("utf-8", "replace"))
        return None, said or f"git ended with {ended.exit_code}"
    return ended.stdout, ""


def path_outside(root: Path) -> str:
    """PATH without folders of the workspace, so that a checkout cannot bring its own programs."""
    real = root.resolve()
    folders = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    kept = [folder for folder in folders if folder.is_absolute() and not folder.resolve().is_relative_to(real)]
    return os.pathsep.join(map(str, kept))
