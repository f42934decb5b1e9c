"""--version and --help from generated text: no typer, no pathlib, nothing that takes longer than Python's own start.

Imported on its own and before everything else, so it writes to stdout itself.
"""

import os

_HELP = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120 - pathlib doubles the start-up


def answer(flag: str) -> int:
    """The text of --version, --help or -h on stdout; the exit code."""
    if flag == "--version":
        from agentctl.version import __version__

        return write(f"agentctl {__version__}\n".encode())
    with open(_HELP, "rb") as file:  # noqa: PTH123 - pathlib doubles the start-up
        return write(file.read())


def write(data: bytes) -> int:
    """All of it to stdout: 0, or 141 when the reader is gone, or 1 when it cannot be written."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return 141
    except OSError as error:
        os.write(2, f"agentctl: stdout cannot be written: {error.strerror}\n".encode())
        return 1
    return 0
