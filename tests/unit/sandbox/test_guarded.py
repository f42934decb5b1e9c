"""Files in the workspace that decide what runs: no command changes them for longer than it lives."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.sandbox.sandbox_world import World, guarded_state

if sys.platform != "linux":
    pytest.skip("Landlock, seccomp and namespaces are Linux's", allow_module_level=True)

POLICY = "version = 1\n"


@pytest.fixture
def world() -> Iterator[World]:
    base = Path(__file__).parents[3] / ".pytest_cache"
    base.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=base) as folder:
        made = World(Path(folder).resolve())
        subprocess.run(["git", "init", "-q", "."], cwd=made.root, check=True)
        (made.root / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 0\n")
        (made.root / ".git/hooks/pre-commit").chmod(0o755)
        (made.root / ".agentctl").mkdir()
        (made.root / ".agentctl/policy.toml").write_text(POLICY)
        yield made


ATTACKS = {
    "hook": "echo evil > .git/hooks/post-checkout",
    "hook-edit": "echo evil >> .git/hooks/pre-commit",
    "hook-mode": "chmod 644 .git/hooks/pre-commit",
    "hook-delete": "rm .git/hooks/pre-commit",
    "hook-link": "ln -sf /bin/true .git/hooks/pre-commit",
    "hooks-link": "mkdir h && mv .git/hooks old && ln -s ../h .git/hooks",
    "hooks-folder": "mkdir -p .git/hooks/more && echo evil > .git/hooks/more/x",
    "config": "git config core.fsmonitor ./evil",
    "config-replace": "echo '[core]' > c && mv c .git/config",
    "config-link": "echo '[core]' > c && ln -sf ../c .git/config",
    "config-delete": "rm .git/config",
    "commondir": "mkdir evil && echo ../evil > .git/commondir",
    "worktree-config": "echo evil > .git/config.worktree",
    "git-moved": "mv .git old && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && cp old/config .git/config",
    "git-link": "mv .git old && cp -r old new && echo evil > new/config && ln -s new .git",
    "git-file": "mv .git old && echo 'gitdir: evil' > .git",
    "policy": "echo 'unmatched = \"allow\"' >> .agentctl/policy.toml",
    "policy-delete": "rm -rf .agentctl",
    "policy-moved": "mv .agentctl old; mkdir .agentctl; echo 'unmatched = \"allow\"' > .agentctl/policy.toml",
    "policy-link": "mv .agentctl old && ln -s old .agentctl",
    "config-new": "echo 'yolo = true' > .agentctl/config.toml",
    "plugin-new": "mkdir -p .agentctl/plugins && echo x > .agentctl/plugins/a.json",
    "same-size": "sed -i s/1/2/ .agentctl/policy.toml; touch -r .git/HEAD .agentctl/policy.toml",
}


@pytest.mark.parametrize("level", [2, 3])
def test_no_change_outlives_its_command(level: int, world: World) -> None:
    """All attacks one after another in one workspace: each leaves it as the next one finds it."""
    before = guarded_state(world.root)
    left, silent = {}, []
    for (name, script), ran in zip(ATTACKS.items(), world.run_all(level, list(ATTACKS.values())), strict=True):
        if ran.state != before:
            left[name] = (script, ran)
        if ran.is_ok and not any("command; it was" in note for note in ran.end.notes):
            silent.append(name)
    assert left == {}
    assert silent == []
    subprocess.run(["git", "status", "-s"], cwd=world.root, capture_output=True, check=True)


def test_the_attacks_win_without_walls(world: World) -> None:
    lost = []
    for name, script in ATTACKS.items():
        copy = world.folder / "copies" / name
        shutil.copytree(world.root, copy, symlinks=True)
        before = guarded_state(copy)
        subprocess.run(["bash", "-c", script], cwd=copy, capture_output=True, check=False)
        if guarded_state(copy) == before:
            lost.append(name)
    assert lost == []


@pytest.mark.parametrize("level", [2, 3])
def test_what_is_not_there_yet_cannot_be_made(level: int, world: World) -> None:
    """In a workspace without any of it: rules are removed again, a new repository is the command's own."""
    subprocess.run(["rm", "-rf", ".git", ".agentctl"], cwd=world.root, check=True)
    ran = world.run(level, "git init -q . && mkdir .agentctl && echo 'yolo = true' > .agentctl/config.toml")
    assert (world.root / ".git/config").exists()
    assert not (world.root / ".agentctl/config.toml").exists()
    assert [note for note in ran.end.notes if "config.toml" in note]


@pytest.mark.parametrize("level", [2, 3])
def test_git_goes_on_working(level: int, world: World) -> None:
    me = "git -c user.name=a -c user.email=a@b.example"
    ran = world.run(
        level, f"echo x > f && git add f && {me} commit -qm one && git branch b && git switch -q b && {me} tag t"
    )
    assert (ran.end.exit_code, ran.end.notes) == (0, ()), ran


