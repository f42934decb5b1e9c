"""Verdicts, explanations and what lifts them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentctl.core.types import Decision, Losing, Subject, ToolSpec
from agentctl.policy.loading import PolicySource
from tests.unit.policy.policy_world import World, spec

POLICY = """
version = 1
unmatched = "ask"

[[rule]]
id = "commits"
tool = "bash"
command = ["git add *", "git commit *", "echo *", "env", "cat *"]
decision = "allow"

[[rule]]
id = "sources"
tool = "@write"
path = ["src/**"]
decision = "allow"

[[rule]]
id = "generated"
tool = "@write"
path = ["src/generated/**"]
decision = "deny"
reason = "Generated files are built, not edited."
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, POLICY)


def test_what_runs(world: World) -> None:
    for line in (
        "git add -A && git commit -m 'x; y'",
        "echo hi | cat -",
        'echo $((6*7)) "$x"',
        "cat <(echo a)",
        "eval 'echo a'",
        "bash -c 'echo a | cat'",
        "timeout 5 echo a",
        "echo a > out.txt 2>&1",
        "env",
    ):
        decision = world.bash(line)
        assert decision.runs, (line, decision)
    assert world.write("./src/x/../a.py").runs
    assert world.read("docs/a").runs


def test_what_stops(world: World) -> None:
    stops = {
        "git push": "unmatched",
        "git add -A\ngit push": "unmatched",
        "echo $(git push)": "unmatched",
        "echo `touch x`": "unmatched",
        "X=1 touch y": "unmatched",
        "echo hi > /etc/motd": "guard",
        "eval 'git push'": "unmatched",
        "git -c core.pager=sh log": "opaque",
        "e''cho hi; to\\uch z": "unmatched",
        "cat <(touch x)": "unmatched",
        "timeout 5 touch x": "unmatched",
        "$CMD hi": "opaque",
        "echo 'open": "opaque",
        "git -C sub add x": "unmatched",
        "sudo git add x": "unmatched",
        "cat .env": "deny",
        "cat ./x/../.env.local": "deny",
        "cat < .env": "deny",
        "cat /etc/passwd": "unmatched",
        "./git add x": "unmatched",
        "env PATH=. git add x": "opaque",
    }
    for line, verdict in stops.items():
        decision = world.bash(line)
        assert (decision.verdict, decision.runs) == (verdict, False), (line, decision)
    for path, verdict in {"src/generated/a": "deny", "docs/a": "unmatched", "src/../setup.py": "unmatched"}.items():
        assert (world.write(path).verdict, world.write(path).runs) == (verdict, False), path


def test_each_path_of_a_call_is_judged(world: World) -> None:
    many = world.engine.decide(spec("read_many_files"), {"files": [{"path": ".env.example"}, {"path": ".env"}]})
    assert (many.verdict, many.rule) == ("deny", "builtin:secrets")
    assert world.engine.decide(spec("read_many_files"), {"files": [{"path": ".env.example"}, {"path": "a b"}]}).runs
    moved = world.engine.decide(spec("move_file"), {"from": "src/a", "to": "src/generated/a"})
    assert (moved.verdict, moved.rule) == ("deny", "generated")


def test_a_whole_decision(world: World) -> None:
    assert world.write("src/generated/a.py") == Decision(
        verdict="deny",
        runs=False,
        rule="generated",
        source="p.toml:17",
        reason="Generated files are built, not edited.",
        losing=(Losing(verdict="allow", rule="sources", source="p.toml:11"),),
    )
    unmatched = world.bash("pytest -q")
    assert (unmatched.rule, unmatched.source, unmatched.allow_with) == ("unmatched", "p.toml:3", "bash:pytest *")
    assert "'pytest -q'" in unmatched.reason
    assert "yolo" not in unmatched.reason
    assert World(world.root).bash("pytest").source == "built-in"


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "git -C sub status",
        "npm run build -- --x",
        "python3 -m pytest -q",
        "python3 -c 'print(1)'",
        "sudo apt-get install x",
        "timeout 9 make all",
        "cargo +nightly test",
        "./run.sh --fast",
        "bash <<< 'echo'",
        "PYTHONPATH=src pytest",
        "> out.txt",
    ],
)
def test_allow_with_lets_it_run(line: str, tmp_path: Path) -> None:
    """What a refusal proposes is enough, value by value."""
    allow: list[str] = []
    for _ in range(4):
        decision = World(tmp_path, allow=allow).bash(line)
        if decision.runs:
            break
        assert decision.allow_with
        assert decision.allow_with not in allow
        allow.append(decision.allow_with)
    assert World(tmp_path, allow=allow).bash(line).runs
    assert not World(tmp_path, allow=allow).bash("canary x").runs or allow == ["bash"]


