"""The policy of a run: where its files come from, what nothing may write, and what the verbs say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentctl.config.options import Options
from agentctl.config.settings import Settings, resolve
from agentctl.config.trust import WorkspaceReader
from agentctl.core.errors import PolicyError
from agentctl.policy.engine import PolicyEngine
from agentctl.policy.shipped import profile_text
from agentctl.runner.explain import explain_call
from agentctl.runner.policies import load_run_policy
from agentctl.tools.sets import catalogue_tools

RULES = """
version = 1

[[rule]]
id = "checks"
tool = "bash"
command = ["pytest *"]
decision = "allow"
match = ["pytest -q"]

[[rule]]
id = "docs"
tool = "@write"
path = ["docs/**"]
decision = "allow"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def settings_of(root: Path, home: Path | None = None, env: dict[str, str] | None = None, **options: Any) -> Settings:
    env = {"HOME": str(root.parent), "AGENTCTL_HOME": str(home or root.parent / "home"), **(env or {})}
    return resolve(Options(**options), env=env, cwd=root)


def engine_of(root: Path, **options: Any) -> PolicyEngine:
    settings = settings_of(root, **options)
    return load_run_policy(settings, WorkspaceReader(settings.root, settings.trust))


def explain(engine: PolicyEngine, tool: str, **arguments: Any) -> tuple[str, bool, str]:
    row = explain_call(engine, tool, arguments)
    return row["verdict"], row["runs"], row["rule"]


def test_a_shipped_profile(root: Path) -> None:
    engine = engine_of(root, policy="builtin:fix")
    assert engine.source_names == ("builtin:fix", "built-in")
    assert explain(engine, "bash", command="pytest -q") == ("allow", True, "python-checks")
    assert explain(engine, "bash", command="git push") == ("unmatched", False, "unmatched")
    assert engine.unmatched_source == "builtin:fix:9"


def test_a_profile_is_trusted_where_the_workspace_is_not(root: Path) -> None:
    engine = engine_of(root, policy="builtin:fix", env={"GITHUB_EVENT_NAME": "pull_request"})
    assert explain(engine, "bash", command="pytest -q") == ("allow", True, "python-checks")
    assert engine.problems == ()


def test_a_profile_joins_the_other_files(root: Path) -> None:
    (root / ".agentctl").mkdir()
    (root / ".agentctl" / "policy.toml").write_text('version = 1\n[[rule]]\ntool = "bash"\ndecision = "deny"\n')
    engine = engine_of(root, policy="builtin:fix", deny=("@write:docs/**",))
    assert engine.source_names == ("builtin:fix", ".agentctl/policy.toml", "built-in")
    assert explain(engine, "bash", command="pytest -q")[0] == "deny"
    assert explain(engine, "write_file", path="docs/a", content="")[0] == "deny"


