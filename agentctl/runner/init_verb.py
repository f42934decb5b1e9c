"""`agentctl init`: an AGENTS.md made of what the repository shows. It asks no model and never overwrites."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentctl.config.options import Options
from agentctl.core.codec import loads
from agentctl.core.errors import UsageError
from agentctl.core.files import create_file, read_limited, write_all
from agentctl.core.types import JsonObject
from agentctl.runner.document import settings_of, show, verb

FILE = "AGENTS.md"
MAX_BYTES = 1_000_000
_MOST_FILES, _MOST_FOLDERS = 20_000, 15

LANGUAGES = {
    ".py": "Python",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".js": "JavaScript",
    ".mjs": "JavaScript",
    ".go": "Go",
    ".rs": "Rust",
    ".java": "Java",
    ".kt": "Kotlin",
    ".rb": "Ruby",
    ".php": "PHP",
    ".cs": "C#",
    ".c": "C",
    ".cc": "C++",
    ".cpp": "C++",
    ".swift": "Swift",
    ".sh": "Shell",
}
_LEFT_OUT = {"node_modules", "vendor", "target", "dist", "build", "__pycache__", "venv", "coverage"}
_SCRIPTS = ("test", "lint", "typecheck", "build", "format")


@verb
def init(options: Options) -> int:
    """Writes the file in the workspace root. Raises UsageError when there is one."""
    root = settings_of(options).root
    files = list(_files(root))
    document = {"path": FILE, "languages": _languages(files), "commands": _commands(root), "layout": _layout(files)}
    text = _rendered(root.name, document)
    try:
        descriptor = create_file(root / FILE, 0o644)
    except FileExistsError:
        raise UsageError(
            f"init: {FILE} is there already in {str(root)!r}; nothing was written",
            hint="Edit it, or move it away first.",
        ) from None
    except OSError as error:
        raise UsageError(f"init: {FILE} cannot be written in {str(root)!r}: {error.strerror or error}") from None
    try:
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)
    return show(options, {**document, "text": text}, [f"Wrote {FILE}: check it and add what it cannot know.", "", text])


def _files(root: Path) -> Iterator[Path]:
    """Relative paths of the files, without hidden and built ones, at most so many."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(names):
            if count >= _MOST_FILES:
                return
            count += 1
            yield Path(folder, name).relative_to(root)


def _languages(files: Sequence[Path]) -> list[str]:
    """The languages with at least a tenth of the source files, most files first."""
    counts = Counter(LANGUAGES[path.suffix] for path in files if path.suffix in LANGUAGES)
    total = sum(counts.values())
    return [name for name, count in counts.most_common() if count * 10 >= total]


def _layout(files: Sequence[Path]) -> list[JsonObject]:
    """The folders of the first level with how many files are below them."""
    counts = Counter(path.parts[0] for path in files if len(path.parts) > 1)
    return [{"folder": name, "files": counts[name]} for name in sorted(counts)[:_MOST_FOLDERS]]


# --- commands -------------------------------------------------------------------------------------------------------


def _commands(root: Path) -> list[JsonObject]:
    """What can be run, each with the file that says so; only what is written down, nothing is guessed."""
    found = [*_of_makefile(root), *_of_package_json(root), *_of_pyproject(root), *_of_manifests(root)]
    return [{"command": command, "from": where} for command, where in dict(reversed(found)).items()][::-1]


def _read(path: Path) -> str:
    try:
        return read_limited(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _of_makefile(root: Path) -> Iterator[tuple[str, str]]:
    text = _read(root / "Makefile")
    targets = re.findall(r"^([a-z][\w-]*):(?!=)", text, re.MULTILINE)
    yield from ((f"make {name}", "Makefile") for name in (*_SCRIPTS, "check") if name in targets)


def _of_package_json(root: Path) -> Iterator[tuple[str, str]]:
    try:
        scripts = loads(_read(root / "package.json") or "{}").get("scripts", {})
    except (ValueError, AttributeError):
        return
    lock = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    runner = next((program for name, program in lock.items() if (root / name).exists()), "npm")
    if isinstance(scripts, dict):
        yield from ((f"{runner} run {name}", "package.json") for name in _SCRIPTS if name in scripts)


def _of_pyproject(root: Path) -> Iterator[tuple[str, str]]:
    import tomllib

    text = _read(root / "pyproject.toml")
    try:
        tools = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError:
        return
    for name, command in (("pytest", "pytest"), ("ruff", "ruff check ."), ("mypy", "mypy")):
        if isinstance(tools, dict) and name in tools:
            yield command, "pyproject.toml"
    if (root / "tox.ini").exists():
        yield "tox", "tox.ini"


def _of_manifests(root: Path) -> Iterator[tuple[str, str]]:
    for name, command in (
        ("pytest.ini", "pytest"),
        ("Cargo.toml", "cargo test"),
        ("go.mod", "go test ./..."),
        ("pom.xml", "mvn test"),
        ("gradlew", "./gradlew test"),
        ("mix.exs", "mix test"),
    ):
        if (root / name).is_file():
            yield command, name


def _rendered(name: str, document: JsonObject) -> str:
    lines = [f"# {name}", "", "For people and agents who change this repository.", ""]
    if document["languages"]:
        lines += [f"Languages: {', '.join(document['languages'])}.", ""]
    if document["commands"]:
        lines += ["## Commands", ""]
        lines += [f"- `{row['command']}` (from {row['from']})" for row in document["commands"]] + [""]
    if document["layout"]:
        lines += ["## Layout", ""]
        lines += [f"- `{row['folder']}/`: {row['files']:,} files" for row in document["layout"]] + [""]
    return "\n".join(lines)
