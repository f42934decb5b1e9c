"""Every way to hide a command that is known from the field, as a table: tests/cases/shell_rows.jsonl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.policy.policy_world import World

ROWS = [
    json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "shell_rows.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_row(row: dict[str, object], tmp_path: Path) -> None:
    world = World(
        tmp_path,
        allow=[f"bash:{text}" for text in row["allow"]],  # type: ignore[attr-defined]  # a list of texts in the file
        deny=[f"bash:{text}" for text in row["deny"]],  # type: ignore[attr-defined]  # as above
        is_yolo=bool(row["yolo"]),
    )
    decision = world.bash(str(row["command"]))
    assert (decision.verdict, decision.runs) == (row["verdict"], row["verdict"] == "allow"), decision


def test_rows_are_many_and_distinct() -> None:
    assert len(ROWS) > 90
    assert len({row["id"] for row in ROWS}) == len(ROWS)


def test_quoted_documents_and_comments_are_no_commands(tmp_path: Path) -> None:
    """Text that only mentions a denied program passes."""
    world = World(tmp_path, allow=["bash:echo *", "bash:cat *"], deny=["bash:canary *"])
    for line in ("cat <<'X'\n$(canary x)\nX", "echo hi # ; canary x", "echo 'canary x'", 'echo "; canary x"'):
        assert world.bash(line).runs, line