@pytest.mark.parametrize(
    ("name", "message"),
    [("builtin:fx", "there is no profile 'builtin:fx'"), ("missing.toml", "--policy 'missing.toml' does not exist")],
)
def test_names_that_are_none(name: str, message: str, root: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        engine_of(root, policy=name)
    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_nothing_writes_what_the_run_lives_by(root: Path) -> None:
    """Also where it lies inside the workspace, behind a link or under --yolo."""
    (root / "ci").mkdir()
    (root / "ci" / "rules.toml").write_text(RULES)
    (root / "link.toml").symlink_to("ci/rules.toml")
    engine = engine_of(root, home=root / "own", policy="ci/rules.toml", allow=("@write:**", "bash"), yolo=True)
    for path in ("ci/rules.toml", "link.toml", "own/config.toml", "own/state/x", "own/data/x", "own/cache/x"):
        assert explain(engine, "write_file", path=path, content="")[::2] == ("guard", "guard:own-installation"), path
        assert explain(engine, "bash", command=f"echo x >> {path}")[::2] == ("guard", "guard:own-installation"), path
    assert explain(engine, "write_file", path="ci/other.toml", content="")[1]
    package = Path(sys.modules["agentctl"].__file__ or "").parent / "version.py"
    assert explain(engine, "bash", command=f"echo x > {package}")[::2] == ("guard", "guard:own-installation")


def test_arguments_that_do_not_fit_are_a_row(root: Path) -> None:
    engine = engine_of(root, yolo=True)
    assert explain_call(engine, "bash", {"cmd": "ls"}) == {
        "verdict": "opaque",
        "runs": False,
        "rule": "opaque:arguments",
        "source": "built-in",
        "reason": "The arguments do not fit: command: Field required (got \"{'cmd': 'ls'}\"); "
        "cmd: Extra inputs are not permitted (got 'ls'). Fields: command, timeout?.",
        "allow_with": None,
        "losing": [],
    }


def test_wrappers_find_the_built_in_tools(root: Path) -> None:
    engine = engine_of(root, allow=("bash:ls *",))
    read = catalogue_tools()["read_file"].spec
    stands_for = read.replace(
        name="mcp_call", subjects=lambda args: (), acts_as=lambda args: (args["name"], args["args"])
    )
    decisions = [
        engine.decide(stands_for, {"name": name, "args": args})
        for name, args in (
            ("bash", {"command": "ls"}),
            ("bash", {"command": "touch x"}),
            ("read_file", {"path": ".env"}),
        )
    ]
    assert [(item.verdict, item.runs) for item in decisions] == [("allow", True), ("unmatched", False), ("deny", False)]


# --- verbs


def run(root: Path, *words: str, stdin: str = "") -> tuple[int, str, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "AGENTCTL_HOME": str(root.parent / "home")}
    command = [str(Path(sys.executable).parent / "agentctl"), *words]
    ended = subprocess.run(command, cwd=root, env=env, input=stdin, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_policy_check_lists_the_built_in_rules(root: Path) -> None:
    code, out, _ = run(root, "policy", "check", "--policy", "builtin:review")
    assert (code, out.splitlines()[0]) == (0, "ok: builtin:review, built-in")


def test_policy_test(root: Path) -> None:
    (root / "p.toml").write_text(RULES)
    code, out, _ = run(root, "policy", "test", "--policy", "p.toml")
    assert code == 3
    assert out.splitlines() == [
        "1 examples of 2 rules hold: p.toml, built-in",
        "p.toml:11: rule 'docs' has no example in match",
    ]
    code, out, _ = run(root, "policy", "test", "--policy", "p.toml", "--json", "--allow", "bash:x")
    assert (code, json.loads(out)) == (
        3,
        {
            "ok": False,
            "sources": ["p.toml", "built-in"],
            "rules": 2,
            "examples": 1,
            "uncovered": [{"rule": "docs", "source": "p.toml:11"}],
            "problems": [],
        },
    )
    (root / "p.toml").write_text(RULES + 'match = ["docs/a.md"]\n')
    assert run(root, "policy", "test", "--policy", "p.toml")[0] == 0
    (root / "p.toml").write_text(RULES + 'match = ["src/a.md"]\n')
    code, _, err = run(root, "policy", "test", "--policy", "p.toml")
    assert code == 2
    assert "p.toml:11: the example 'src/a.md' in match of rule 'docs' does not match it" in err


@pytest.mark.parametrize("name", ["review", "edit", "fix", "commit", "deps"])
def test_shipped_profiles_pass_their_test(name: str, root: Path) -> None:
    code, out, err = run(root, "policy", "test", "--policy", f"builtin:{name}")
    assert (code, err) == (0, ""), out


def test_policy_show_prints_a_file_that_loads(root: Path) -> None:
    code, out, _ = run(root, "policy", "show", "builtin:commit")
    assert (code, out) == (0, profile_text("builtin:commit"))
    (root / "copy.toml").write_text(out)
    copied, shipped = (json.loads(run(root, "policy", "check", "--json", "--policy", name)[1])["digest"]
                       for name in ("copy.toml", "builtin:commit"))  # fmt: skip
    assert copied == shipped
    code, _, err = run(root, "policy", "show", "builtin:comit")
    assert code == 2
    assert "Did you mean 'builtin:commit'?" in err


def test_policy_show_lists_the_rules_of_a_run(root: Path) -> None:
    (root / "p.toml").write_text(RULES)
    code, out, _ = run(root, "policy", "show", "--policy", "p.toml", "--deny", "bash:git push *", "--json")
    shown = json.loads(out)
    assert code == 0
    assert (shown["unmatched"], shown["unmatched_source"], shown["sources"]) == (
        "ask",
        "built-in",
        ["p.toml", "built-in"],
    )
    assert [rule["id"] for rule in shown["rules"]] == [
        "builtin:read", "builtin:secrets", "builtin:state", "checks", "docs", "deny:bash:git push *",
    ]  # fmt: skip
    assert shown["rules"][4] == {
        "id": "docs", "source": "p.toml:11", "decision": "allow", "tool": ["@write"], "path": ["docs/**"], "reason": "",
    }  # fmt: skip
    _, text, _ = run(root, "policy", "show", "--policy", "p.toml", "--deny", "bash:git push *")
    assert [line.split()[:2] for line in text.splitlines()[:2]] == [
        ["deny", "builtin:secrets"],
        ["deny", "deny:bash:git"],
    ]
    assert "command 'pytest *'" in text


def test_policy_explain(root: Path) -> None:
    (root / "p.toml").write_text(RULES)
    words = ("policy", "explain", "--policy", "p.toml", "--deny", "bash:pytest --pdb *")
    code, out, _ = run(root, *words, "bash", '{"command": "pytest --pdb"}')
    assert (code, out.splitlines()) == (
        0,
        [
            "does not run: deny",
            "rule deny:bash:pytest --pdb * (--deny 'bash:pytest --pdb *')",
            "The rule deny:bash:pytest --pdb * denies 'pytest --pdb'. Go on without it.",
            "lost: allow checks (p.toml:4)",
        ],
    )
    row = json.loads(run(root, *words, "--json", "bash", '{"command": "pytest --pdb"}')[1])
    assert row["losing"] == [{"verdict": "allow", "rule": "checks", "source": "p.toml:4"}]
    calls = [{"tool": "bash", "input": {"cmd": 1}}, {"tool": "bash", "input": {"command": "pytest"}}, {"tool": "nope"}]
    code, out, _ = run(root, *words, "-", stdin="".join(json.dumps(call) + "\n" for call in calls))
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(row["rule"], row["runs"]) for row in rows] == [
        ("opaque:arguments", False), ("checks", True), ("unmatched", False),
    ]  # fmt: skip


def test_a_row_with_half_a_character_is_answered_like_any_other(root: Path) -> None:
    lines = (
        r'{"tool":"bash","input":{"command":"echo \ud83d"}}',
        r'{"tool":"read_file","input":{"path":"\udc00"}}',
        r'{"tool":"no\ud83d","input":{}}',
        r'{"tool":"bash","input":{"command":"echo \ud83d\ude00"}}',
    )
    code, out, _ = run(root, "policy", "explain", "--yolo", "-", stdin="\n".join(lines))
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [(row["rule"], row["runs"]) for row in rows]) == (
        0,
        [("opaque:arguments", False), ("opaque:arguments", False), ("unmatched", False), ("unmatched", True)],
    )
    for line in ('{"tool":"bash","input":{"command":NaN}}', "{", "[" * 100_000):
        code, out, err = run(root, "policy", "explain", "-", stdin=lines[0] + "\n" + line)
        assert (code, len(out.splitlines())) == (2, 1)
        assert "line 2 of stdin" in err


def test_schema_policy(root: Path) -> None:
    code, out, _ = run(root, "schema", "policy")
    assert (code, json.loads(out)["title"]) == (0, "agentctl policy")
