"""The architecture as a test: who may import whom, and which uses have one home.

Imports inside functions count, and so does importlib with a literal name. `faults` is pure, so the test also shows on
planted files that each rule would be broken loudly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "agentctl"

ISLANDS = {"providers", "policy", "sandbox", "tools", "state", "extensions"}
BELOW: dict[str, set[str]] = {
    "core": {"core"},
    "config": {"core", "config"},
    **{island: {"core", "config", island} for island in ISLANDS},
    "engine": {"core", "config", "engine"},
    "runner": {"core", "config", "engine", "runner", *ISLANDS},
    "cli": {"core", "config", "runner", "cli"},
}
"""A folder → the folders it may import from."""

ROOT_MODULES = {"version"}
"""Modules beside the folders that everybody may import."""

HOMES: dict[str, set[str]] = {
    "subprocess": {"core/spawn.py"},
    "socket": {"core/spawn.py", "providers/network.py"},
    "httpx2": {"providers/"},
    "httpx": set(),
    "requests": set(),
    "openai": {"providers/"},
    "anthropic": {"providers/"},
    "tenacity": {"providers/"},
    "typer": {"cli/"},
    "pty": set(),
}
"""A module → the only places that may import it. core/spawn.py needs socket pairs, the transport socket options."""

PROCESS_CALLS = {
    "fork",
    "forkpty",
    "system",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "execv",
    "execve",
    "execvp",
    "execvpe",
}
PROCESS_CALLS |= {
    "spawnv",
    "spawnve",
    "startfile",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "subprocess_exec",
}
PROCESS_OWNERS = {"os", "posix", "asyncio", "pty", "loop"}
PROCESS_HOMES = {"core/spawn.py", "core/watcher.py"}
PRINT_HOMES = {"runner/output.py"}
STREAMS = {"sys.stdout", "sys.stderr"}
WRITE_HOMES = {"core/files.py"}
WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}
WRITING_METHODS = {"write_text", "write_bytes", "touch", "mkfifo", "NamedTemporaryFile", "TemporaryFile"}


def faults(files: dict[str, str]) -> list[str]:
    """Every broken rule in a tree given as path (relative to the package) → source, as `path:line: what`."""
    trees = {path: ast.parse(source) for path, source in files.items()}
    found = [fault for path, tree in trees.items() for fault in (*_imports(path, tree), *_uses(path, tree))]
    return sorted([*found, *_circles(trees)])


def _imports(path: str, tree: ast.AST) -> Iterator[str]:
    folder = path.split("/")[0]
    for line, name in _imported(tree):
        top, _, rest = name.partition(".")
        if top == "agentctl":
            target = rest.split(".")[0]
            if target and "/" in path and target not in BELOW.get(folder, set()) | ROOT_MODULES:
                yield f"{path}:{line}: {folder} imports {target}"
        elif top in HOMES and not any(path.startswith(home) for home in HOMES[top]):
            yield f"{path}:{line}: imports {top}, whose home is {sorted(HOMES[top]) or 'nowhere'}"


def _imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _uses(path: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if name == "print" and path not in PRINT_HOMES:
                yield f"{path}:{node.lineno}: prints"
            if name in PROCESS_CALLS and _owner(node.func) in PROCESS_OWNERS and path not in PROCESS_HOMES:
                yield f"{path}:{node.lineno}: starts a process with {name}"
            if path not in WRITE_HOMES and _opens_for_writing(node, name):
                yield f"{path}:{node.lineno}: opens a file for writing"
        if isinstance(node, ast.Attribute) and node.attr in WRITING_FLAGS and path not in WRITE_HOMES:
            yield f"{path}:{node.lineno}: opens a file for writing ({node.attr})"
        if (
            isinstance(node, ast.Attribute)
            and f"{_name(node.value)}.{node.attr}" in STREAMS
            and path not in PRINT_HOMES
        ):
            yield f"{path}:{node.lineno}: uses sys.{node.attr}"


def _opens_for_writing(node: ast.Call, name: str) -> bool:
    if name in WRITING_METHODS and isinstance(node.func, ast.Attribute):
        return _name(node.func.value) not in ("workspace", "_workspace")
    if name not in ("open", "fdopen"):
        return False
    given = node.args[1:2] if isinstance(node.func, ast.Name) else node.args[:1]
    modes = [*given, *(word.value for word in node.keywords if word.arg == "mode")]
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return any(len(text) <= 3 and set(text) & set("wax+") and set(text) <= set("rwaxbt+") for text in texts)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _full_name(node: ast.Attribute) -> str:
    return f"{_name(node.value)}.{node.attr}"


def _owner(node: ast.expr) -> str:
    return _name(node.value) if isinstance(node, ast.Attribute) else ""


def _circles(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Modules that need each other, at any distance."""
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in trees}
    edges = {
        module: {
            name.removeprefix("agentctl.")
            for _, name in _imported(trees[path])
            if name.removeprefix("agentctl.") in modules and name.removeprefix("agentctl.") != module
        }
        for module, path in modules.items()
    }
    while leaves := [module for module, targets in edges.items() if not targets & edges.keys()]:
        for leaf in leaves:
            del edges[leaf]
    roots = {target for targets in edges.values() for target in targets}
    in_circle = sorted(module for module in edges if module in roots)
    if in_circle:
        yield f"{modules[in_circle[0]]}:0: import circle among {', '.join(in_circle)}"


