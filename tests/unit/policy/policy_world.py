"""What the policy tests share: tool specs, an engine over a temporary workspace, and the real shfmt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentctl.core.types import Decision, Effect, JsonObject, Subject, ToolSpec
from agentctl.policy.engine import PolicyEngine
from agentctl.policy.loading import PolicySource, load_policy
from agentctl.policy.plain import PlainParser
from agentctl.policy.shfmt import ShellParser, ShfmtParser, find_shfmt

SHFMT = find_shfmt(Path("/nonexistent"))
assert SHFMT, "the shfmt of the environment is missing"
SHELL = ShfmtParser(SHFMT)
PLAIN = PlainParser()


def _path(args: JsonObject, access: Any) -> tuple[Subject, ...]:
    return (Subject(kind="path", value=args["path"], access=access),)


def spec(name: str) -> ToolSpec:
    """The specification of a tool as far as the policy looks at it."""
    effects: dict[str, Effect] = {
        "bash": "exec",
        "write_file": "write",
        "edit_file": "write",
        "move_file": "write",
        "todo_write": "state",
        "web_fetch": "network",
    }
    subjects: dict[str, Any] = {
        "bash": lambda args: (Subject(kind="command", value=args["command"], access="write"),),
        "web_fetch": lambda args: (Subject(kind="url", value=args["url"]),),
        "todo_write": lambda args: (),
        "move_file": lambda args: tuple(
            Subject(kind="path", value=args[key], access="write") for key in ("from", "to")
        ),
        "read_many_files": lambda args: tuple(Subject(kind="path", value=row["path"]) for row in args["files"]),
    }
    effect = "network" if name.startswith("mcp__") else effects.get(name, "read")
    if name.startswith("mcp__"):
        server = name.split("__")[1]
        subjects[name] = lambda args: (Subject(kind="server", value=server),)
    access = "write" if effect == "write" else "read"
    return ToolSpec(
        name=name,
        description="",
        parameters={},
        effect=effect,
        set="core",
        subjects=subjects.get(name, lambda args: _path(args, access)),
    )


class World:
    """A workspace with a policy. Texts are policy files; the first is trusted unless it is said otherwise."""

    def __init__(
        self,
        root: Path,
        text: str = "",
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        is_yolo: bool = False,
        shell: ShellParser | None = SHELL,
        sources: Sequence[PolicySource] = (),
        **places: Any,
    ) -> None:
        own = [PolicySource(name="p.toml", text=text, is_trusted=True, kind="flag")] if text else []
        self.root = root
        self.engine: PolicyEngine = load_policy(
            [*own, *sources], allow=allow, deny=deny, is_yolo=is_yolo, root=root, shell=shell, **places
        )

    def bash(self, command: str) -> Decision:
        return self.engine.decide(spec("bash"), {"command": command})

    def write(self, path: str) -> Decision:
        return self.engine.decide(spec("write_file"), {"path": path})

    def read(self, path: str) -> Decision:
        return self.engine.decide(spec("read_file"), {"path": path})
