"""`state export` and `state gc`: the workspace state of sessions as text, and what nobody needs any more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from agentctl.config.options import Options
from agentctl.config.settings import Settings
from agentctl.core.codec import loads
from agentctl.core.errors import ToolFailure, UsageError
from agentctl.core.files import read_records
from agentctl.core.locks import LockHeld, lock_file
from agentctl.core.types import JsonObject
from agentctl.runner.document import settings_of, show, verb
from agentctl.state.focus import LOG, Focus
from agentctl.state.folder import LOCK, SessionFolder, state_root
from agentctl.state.notebook import Notebook, revision_of

_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@verb
def state_export(options: Options, session: str | None = None) -> int:
    """Notebook with its earlier versions, focus and kept outputs of one session, or of all."""
    settings = settings_of(options)
    names = [path.name for path in _folders(settings.root)]
    wanted = [name for name in names if name.startswith(session.lower())] if session else names
    if session and len(wanted) != 1:
        said = f"fits {len(wanted)} sessions with state" if wanted else "has no state in this workspace"
        raise UsageError(f"state export: {session!r} {said}", hint="`agentctl state export` shows all of them.")
    rows = [_exported(settings.root, name) for name in wanted]
    log = [entry for entry in _log(settings.root) if not session or entry.get("session") in wanted]
    lines = [line for row in rows for line in _lines(row)]
    return show(
        options,
        {"sessions": rows, "focus_log": log},
        lines or [f"No session has state in {settings.root}."],
    )


@verb
def state_gc(options: Options) -> int:
    """Removes the state of sessions that are not saved any more."""
    settings = settings_of(options)
    removed, kept = [], []
    for folder in _folders(settings.root):
        why = _needed(folder, settings)
        if why:
            kept.append({"session": folder.name, "why": why})
        else:
            removed.append({"session": folder.name, "bytes": _remove(folder)})
    lines = [f"removed {row['session']} ({row['bytes']:,} bytes)" for row in removed]
    lines += [f"kept {row['session']}: {row['why']}" for row in kept]
    return show(options, {"removed": removed, "kept": kept}, lines or [f"No session has state in {settings.root}."])


def _folders(root: Path) -> list[Path]:
    """The folders of sessions, oldest first: their names begin with the time. Links are not ours."""
    state = state_root(root)
    found = state.iterdir() if state.is_dir() and not state.is_symlink() else ()
    return sorted(path for path in found if _SESSION.fullmatch(path.name) and path.is_dir() and not path.is_symlink())


def _exported(root: Path, session: str) -> JsonObject:
    folder = SessionFolder(root, session)
    notebook = Notebook(folder, str)
    row: JsonObject = {"session": session, "notebook": None, "versions": [], "focus": [], "outputs": [], "problems": []}
    try:
        text = notebook.text
        size = notebook.size
        row["notebook"] = {"text": text, "revision": revision_of(text), "notes": size.notes, "chars": size.chars}
        row["versions"] = [
            {"number": number, "text": folder.read(f"notebook.{number}.md") or ""} for number in notebook.versions()
        ]
    except OSError as error:
        row["problems"].append(f"notebook: {error.strerror or error}")
    try:
        row["focus"] = Focus(folder, str).stack
    except (OSError, ToolFailure) as error:
        row["problems"].append(f"focus: {error}")
    output = folder.path / "output"
    if output.is_dir() and not output.is_symlink():
        row["outputs"] = [
            {"path": path.relative_to(root).as_posix(), "bytes": path.lstat().st_size}
            for path in sorted(output.iterdir())
        ]
    return row


def _lines(row: JsonObject) -> Iterable[str]:
    yield f"# session {row['session']}"
    if row["focus"]:
        yield f"focus: {' > '.join(row['focus'])}"
    if row["versions"]:
        yield f"earlier notebooks: {len(row['versions'])}"
    if row["outputs"]:
        yield f"kept outputs: {len(row['outputs'])}, the last {row['outputs'][-1]['path']}"
    yield from (f"problem: {problem}" for problem in row["problems"])
    if row["notebook"] and row["notebook"]["text"]:
        yield ""
        yield row["notebook"]["text"].rstrip()
    yield ""


def _log(root: Path) -> list[JsonObject]:
    try:
        lines, _ = read_records(state_root(root) / LOG)
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entry = loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def _needed(folder: Path, settings: Settings) -> str:
    """Why a folder stays; empty when nobody needs it. A session counts in whichever project it is saved."""
    journals = settings.homes.state / "sessions"
    if any(journals.glob(f"*/{folder.name}.jsonl")):
        return "its session is saved"
    held = [*journals.glob(f"*/{folder.name}.lock"), folder / LOCK]
    return "a run is using it" if any(map(_is_held, held)) else ""


def _is_held(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with lock_file(path):
            return False
    except LockHeld:
        return True
    except OSError:
        return False


def _remove(folder: Path) -> int:
    """Returns how many bytes went. Links inside are removed, not followed."""
    from shutil import rmtree

    size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    rmtree(folder)
    return size
