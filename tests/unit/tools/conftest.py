"""The fixture that the tests of the file tools share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tools.file_tools import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
