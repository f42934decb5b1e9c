"""-o FILE: where the answer of a completed turn goes beside stdout."""

from __future__ import annotations

import os
import stat

from agentctl.core.errors import AgentctlError, UsageError
from agentctl.core.files import replace_file


class NotDelivered(AgentctlError):
    """The turn completed, and its answer could not be written to the file."""


class AnswerFile:
    """Looked at before the run costs anything, written when it is over: whole or not at all."""

    def __init__(self, path: str) -> None:
        """Raises UsageError where no file can be written. What a link names now is what is replaced in the end."""
        self._shown = path
        self._path = os.path.realpath(path)
        folder = os.path.dirname(self._path)  # noqa: PTH120  # a string, maybe with odd characters
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116  # not of the resolved name: /dev/stdout leads to no name at all
        except OSError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            raise self._refusal(f"it is {what}", "Name a file. Without -o the answer of --format text goes to stdout.")
        if not os.path.isdir(folder):  # noqa: PTH112
            raise self._refusal(f"there is no folder {folder!r}", "Make the folder first.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._refusal(f"no file can be made in {folder!r}", "Name a folder that this run can write to.")

    def _refusal(self, why: str, hint: str) -> UsageError:
        return UsageError(f"-o {self._shown!r} cannot be written: {why}", hint=hint)

    def write(self, text: str) -> None:
        """Raises NotDelivered."""
        try:
            replace_file(self._path, (text + "\n").encode("utf-8", "replace"))
        except OSError as error:
            raise NotDelivered(f"-o {self._shown!r} cannot be written: {error.strerror or error}") from error
