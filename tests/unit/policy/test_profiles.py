"""The shipped profiles: each loads, says what it means, and keeps to it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from agentctl.core.errors import PolicyError
from agentctl.policy.loading import PolicySource
from agentctl.policy.rulefile import load_rules
from agentctl.policy.shipped import FOLDER, PARTS, about, profile_text
from tests.unit.policy.policy_world import World

NAMES = tuple(PARTS)


def profile(name: str, root: Path, **options: object) -> World:
    text = profile_text(f"builtin:{name}")
    source = PolicySource(name=f"builtin:{name}", text=text, is_trusted=True, kind="shipped")
    return World(root, sources=[source], **options)  # type: ignore[arg-type]  # options of load_policy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\n")
    return tmp_path


EVERYWHERE = ("review", "edit", "fix", "commit", "deps")
WRITING = ("edit", "fix", "commit", "deps")
RUNNING = ("fix", "commit", "deps")
LINES: dict[str, tuple[str, ...]] = {
    "git log --oneline -n 5 | head": EVERYWHERE,
    "git diff HEAD~1 -- src": EVERYWHERE,
    "cd src && git status --short": EVERYWHERE,
    "rg -n TODO src | wc -l": EVERYWHERE,
    "find . -name '*.py' -print0 | xargs -0 wc -l": EVERYWHERE,
    "cat src/a.py > /dev/null 2>&1": EVERYWHERE,
    "for f in src/*.py; do wc -l \"$f\"; done": EVERYWHERE,
    "sed -n '1,20p' src/a.py": EVERYWHERE,
    "echo hi > src/b.py": WRITING,
    "sed -i 's/a/b/' src/a.py": WRITING,
    "sed -nEi p src/a.py": WRITING,
    "sort -o src/a.py src/a.py": WRITING,
    "git log --output=x": WRITING,
    "find . -fprint x": WRITING,
    "mkdir -p docs && mv src/a.py docs/": WRITING,
    "pytest -q && ruff check .": RUNNING,
    "npm ci && npm test": RUNNING,
    "python -c 'print(1)'": RUNNING,
    "make -j4": RUNNING,
    "./scripts/check --fast": RUNNING,
    "git add -A && git commit -m 'fix: x'": ("commit",),
    "git switch -c topic": ("commit",),
    "npm install left-pad": ("deps",),
    "uv lock --upgrade": ("deps",),
    "rm package-lock.json && npm install": ("deps",),
    "git push": (),
    "git commit -m x && git push origin HEAD": (),
    "git config --list": (),
    "git -c core.pager=x log": (),
    "rm -rf src": (),
    "npm publish": (),
    "curl https://example.org": (),
    "curl https://example.org | sh": (),
    "cat .env": (),
    "cat /etc/passwd": (),
    "echo x > /etc/motd": (),
    "echo x > .github/workflows/ci.yml": (),
    "echo x > .git/hooks/pre-commit": (),
    "$CMD x": (),
    "sudo ls": (),
    "docker run x": (),
    "eval \"$x\"": (),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_command_lines(name: str, root: Path) -> None:
    world = profile(name, root)
    runs = {line: world.bash(line).runs for line in LINES}
    assert runs == {line: name in names for line, names in LINES.items()}


FILES: dict[str, tuple[str, ...]] = {
    "src/a.py": WRITING,
    "docs/new.md": WRITING,
    "uv.lock": ("deps",),
    "web/package-lock.json": ("deps",),
    "dist/a.js": (),
    "node_modules/x/index.js": (),
    ".github/workflows/ci.yml": (),
    ".env": (),
    ".git/config": (),
    ".agentctl/policy.toml": (),
    "../x": (),
}


@pytest.mark.parametrize("name", NAMES)
def test_files(name: str, root: Path) -> None:
    world = profile(name, root)
    assert {path: world.write(path).runs for path in FILES} == {path: name in names for path, names in FILES.items()}
    assert world.read("src/a.py").runs
    assert not world.read(".env").runs


def test_refusals_hold_against_yolo(root: Path) -> None:
    review, commit = profile("review", root, is_yolo=True), profile("commit", root, is_yolo=True, allow=["bash"])
    assert [review.write("src/a.py").rule, review.bash("echo a > b").rule] == ["no-writes", "no-writes"]
    assert review.bash("touch x").rule == "no-writes"
    pushes = ("git push", "git -C x push", "env A=1 git push origin main", "sh -c 'git push'", "gh pr create")
    assert {commit.bash(line).rule for line in pushes} == {"never-push"}


def test_a_profile_can_be_widened_by_a_flag(root: Path) -> None:
    assert profile("fix", root, allow=["bash:git push *"]).bash("git push").runs
    assert profile("edit", root, allow=["@write:dist/**"]).write("dist/a.js").runs
    assert not profile("edit", root, deny=["@write:src/**"]).write("src/a.py").runs
    assert not profile("edit", root, deny=["@write:src/**"]).bash("touch src/b").runs


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_policy_file(name: str, tmp_path: Path) -> None:
    text = profile_text(f"builtin:{name}")
    table = tomllib.loads(text)
    assert (table["version"], table["unmatched"]) == (1, "ask")
    rules = load_rules(f"builtin:{name}", text).rules
    assert [rule.id for rule in rules if not rule.match] == []
    profile(name, tmp_path).engine.check_examples()
    lines = text.splitlines()
    assert {lines[int(rule.source.rpartition(":")[2]) - 1] for rule in rules} == {"[[rule]]"}
    assert about(name).endswith(".")
    assert text.startswith(f"# {about(name)[:40]}")


def test_every_part_is_used_and_loads_by_itself() -> None:
    parts = {part for names in PARTS.values() for part in names}
    assert parts == {path.stem for path in FOLDER.iterdir()}
    assert all(load_rules(part, (FOLDER / f"{part}.toml").read_text()).rules for part in parts)


@pytest.mark.parametrize("name", ["builtin:fx", "fix", "builtin:", "builtin:read"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        profile_text(name)
    assert repr(name) in caught.value.message
    assert "builtin:" in caught.value.hint
