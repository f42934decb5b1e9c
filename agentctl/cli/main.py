"""The console entry. Answers --version and --help before anything else is imported: CI asks them often."""

import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit code."""
    if sys.platform == "win32":  # before anything that only Unix has is imported
        os.write(2, b"agentctl: Windows is not supported. Run it in WSL 2 or in a Linux container.\n")
        return 2
    _open_standard_streams()
    if argv is None and sys.getfilesystemencoding() != "utf-8":  # LC_ALL=C with PYTHONUTF8=0
        from agentctl.core.spawn import restart_in_utf8

        restart_in_utf8()
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in ("--version", "--help", "-h"):
        from agentctl.cli.fast import answer

        return answer(words[0])
    from agentctl.core.signals import remember

    remember()  # before the imports that take time
    from agentctl.cli.dispatch import dispatch

    return dispatch(words)


def _open_standard_streams() -> None:
    """A standard stream that was closed (`>&-`) would give its number to the next file or socket, and what is printed
    would go there."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            from agentctl.core.files import fill_standard_stream

            fill_standard_stream(number)