def test_the_result_names_what_was_undone(world: World) -> None:
    ran = world.run(2, "echo evil > .git/hooks/post-checkout; rm .git/config")
    assert ran.end.notes[:2] == (
        "[sandbox] .git/config was deleted by the command; it was put back",
        "[sandbox] .git/hooks/post-checkout was made by the command; it was removed",
    )


def test_nothing_is_written_through_a_link_when_undoing(world: World) -> None:
    """A command puts a link to the outside in the place of a guarded folder: undoing must not follow it."""
    (world.outside / "hooks").mkdir()
    before = world.outside_state()
    world.run(2, f"rm -rf .git/hooks && ln -s {world.outside}/hooks .git/hooks")
    assert world.outside_state() == before
    assert (world.root / ".git/hooks/pre-commit").read_text() == "#!/bin/sh\nexit 0\n"
    assert not (world.root / ".git/hooks").is_symlink()


@pytest.mark.parametrize("level", [2, 3])
def test_a_flood_of_hooks_hides_none(level: int, world: World) -> None:
    before = guarded_state(world.root)
    world.run(level, "cd .git/hooks && touch $(seq 1500) && echo evil > zz-last && echo evil > post-checkout")
    assert guarded_state(world.root) == before


def test_a_repository_that_leads_elsewhere_is_not_followed(world: World) -> None:
    """The command deletes the repository and puts a link to the outside in its place."""
    (world.outside / "hooks").mkdir()
    (world.outside / "hooks" / "mine").write_text("mine")
    (world.outside / "config").write_text("mine")
    before = world.outside_state()
    world.run(2, f"rm -rf .git && ln -s {world.outside} .git")
    assert world.outside_state() == before
    assert (world.root / ".git/hooks/pre-commit").read_text() == "#!/bin/sh\nexit 0\n"


@pytest.fixture
def linked(world: World) -> World:
    """The workspace is a linked work tree of a repository outside."""
    main = world.folder / "main"
    me = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*me, "commit", "-qm", "one", "--allow-empty"], cwd=main, check=True)
    subprocess.run(["rm", "-rf", str(world.root)], check=True)
    subprocess.run(["git", "worktree", "add", "-q", "-b", "side", str(world.root)], cwd=main, check=True)
    return world


@pytest.mark.parametrize("level", [2, 3])
def test_a_linked_work_tree_can_commit_and_change_nothing_else(level: int, linked: World) -> None:
    me = "git -c user.name=a -c user.email=a@b.example"
    ran = linked.run(level, f"echo x > f && git add f && {me} commit -qm two && git log --oneline | wc -l")
    assert (ran.end.exit_code, ran.out.strip()) == (0, "2"), ran
    common = linked.folder / "main" / ".git"
    link = common / "worktrees" / "w"
    files = [common / "config", link / "commondir", link / "gitdir", linked.root / ".git"]
    before = [path.read_bytes() for path in files]
    attack = f"echo evil > {common}/hooks/pre-commit; echo evil >> {common}/config; echo evil > {link}/commondir"
    linked.run(level, f"{attack}; echo evil > {link}/config.worktree; echo 'gitdir: evil' > .git; echo x > ../main/f")
    assert [path.read_bytes() for path in files] == before
    assert not any(path.exists() for path in (common / "hooks/pre-commit", link / "config.worktree"))
    assert not (linked.folder / "main" / "f").exists()


@pytest.mark.parametrize("level", [2, 3])
def test_a_git_file_opens_nothing_that_does_not_point_back(level: int, world: World) -> None:
    """A checkout may bring a `.git` file that names somebody else's folder."""
    subprocess.run(["rm", "-rf", ".git"], cwd=world.root, check=True)
    other = world.outside / "x" / "worktrees" / "w"
    other.mkdir(parents=True)
    (world.outside / "x" / "HEAD").write_text("ref: refs/heads/main\n")
    (other / "commondir").write_text("../..\n")
    (other / "gitdir").write_text(f"{world.folder}/elsewhere/.git\n")
    (world.root / ".git").write_text(f"gitdir: {other}\n")
    before = world.outside_state()
    world.run(level, f"echo evil > {world.outside}/x/config; echo evil > {other}/f")
    assert world.outside_state() == before


@pytest.mark.parametrize("level", [2, 3])
def test_submodules_are_guarded_too(level: int, world: World) -> None:
    folder = world.root / ".git/modules/lib/inner"
    (folder / "hooks").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n")
    world.run(level, "cd .git/modules/lib/inner && echo evil >> config; echo evil > hooks/pre-commit")
    assert ((folder / "config").read_text(), list((folder / "hooks").iterdir())) == ("[core]\n", [])
