"""Every known way out of the jail, into the secrets and around the end of a run has a test.

The table is tests/cases/containment_rows.jsonl.
A row names what must hold and the tests that show it, or the platform or part that is missing.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [json.loads(line) for line in (ROOT / "tests/cases/containment_rows.jsonl").read_text().splitlines()]
GROUPS = {"b": 38, "d": 30, "f": 39}
"""Jail, secrets and output, processes and disk. What only a sandbox level holds is not among them."""


def test_the_rows_are_all_there() -> None:
    names = [row["id"] for row in ROWS]
    assert len(set(names)) == len(names)
    assert {group: sum(name.startswith(f"{group}-") for name in names) for group in GROUPS} == GROUPS


def test_few_rows_are_not_applicable_and_each_says_why() -> None:
    left_out = [row for row in ROWS if "not_applicable" in row]
    assert len(left_out) <= len(ROWS) * 0.05
    assert all("not" in row["not_applicable"] and len(row["not_applicable"]) > 20 for row in left_out)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["id"]))
def test_the_tests_of_a_row_are_there(row: dict[str, object]) -> None:
    assert set(row) in ({"id", "says", "tests"}, {"id", "says", "not_applicable"})
    for place in row.get("tests", ()):  # type: ignore[attr-defined]  # a list of texts in the file
        file, _, function = place.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(), place