def sources() -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def test_the_package_keeps_its_layers() -> None:
    assert faults(sources()) == []


PLANTED = {
    "import upwards": ("core/a.py", "from agentctl.engine.loop import run_turn", "core imports engine"),
    "import in a function": ("tools/a.py", "def f():\n    import agentctl.policy.rules", "tools imports policy"),
    "import by name": (
        "state/a.py",
        "import importlib\nimportlib.import_module('agentctl.tools.read')",
        "state imports tools",
    ),
    "engine to island": ("engine/a.py", "from agentctl.state import journal", "engine imports state"),
    "cli past the runner": ("cli/a.py", "from agentctl.engine import loop", "cli imports engine"),
    "subprocess": ("tools/a.py", "import subprocess", "imports subprocess"),
    "process by os": ("state/a.py", "import os\nos.system('true')", "starts a process"),
    "process by asyncio": ("sandbox/a.py", "import asyncio\nasyncio.create_subprocess_exec('x')", "starts a process"),
    "socket": ("tools/a.py", "def f():\n    import socket", "imports socket"),
    "httpx2": ("runner/a.py", "import httpx2", "imports httpx2"),
    "sdk": ("engine/a.py", "import openai", "imports openai"),
    "tenacity": ("engine/a.py", "from tenacity import retry", "imports tenacity"),
    "typer": ("runner/a.py", "import typer", "imports typer"),
    "print": ("engine/a.py", "print('x')", "prints"),
    "sys.stdout": ("cli/a.py", "import sys\nsys.stdout.write('x')", "uses sys.stdout"),
    "open for write": ("state/a.py", "open('x', 'w')", "opens a file for writing"),
    "open by keyword": ("state/a.py", "open('x', mode='ab')", "opens a file for writing"),
    "Path.write_text": (
        "config/a.py",
        "from pathlib import Path\nPath('x').write_text('')",
        "opens a file for writing",
    ),
    "os.open": ("tools/a.py", "import os\nos.open('x', os.O_CREAT)", "opens a file for writing"),
}


@pytest.mark.parametrize(("path", "source", "said"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_found(path: str, source: str, said: str) -> None:
    assert any(said in fault for fault in faults({path: source})), faults({path: source})


def test_a_planted_circle_is_found() -> None:
    files = {"core/a.py": "from agentctl.core import b", "core/b.py": "def f():\n    import agentctl.core.a"}
    assert any("import circle among core.a, core.b" in fault for fault in faults(files))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("core/spawn.py", "import subprocess"),
        ("core/files.py", "open('x', 'w')"),
        ("tools/a.py", "open('x')"),
        ("runner/output.py", "print('x')"),
        ("providers/a.py", "import httpx2"),
    ],
)
def test_a_use_at_home_is_no_fault(path: str, source: str) -> None:
    assert faults({path: source}) == []
