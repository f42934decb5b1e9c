"""Writes agentctl/cli/help.txt: the text that `agentctl --help` prints without importing typer."""

from pathlib import Path

from agentctl.cli.command import help_text, make_command
from agentctl.cli.page import run_page
from agentctl.config.table import OPTIONS

TARGET = Path(__file__).parents[1] / "agentctl" / "cli" / "help.txt"


def main() -> None:
    TARGET.write_text(help_text(make_command(OPTIONS, page=run_page())), encoding="utf-8")


if __name__ == "__main__":
    main()