def test_several_needs_are_named(tmp_path: Path) -> None:
    decision = World(tmp_path).bash("make all && touch x")
    assert decision.allow_with == "bash:make all *"
    assert "'bash:touch *'" in decision.reason
    odd = World(tmp_path).write("docs/a[1]*.md")
    assert World(tmp_path, allow=[str(odd.allow_with)]).write("docs/a[1]*.md").runs
    assert not World(tmp_path, allow=[str(odd.allow_with)]).write("docs/a1x.md").runs


def test_yolo(tmp_path: Path) -> None:
    world = World(tmp_path, POLICY, is_yolo=True)
    for line in (
        "touch x",
        "python3 -c 'print(1)'",
        "eval 'touch y'",
        "awk 'BEGIN{system(\"x\")}'",
        "git -c a.b=c log",
    ):
        assert world.bash(line).runs, line
    for line in ("git push --force", "echo 'open", "$CMD x", "rm -rf /", "timeout --new 5 x", "cat .env"):
        assert not world.bash(line).runs, line
    assert not world.write("uv.lock").runs
    assert not world.write("src/generated/a").runs
    closed = World(tmp_path, 'version = 1\nunmatched = "deny"\n', is_yolo=True)
    assert (closed.bash("touch x").verdict, closed.bash("touch x").runs) == ("unmatched", False)


def test_unmatched_allow_lifts_no_code(tmp_path: Path) -> None:
    world = World(tmp_path, 'version = 1\nunmatched = "allow"\n')
    assert world.bash("make all").runs
    for line in ("python3 -c 1", "awk 'BEGIN{system(1)}'", "echo ls | sh", ". ./x", "tar -I x -xf y"):
        assert (world.bash(line).verdict, world.bash(line).runs) == ("opaque", False), line


def test_code_is_lifted_by_naming_the_interpreter_only(tmp_path: Path) -> None:
    line = "python3 -c 'print(1)'"
    for allow, runs in (("bash", False), ("bash:*", False), ("bash:python3 *", True), ("bash:python3 -c *", True)):
        assert World(tmp_path, allow=[allow]).bash(line).runs is runs, allow
    assert not World(tmp_path, allow=["bash:awk *"]).bash("awk 'BEGIN{system(1)}'").runs
    assert World(tmp_path, allow=["bash:awk *"]).bash("awk '{print $1}' f").runs


def test_order_and_strictness(tmp_path: Path) -> None:
    """A deny wins over a narrower allow, whatever comes first; so does an ask."""
    rows = ['tool="bash"\ncommand="aws *"\ndecision="allow"\n', 'tool="bash"\ncommand="aws iam *"\ndecision="deny"\n']
    for order in (rows, rows[::-1]):
        world = World(tmp_path, "version=1\n" + "".join(f"[[rule]]\n{row}" for row in order))
        assert world.bash("aws s3 ls").runs
        assert world.bash("aws iam x").verdict == "deny"
        assert world.bash("aws --region x iam y").verdict == "deny"
        assert world.bash("aws $verb y").verdict == "deny"
    asks = World(tmp_path, 'version=1\n[[rule]]\ntool="bash"\ndecision="ask"\n', allow=["bash:x"])
    assert (asks.bash("x").verdict, asks.bash("x").runs, asks.bash("x").allow_with) == ("ask", False, None)


