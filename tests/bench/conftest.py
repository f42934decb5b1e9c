"""Fixtures of the benches."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.measure import HERE


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENAI_API_KEY": "sk-bench"}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    port = tmp_path / "port"
    process = subprocess.Popen([sys.executable, str(HERE / "canned.py"), str(port)])
    deadline = time.monotonic() + 10
    while not port.exists() or not port.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port.read_text()}/v1"
    process.kill()
    process.wait()
