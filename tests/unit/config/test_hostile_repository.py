"""A checkout whose settings name programs: agentctl's own git calls run none of them, plain git does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl.config.git import run_git
from agentctl.config.repository import status

ENVIRONMENT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, env=ENVIRONMENT, check=False, capture_output=True)


class Checkout:
    """A repository with one changed file and a program that leaves a mark."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.mark = folder / "ran"
        self.program = folder / "program.sh"
        self.program.write_text(f"#!/bin/sh\ntouch '{self.mark}'\ncat\n")
        self.program.chmod(0o755)
        self.root.mkdir()
        git(self.root, "init", "-q")
        (self.root / "a.txt").write_text("a\n")
        (self.root / "old").write_text("a\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "first")
        self.touch()

    def touch(self) -> None:
        """The same size and another time: git has to look at the contents."""
        (self.root / "a.txt").write_text("b\n")
        os.utime(self.root / "a.txt", (978307200, 978307200))

    def config(self, key: str, value: str) -> None:
        git(self.root, "config", key, value)


def fsmonitor(checkout: Checkout) -> None:
    checkout.config("core.fsmonitor", str(checkout.program))


def hook(checkout: Checkout) -> None:
    (checkout.root / ".git" / "hooks" / "post-index-change").symlink_to(checkout.program)
    os.utime(checkout.root / "old", (978307200, 978307200))  # the same contents: plain status refreshes the index


def clean_filter(checkout: Checkout) -> None:
    (checkout.root / ".gitattributes").write_text("*.txt filter=e=v.il\n")
    checkout.config("filter.e=v.il.clean", str(checkout.program))
    checkout.config("filter.e=v.il.required", "true")


def filter_process(checkout: Checkout) -> None:
    (checkout.root / ".git" / "info").mkdir(exist_ok=True)
    (checkout.root / ".git" / "info" / "attributes").write_text("*.txt filter=evil\n")
    included = checkout.root / ".git" / "more"
    included.write_text(f'[filter "evil"]\n\tprocess = {checkout.program}\n')
    checkout.config("include.path", "more")


def submodule(checkout: Checkout) -> None:
    inner = Checkout(checkout.root.parent / "inner-made-here")
    inner.root.rename(checkout.root / "sub")
    git(checkout.root, "-c", "protocol.file.allow=always", "submodule", "add", "./sub", "sub")
    git(checkout.root, "commit", "-qm", "sub")
    inside = checkout.root / "sub"
    git(inside, "config", "filter.evil.clean", str(checkout.program))
    (inside / ".git" / "info").mkdir(exist_ok=True)
    (inside / ".git" / "info" / "attributes").write_text("*.txt filter=evil\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "inner-made-here").mkdir()
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    "trap", [fsmonitor, hook, clean_filter, filter_process, submodule], ids=lambda trap: trap.__name__
)
def test_a_repository_runs_nothing(trap: Callable[[Checkout], None], checkout: Checkout) -> None:
    trap(checkout)
    checkout.mark.unlink(missing_ok=True)
    found = status(checkout.root)
    assert found is not None
    assert found["a.txt"][0] == " M"
    assert run_git(checkout.root, "rev-parse", "HEAD", timeout_s=10)[0]
    assert not checkout.mark.exists()
    git(checkout.root, "status")
    assert checkout.mark.exists(), "the control: plain git runs the program"
