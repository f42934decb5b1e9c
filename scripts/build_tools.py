"""Writes agentctl/tools/catalogue.json from the definitions of the tools; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from agentctl.core import codec
from agentctl.core.toolkit import Implementation, ToolDefinition
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.state.toolset import CLASSES as STATE_CLASSES
from agentctl.state.toolset import load_class as state_tool
from agentctl.tools.sets import CATALOGUE, load_class


def definition(name: str) -> ToolDefinition:
    tool: type[Implementation] = state_tool(name) if name in STATE_CLASSES else load_class(name)
    return tool.definition


def render() -> bytes:
    """One row per tool, in the order of the table of names, on a line of its own so that differences read well."""
    rows = [codec.dumps(definition(name).catalogue_row()) for name in TOOL_NAMES]
    return b"[\n" + b",\n".join(rows) + b"\n]\n"


def main() -> int:
    wanted = render()
    target = Path(CATALOGUE)
    if "--check" in sys.argv[1:]:
        if target.exists() and target.read_bytes() == wanted:
            return 0
        print(f"{target.name} is out of step with the tools: run scripts/fix", file=sys.stderr)
        return 1
    target.write_bytes(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
