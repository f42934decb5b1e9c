"""The console entry. Answers --version and --help before anything else is imported: CI asks them often."""

import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Runs the command line (without the program's name) and returns the exit code."""
    if sys.platform == "win32":  # before anything that only Unix has is imported
        os.write(2, b"agentctl: Windows is not supported. Run it in WSL 2 or in a Linux container.\n")
        return 2
    _open_standard_streams()
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
    would go there. A closed stdout is one whose reader is gone."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            if number == 1:
                reader, writer = os.pipe()
                os.dup2(writer, number)
                os.close(writer)
                if reader != number:
                    os.close(reader)
            else:
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