def test_paths_are_judged_where_they_lead(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", root / "src" / "link")
    os.symlink(root / "src", root / "alias")
    os.symlink(root / ".env", root / "innocent")
    world = World(root, POLICY)
    assert world.write("src/link/x").rule == "guard:outside-workspace"
    assert world.write(str(root / "src" / "a")).runs
    assert not world.write("alias/a").runs, "an allow rule has to cover both names"
    assert world.write("alias/generated/a").rule == "generated"
    assert world.read("innocent").rule == "builtin:secrets"
    assert not world.read("../out/x").runs
    assert not world.read("\0").runs
    wide = World(root, POLICY, extra_roots=[tmp_path / "out"])
    assert wide.read(str(tmp_path / "out" / "x")).runs


def test_devices_and_private_folder_are_inside(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    root = tmp_path / "work"
    root.mkdir()
    world = World(root, allow=["bash:echo *", "bash:cat *"], private_tmp=private)
    for line in ("echo x > /dev/null 2>&1", "echo x >&2", f"echo x > {private}/a", "cat < /dev/null"):
        assert world.bash(line).runs, line
    for line in ("echo x > /dev/sda", "echo x > ~/.bashrc", "echo x > ../a", "echo x > /dev/tcp/h/1"):
        assert world.bash(line).verdict == "guard", line


def test_folders_are_followed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    world = World(tmp_path, allow=["bash"])
    inside = (
        "cd sub && echo x > a",
        "cd sub && echo x > ../a",
        "(cd /etc && ls); echo x > a",
        "cd sub; touch b",
        "bash -c 'cd /etc && ls'; touch a",
        "env -C sub touch ../a",
    )
    for line in inside:
        assert world.bash(line).runs, (line, world.bash(line))
    outside = (
        "cd /etc && echo x > hosts",
        "cd ..; touch a",
        "cd sub; touch ../a",
        "cd sub && cd ../.. && touch a",
        "cd / || true; touch a",
        "env -C / touch a",
        "for i in 1 2; do cd ..; touch sub/x; done",
        "f() { cd /etc; }; f; touch a",
        "cd $d; touch a",
        "pushd /etc; touch a",
        "cd -; touch a",
        "eval 'cd /etc'; touch a",
        "cd sub; for i in 1 2; do touch a; cd ..; done",
    )
    for line in outside:
        assert not world.bash(line).runs, line


def test_variables_of_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "server.pem").write_text("x")
    world = World(tmp_path, allow=["bash"])
    for line in (
        'd=gen; mkdir -p "$d" && touch "$d/a"',
        'for f in *.py; do cat "$f"; done',
        "f=a.py; cat $f",
        "for f in a b; do touch $f.txt; done",
        "n=3; echo $((n*2))",
        "echo $((i++))",
    ):
        assert world.bash(line).runs, (line, world.bash(line))
    for line in (
        'd=/etc; touch "$d/a"',
        'for f in *; do cat "$f"; done',
        'f=.env; cat "$f"',
        'f=a; f=$(x); cat "$f"',
        'read f; cat "$f"',
        'touch "$HOME/a"',
        'HOME=x; touch "$HOME/a"',
        '(d=sub); touch "$d/etc"',
        'f=a; eval "$x"; cat $f',
        "x=$(cat f); echo $((x))",
        "x='a[$(y)]'; echo $((x))",
    ):
        assert not world.bash(line).runs, line


def test_sources_and_trust(tmp_path: Path) -> None:
    loose = 'version=1\nunmatched="allow"\n[[rule]]\ntool="bash"\ndecision="allow"\n[[rule]]\nid="no"\ntool="bash"\n'
    loose += 'command="curl *"\ndecision="deny"\n'

    def of(is_trusted: bool) -> PolicySource:
        return PolicySource(name=".agentctl/policy.toml", text=loose, is_trusted=is_trusted, kind="project")

    untrusted = World(tmp_path, sources=[of(False)])
    assert (untrusted.bash("touch x").verdict, untrusted.bash("touch x").runs) == ("unmatched", False)
    assert untrusted.bash("curl x").rule == "no"
    assert [problem.what for problem in untrusted.engine.problems] == [".agentctl/policy.toml"]
    trusted = World(tmp_path, sources=[of(True)])
    assert trusted.bash("touch x").runs
    assert trusted.engine.problems == ()
    assert trusted.engine.source_names == (".agentctl/policy.toml", "built-in")
    closing = PolicySource(name="c", text='version=1\nunmatched="deny"\n', is_trusted=False, kind="project")
    mixed = World(tmp_path, sources=[of(True), closing])
    assert mixed.bash("touch x").rule == "rule-1", "the allow rule still covers it"
    assert mixed.write("a").source == "c:2"
    assert World(tmp_path, 'version=1\nunmatched="allow"\n', sources=[closing]).write("a").runs is False
    asking = PolicySource(name="a", text='version=1\nunmatched="ask"\n', is_trusted=True, kind="user")
    assert World(tmp_path, 'version=1\nunmatched="allow"\n', sources=[asking]).write("a").source == "a:2"


def test_digest(tmp_path: Path) -> None:
    one = World(tmp_path, POLICY).engine.digest
    assert one == World(tmp_path, POLICY, is_yolo=True).engine.digest
    assert one == World(tmp_path, "\n\n" + POLICY.replace("built, not", "made, not")).engine.digest
    others = [
        World(tmp_path).engine.digest,
        World(tmp_path, POLICY, allow=["bash"]).engine.digest,
        World(tmp_path, POLICY, deny=["bash"]).engine.digest,
        World(tmp_path, POLICY.replace('"ask"', '"deny"')).engine.digest,
        World(tmp_path, POLICY.replace('"env"', '"id"')).engine.digest,
    ]
    assert len({one, *others}) == 6


def test_may_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".env").write_text("x")
    os.symlink(tmp_path / ".env", tmp_path / "sub" / "link")
    os.symlink("/etc/hostname", tmp_path / "sub" / "out")
    world = World(tmp_path, deny=["@read:private/**"])
    readable = {
        name: world.engine.may_read(name)
        for name in (
            "a.py",
            "sub/x",
            ".env",
            "sub/.env.local",
            ".env.example",
            "sub/link",
            "sub/out",
            "private/a",
            "../x",
            "sub/../.env",
            str(tmp_path / ".env"),
            str(tmp_path / "a"),
        )
    }
    assert [name for name, is_readable in readable.items() if is_readable] == [
        "a.py",
        "sub/x",
        ".env.example",
        str(tmp_path / "a"),
    ]


