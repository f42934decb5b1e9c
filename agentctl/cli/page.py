"""The main help page: what stands around the flags."""

from __future__ import annotations

from agentctl.cli.command import Page
from agentctl.cli.verbs import verb_rows
from agentctl.core.endings import ENDINGS


def run_page() -> Page:
    """The main help page."""
    exits = tuple((f"{_codes(name, row.exit_code):<4} {name}", row.when) for name, row in ENDINGS.items())
    return Page(
        usage=("agentctl -p PROMPT [FLAGS]", "agentctl VERB [FLAGS]"),
        about="Runs one turn of an automation agent without anybody watching: the prompt goes in, the answer or JSON "
        "lines come out, and the exit code says how it ended. It never asks; a policy decides.",
        examples=(
            "agentctl demo",
            "agentctl -p 'Why does the build fail? See @build.log'",
            "git diff | agentctl -p 'Review this diff' --agent review --json",
            "agentctl -p 'Fix the typo in README.md' --allow 'write_file:README.md'",
            "agentctl -p 'Make the tests pass' --allow 'bash:pytest *' --timeout 15m \\",
            "    --max-cost 0.50 --json | jq -r 'select(.type == \"done\").text'",
        ),
        other=(("--version", "Show the version and exit."),),
        sections=(
            ("Verbs", verb_rows()),
            ("Exit codes", exits),
            (
                "Config",
                (
                    ("--max-steps 20", "is max_steps = 20 in config.toml and AGENTCTL_MAX_STEPS=20."),
                    ("precedence", "flags, environment, .agentctl/config.toml, the user's config.toml, built-in."),
                    ("keys", "come from the environment alone: OPENAI_API_KEY, ANTHROPIC_API_KEY, AGENTCTL_API_KEY."),
                ),
            ),
        ),
    )


def _codes(name: str, code: int) -> str:
    return "1xx" if name == "cancelled" else str(code)
