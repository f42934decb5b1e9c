"""What verbs share: their settings, one document with `--json` and plain lines without, and failures that are told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentctl.config.options import Options
from agentctl.config.paths import working_folder
from agentctl.config.settings import Settings, resolve
from agentctl.core.codec import dumps
from agentctl.core.errors import AgentctlError
from agentctl.runner.output import print_bytes, report_verb_failure

UNMET = 3
"""Exit code of a checking verb when what it checks does not hold."""


def verb(action: Callable[..., int]) -> Callable[..., int]:
    """Turns a failure into its document, its lines and its exit code."""

    def run(options: Options, **arguments: Any) -> int:
        try:
            return action(options, **arguments)
        except AgentctlError as error:
            return report_verb_failure(error, is_json=is_json(options))

    return run


def is_json(options: Options) -> bool:
    return bool(options.json) or options.format in ("json", "jsonl")


def settings_of(options: Options) -> Settings:
    return resolve(options, env=dict(os.environ), cwd=working_folder())


def show(options: Options, document: object, lines: Iterable[str]) -> int:
    """Prints the document, or its lines for people."""
    text = dumps(document, indent=True) if is_json(options) else "\n".join(lines).encode("utf-8", "replace")
    print_bytes(text)
    return 0


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned columns; the last column is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)] if rows else []
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