def test_names_without_a_tool(tmp_path: Path) -> None:
    world = World(tmp_path, 'version=1\nunmatched="allow"\n[[rule]]\nid="m"\ntool="@mcp"\ndecision="deny"\n')
    assert (world.engine.decide_by_name("mcp__x__y").verdict, world.engine.decide_by_name("nope").runs) == (
        "deny",
        False,
    )
    assert "nope" in world.engine.decide_by_name("nope").reason


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    engine = World(tmp_path, is_yolo=True).engine
    assert (engine.decide(spec("bash"), {}).verdict, engine.decide(spec("bash"), {}).runs) == ("opaque", False)
    assert engine.decide(spec("todo_write"), {"items": []}).runs


def test_decoded_arguments_decide(tmp_path: Path) -> None:
    """Extra keys and their order change nothing: the policy sees subjects, never the JSON text."""
    engine = World(tmp_path, allow=["bash:echo *"]).engine
    assert engine.decide(spec("bash"), {"z": 1, "command": "echo \u0061"}) == engine.decide(
        spec("bash"), {"command": "echo a"}
    )


def test_urls(tmp_path: Path) -> None:
    text = 'version=1\n[[rule]]\nid="docs"\ntool="@network"\nurl="https://*.example.org/docs/*"\ndecision="allow"\n'
    engine = World(tmp_path, text).engine
    fetch = spec("web_fetch")
    runs = {
        "https://a.example.org/docs/x": True,
        "HTTPS://A.EXAMPLE.ORG./docs/x?y": True,
        "https://a.example.org:443/docs/x": True,
        "http://a.example.org/docs/x": False,
        "https://example.org/docs/x": False,
        "https://u@a.example.org/docs/x": False,
        "https://evil.test/.example.org/docs/x": False,
        "https://evil.test#.example.org/docs/x": False,
        "https://evil.test\\.example.org/docs/x": False,
    }
    assert {url: engine.decide(fetch, {"url": url}).runs for url in runs} == runs
    named = ToolSpec(
        name="mcp__a__b",
        description="",
        parameters={},
        effect="network",
        set="net",
        subjects=lambda args: (Subject(kind="server", value="a b"),),
    )
    assert World(tmp_path, allow=["mcp__a__*"]).engine.decide(named, {}).runs
