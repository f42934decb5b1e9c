"""The console entry. Answers --version and --help before anything else is imported: CI asks them often."""

import sys


def main(argv: list[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in ("--version", "--help", "-h"):
        from agentctl.cli.fast import answer

        return answer(words[0])
    from agentctl.cli.dispatch import dispatch

    return dispatch(words)
