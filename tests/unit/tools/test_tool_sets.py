"""Tools from the catalogue: nothing is loaded before the first call, everything is there for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.config.workspace import Workspace
from agentctl.core import codec
from agentctl.core.errors import InvalidArguments, ToolFailure
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.core.types import Subject, ToolResult
from agentctl.tools.sets import CLASSES, catalogue_tools, make_tools, read_catalogue
from tests.unit.tools.file_tools import Desk

PROJECT = Path(__file__).parents[3]


def test_the_catalogue_is_in_step_with_the_tools() -> None:
    argv = [sys.executable, str(PROJECT / "scripts" / "build_tools.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=PROJECT)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_catalogue_is_in_step_with_the_table_of_names() -> None:
    rows = read_catalogue()
    assert list(rows) == list(TOOL_NAMES)
    for name, row in rows.items():
        assert (row["set"], row["effect"]) == (TOOL_NAMES[name].set, TOOL_NAMES[name].effect)
        parameters = row["parameters"]
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert set(parameters["required"]) <= set(parameters["properties"])


def test_the_tools_stay_small_on_the_wire() -> None:
    rows = read_catalogue()
    sizes = {
        name: len(codec.dumps({key: row[key] for key in ("name", "description", "parameters")}))
        for name, row in rows.items()
    }
    assert sum(size for name, size in sizes.items() if TOOL_NAMES[name].set == "core") < 2_800
    assert sum(sizes.values()) < 8_500


def make(workspace: Workspace, **options: Any) -> dict[str, Any]:
    absent: Any = None  # the shell is not called here
    parts = {"may_read": lambda path: True, "extra": {}, **options}
    return make_tools(
        workspace=workspace,
        runner=absent,
        outputs=absent,
        emit=absent,
        redactor=absent,
        shell=(),
        default_timeout_s=1.0,
        **parts,
    )


def test_tools_run_as_dispatch_runs_them(desk: Desk) -> None:
    desk.put("secret/a", "needle\n")
    desk.put("open/a", "needle\n")
    tools = make(desk.workspace, may_read=lambda path: not path.startswith("secret/"))
    assert list(tools) == [name for name in TOOL_NAMES if name in CLASSES and name != "ask"]
    args = tools["grep"].parse({"pattern": "needle"})
    assert args == {"pattern": "needle"}
    assert tools["grep"].spec.subjects(args) == (Subject(kind="path", value="."),)
    assert asyncio.run(tools["grep"].run("c9", args)) == ToolResult(
        call_id="c9",
        content="open/a:1: needle\n[1 file(s) left out: the policy does not allow reading them]",
        summary="1 lines match needle",
    )
    with pytest.raises(InvalidArguments):
        tools["read_file"].parse({"file": "a"})


def test_other_planes_bring_their_tools() -> None:
    workspace = Workspace(Path.cwd())
    made = make(workspace, extra={name: lambda: None for name in TOOL_NAMES if name not in CLASSES or name == "ask"})
    assert list(made) == list(TOOL_NAMES)


def test_tools_for_judging_only() -> None:
    tools = catalogue_tools()
    assert list(tools) == list(TOOL_NAMES)
    args = tools["move_file"].parse({"from": "a", "to": "b"})
    assert args == {"from": "a", "to": "b"}
    assert [subject.value for subject in tools["move_file"].spec.subjects(args)] == ["a", "b"]
    assert tools["todo_write"].parse({"todos": []}) == {"todos": []}
    assert tools["todo_write"].spec.subjects({}) == ()
    with pytest.raises(ToolFailure, match="delete_file is only described here"):
        asyncio.run(tools["delete_file"].run("c1", {"path": "a"}))
    with pytest.raises(InvalidArguments):
        tools["delete_file"].parse({})


LOADED = """
import sys
from pathlib import Path
from agentctl.config.workspace import Workspace
from agentctl.tools.sets import make_tools
tools = make_tools(workspace=Workspace(Path(".")), may_read=bool, runner=None, outputs=None, emit=None, redactor=None,
                   shell=(), default_timeout_s=1.0, extra={})
heavy = {"pydantic", "pathspec", "difflib", "subprocess", "re2"}
print(tools["read_file"].spec.name, *sorted(heavy & set(sys.modules)))
"""


def test_making_the_tools_loads_none_of_them() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    assert said.stdout == b"read_file\n"


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_says_what_its_row_says(name: str) -> None:
    from agentctl.tools.sets import load_class

    assert load_class(name).definition.catalogue_row() == read_catalogue()[name]
