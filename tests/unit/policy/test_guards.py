"""Both tables of refusals run their own examples, under --yolo and with everything allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl.policy.guards import COMMAND_GUARDS, LINE_GUARDS, CommandGuard
from agentctl.policy.path_guards import PATH_GUARDS, PROTECTED, PathGuard
from tests.unit.policy.policy_world import SHELL, World

COMMAND_ROWS = (*COMMAND_GUARDS, *LINE_GUARDS)
OPEN = 'version = 1\nunmatched = "allow"\n[[rule]]\ntool = "*"\ndecision = "allow"\n'


def rules_hit(decision: object) -> set[str]:
    return {decision.rule, *(item.rule for item in decision.losing)}  # type: ignore[attr-defined]  # a Decision


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, OPEN, is_yolo=True)


@pytest.mark.parametrize("row", COMMAND_ROWS, ids=lambda row: row.id)
def test_commands_that_trip(row: CommandGuard, world: World) -> None:
    SHELL.parse_many(list(row.trips))
    for line in row.trips:
        decision = world.bash(line)
        assert (decision.verdict, decision.runs, decision.allow_with) == ("guard", False, None), (line, decision)
        assert f"guard:{row.id}" in rules_hit(decision), (line, decision)


@pytest.mark.parametrize("row", COMMAND_ROWS, ids=lambda row: row.id)
def test_commands_that_pass(row: CommandGuard, world: World) -> None:
    for line in row.passes:
        decision = world.bash(line)
        assert f"guard:{row.id}" not in rules_hit(decision), (line, decision)


@pytest.mark.parametrize("row", PATH_GUARDS, ids=lambda row: row.id)
def test_paths_that_are_never_written(row: PathGuard, world: World) -> None:
    for path in row.trips:
        assert (world.write(path).rule, world.write(path).runs) == (f"guard:{row.id}", False), path
        assert f"guard:{row.id}" in rules_hit(world.bash(f"echo x > '{path}'")), path
    for path in row.passes:
        assert world.write(path).runs, path


@pytest.mark.parametrize("row", PROTECTED, ids=lambda row: row.id)
def test_protected_paths(row: PathGuard, tmp_path: Path) -> None:
    world = World(tmp_path, OPEN, is_yolo=True)
    for path in row.trips:
        decision = world.write(path)
        assert (decision.verdict, decision.runs, decision.rule) == ("protect", False, f"protect:{row.id}"), path
        lifted = World(tmp_path, OPEN, allow=[str(decision.allow_with)])
        assert lifted.write(path).runs, (path, decision.allow_with)
    for path in row.passes:
        assert world.write(path).runs, path


def test_messages_say_what_to_do_instead(world: World) -> None:
    texts = [(row.why, row.instead) for row in (*COMMAND_ROWS, *PATH_GUARDS, *PROTECTED)]
    for why, instead in texts:
        assert why
        assert instead.endswith(".")
        assert "yolo" not in why + instead
    decision = world.bash("git reset --hard")
    assert decision.reason == (
        "'git reset --hard' is refused: it discards work that is not committed. "
        "Use `git stash push` to set the work aside, or `git restore FILE` for one file."
    )


def test_protect_is_lifted_by_nothing_but_a_path(tmp_path: Path) -> None:
    """Groups, bare tools, unmatched = allow and --yolo leave it; a rule for another path too."""
    for allow in (["@write"], ["write_file"], ["*"], ["write_file:src/**"]):
        decision = World(tmp_path, OPEN, allow=allow, is_yolo=True).write("uv.lock")
        assert (decision.verdict, decision.runs) == ("protect", False), allow
    assert World(tmp_path, allow=["@write:dist/**"]).write("dist/a.js").runs


def test_commands_meet_the_path_tables(tmp_path: Path) -> None:
    world = World(tmp_path, OPEN, is_yolo=True)
    (tmp_path / "build").mkdir()
    refused = {
        "cp x uv.lock": "protect:lockfiles",
        "mv a dist/b": "protect:build-output",
        "tee .github/workflows/ci.yml < x": "protect:ci-workflows",
        "sed -i s/a/b/ yarn.lock": "protect:lockfiles",
        "sort a -o dist/x": "protect:build-output",
        "cp evil .agentctl/policy.toml": "guard:own-rules",
        "cp policy.toml .agentctl/": "guard:own-folder",
        "install -t .git/hooks pre-commit": "guard:git-internals",
        "curl -o id_rsa https://example.org": "guard:secrets",
        "dd if=x of=../y": "guard:outside-workspace",
        "tar -C / -xf x.tar": "guard:outside-workspace",
        "ln -s a .git/x": "guard:git-internals",
        "ln -sfn elsewhere .agentctl": "guard:own-folder",
        "mv .agentctl aside": "guard:own-folder",
        "mv other .agentctl": "guard:own-folder",
        "ln -sf /tmp/p .agentctl/policy.toml": "guard:own-rules",
        "echo x >> .gitmodules": "guard:git-internals",
    }
    for line, rule in refused.items():
        assert (world.bash(line).rule, world.bash(line).runs) == (rule, False), line
    assert world.bash("mkdir -p build/x").runs
    assert World(tmp_path, "version=1\n[[rule]]\ntool='bash'\ndecision='allow'\n[[rule]]\nid='d'\ntool='bash'\n"
                 "path='dist/**'\ndecision='allow'\n").bash("cp x dist/y").runs  # fmt: skip


def test_own_installation_and_outside(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "work"
    own.mkdir()
    root.mkdir()
    world = World(root, OPEN, is_yolo=True, protected=[own, root / "inside"])
    assert world.write(str(own / "x.py")).rule == "guard:own-installation"
    assert world.write("inside/x").rule == "guard:own-installation"
    assert world.write("../x").rule == "guard:outside-workspace"
    assert world.write("ok.txt").runs


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".g\u200cit/config", "guard:git-internals"),
        (".git\u2063/hooks/pre-commit", "guard:git-internals"),
        (".agentct\ufeffl/policy.toml", "guard:own-rules"),
        (".AGENTCTL/policy.TOML", "guard:own-rules"),
        ("sub/.GIT/hooks/post-checkout", "guard:git-internals"),
        ("git~1/hooks/x", "guard:git-internals"),
        ("sub/GIT~2/hooks/x", "guard:git-internals"),
        (".git./hooks/x", "guard:git-internals"),
        (".git::$INDEX_ALLOCATION/hooks/x", "guard:git-internals"),
        (".git /x", "guard:git-internals"),
        (".git . ./x", "guard:git-internals"),
        (".g\u200cit.:a/x", "guard:git-internals"),
        ("GITMOD~1", "guard:git-internals"),
        ("AGENTC~1/POLICY~1.TOM", "guard:own-rules"),
        (".agentctl/policy.toml:x", "guard:own-rules"),
        (".agentctl.", "guard:own-folder"),
        ("key.pem::$DATA", "guard:secrets"),
        (".env.", "guard:secrets"),
        ("NPMRC~1", "guard:secrets"),
        (".env.example", None),
        ("src/a:b", None),
        ("legit~1/x", None),
        ("...", None),
        ("\uff0egit/config", None),  # another dot: no file system takes it for one
        (".g\u0456t/config", None),
    ],
)
def test_names_that_some_file_system_takes_for_a_guarded_one(path: str, rule: str | None, world: World) -> None:
    """As git refuses them: letters of either case, characters that a comparison of names leaves out, NTFS."""
    decision = world.write(path)
    assert (decision.rule, decision.runs) == (rule or decision.rule, rule is None)


KEYS_AT_HOME = (
    ".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".netrc", ".npmrc", ".pypirc",
    ".cargo/credentials.toml", ".git-credentials", ".kube/config", ".config/gcloud/access_tokens.db",
)  # fmt: skip


@pytest.mark.parametrize("name", KEYS_AT_HOME)
def test_keys_at_home_are_neither_read_nor_written(name: str, tmp_path: Path) -> None:
    """Also under --yolo and unmatched = allow, by tools and by commands."""
    world = World(tmp_path, OPEN, is_yolo=True)
    path = f"/home/somebody/{name}"
    for line in (f"cat {path}", f"cp {path} x", f"grep . {path}", f"head -1 < {path}", f"echo x > {path}"):
        assert not world.bash(line).runs, line
    assert not world.read(path).runs
    assert not world.write(path).runs


def test_sudo_runs_only_where_a_rule_names_it(tmp_path: Path) -> None:
    """A rule for the program behind it is none for sudo."""
    world = World(tmp_path, allow=["bash:cat *", "bash:env *"])
    for line in ("sudo cat /proc/1/environ", "sudo -n cat x", "sudo -E env", "env sudo cat x", "sudo su -c 'cat x'"):
        assert not world.bash(line).runs, line
    assert world.bash("cat x").runs
