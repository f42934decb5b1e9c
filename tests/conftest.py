"""Isolation for every test: an empty home and config, a temporary folder, a clean environment, loopback only."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

KEPT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTEST_XDIST_WORKER",
    "PYTEST_CURRENT_TEST",
    "COVERAGE_RUN",
)


@pytest.fixture(autouse=True)
def isolation(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home, config and state of this test lie in their own folder; the test starts in an empty one."""
    world = tmp_path_factory.mktemp("world")
    for name in ("home", "cwd", "agentctl", "tmp"):
        (world / name).mkdir()
    for name in list(os.environ):
        if name not in KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(world / "home"))
    monkeypatch.setenv("AGENTCTL_HOME", str(world / "agentctl"))
    monkeypatch.setenv("TMPDIR", str(world / "tmp"))
    monkeypatch.chdir(world / "cwd")
    return world


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that would reach another machine fails instead."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address!r}")
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
