"""How the built-in tools come to life: a catalogue row now, the module of the family with the first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentctl.core import codec
from agentctl.core.errors import ToolFailure
from agentctl.core.ports import CommandRunner, Emit, Outputs, Tool
from agentctl.core.toolkit import Implementation, LazyTool, ToolDefinition, no_subjects
from agentctl.core.types import JsonObject, ToolResult

if TYPE_CHECKING:
    from agentctl.config.workspace import Workspace
    from agentctl.core.redact import Redactor

CATALOGUE = Path(__file__).with_name("catalogue.json")
"""Name, description, effect, set and parameters of every built-in tool; scripts/build_tools.py writes it."""

CLASSES = {
    "read_file": ("read", "ReadFile"),
    "read_many_files": ("read", "ReadManyFiles"),
    "list_dir": ("read", "ListDir"),
    "glob": ("search", "Glob"),
    "grep": ("search", "Grep"),
    "write_file": ("edit", "WriteFile"),
    "edit_file": ("edit", "EditFile"),
    "multi_edit": ("edit", "MultiEdit"),
    "apply_patch": ("patch", "ApplyPatch"),
    "move_file": ("manage", "MoveFile"),
    "delete_file": ("manage", "DeleteFile"),
    "bash": ("shell", "Bash"),
    "ask": ("ask", "Ask"),
}
"""Module of this folder and class of each of its tools."""

Loader = Callable[[], Implementation]


def read_catalogue() -> dict[str, JsonObject]:
    """The rows of catalogue.json by name, in the order in which tools are offered."""
    rows: list[JsonObject] = codec.loads(CATALOGUE.read_bytes())
    return {row["name"]: row for row in rows}


def make_tools(
    *,
    workspace: Workspace,
    may_read: Callable[[str], bool],
    runner: CommandRunner,
    outputs: Outputs,
    emit: Emit,
    redactor: Redactor,
    shell: Sequence[str],
    default_timeout_s: float,
    extra: Mapping[str, Loader],
) -> dict[str, Tool]:
    """Every built-in tool by name, none of them loaded yet.

    `may_read` is the policy's word on the files a search may show. `shell` is the argv that a command line is added
    to. `extra` loads the tools of other planes, by name.
    """

    def load_bash() -> Implementation:
        from agentctl.tools.shell import Bash

        return Bash(
            runner=runner,
            outputs=outputs,
            emit=emit,
            redactor=redactor,
            root=str(workspace.root),
            shell=shell,
            default_timeout_s=default_timeout_s,
        )

    searching = {"glob", "grep"}
    loaders = {
        name: _loader(name, (workspace, may_read) if name in searching else (workspace,))
        for name in CLASSES
        if name != "ask"  # only a run that has answers makes it
    } | {"bash": load_bash, **extra}
    return {name: LazyTool(row, loaders[name]) for name, row in read_catalogue().items() if name in loaders}


def load_class(name: str) -> type[Implementation]:
    """The class of a tool of this folder, importing its module."""
    module, attribute = CLASSES[name]
    found: type[Implementation] = getattr(import_module(f"agentctl.tools.{module}"), attribute)
    return found


def _loader(name: str, parts: tuple[object, ...]) -> Loader:
    return lambda: load_class(name)(*parts)


def catalogue_tools() -> dict[str, Tool]:
    """Every built-in tool for judging calls, not for running them: no workspace, no runner.

    The arguments of tools of other planes are taken as they are given.
    """
    return {name: LazyTool(row, _describing(row)) for name, row in read_catalogue().items()}


class _Described:
    """A tool of which only the definition is there."""

    def __init__(self, definition: ToolDefinition) -> None:
        self.definition = definition

    async def run(self, call_id: str, args: Any) -> ToolResult:
        raise ToolFailure(f"{self.definition.name} is only described here; call {call_id} was not run.")


class _AsGiven:
    """Stands for an argument model that this folder may not import."""

    def __init__(self, args: JsonObject) -> None:
        self._args = args

    @classmethod
    def parse(cls, args: JsonObject) -> Self:
        return cls(args)

    def as_args(self) -> JsonObject:
        return self._args


def _describing(row: JsonObject) -> Loader:
    def load() -> Implementation:
        if row["name"] in CLASSES:
            return _Described(load_class(row["name"]).definition)
        fields = {field: row[field] for field in ("name", "description", "effect", "set")}
        return _Described(ToolDefinition(**fields, arguments=_AsGiven, subjects=no_subjects))

    return load
