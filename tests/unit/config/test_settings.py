"""Options become settings: precedence, origins, defaults, and every complaint on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl.config.options import Options
from agentctl.config.settings import Settings, resolve
from agentctl.config.sources import Given
from agentctl.config.table import OPTIONS
from agentctl.config.trust import Trust
from agentctl.core.errors import ConfigError, UsageError
from agentctl.core.toolnames import TOOL_NAMES
from agentctl.core.types import Problem

PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request"}


class World:
    """A home, a project and an environment."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        (self.project / ".agentctl").mkdir(parents=True)
        self.home.mkdir()
        self.user_file = self.home / "config.toml"
        self.project_file = self.project / ".agentctl" / "config.toml"

    def resolve(self, options: Options | None = None, **env: str) -> Settings:
        environment = {"AGENTCTL_HOME": str(self.home), **env}
        return resolve(options or Options(), env=environment, cwd=self.project)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def test_the_defaults(world: World) -> None:
    settled = world.resolve()
    expected = {
        "prompt": (),
        "stdin": "auto",
        "format": "text",
        "root": world.project,
        "model": None,
        "transport": "direct",
        "fallback": (),
        "price": None,
        "agent": "default",
        "think": "medium",
        "max_output_tokens": None,
        "tools": tuple(name for name in TOOL_NAMES if name != "ask"),
        "max_steps": 50,
        "max_tool_calls": 200,
        "max_denials": 20,
        "timeout": 1800.0,
        "tool_timeout": 120.0,
        "max_tokens": None,
        "max_cost": None,
        "allow": (),
        "yolo": False,
        "fail_on": (),
        "no_skills": False,
        "trust": Trust(level="workspace", why="built-in"),
        "problems": (),
    }
    assert {name: getattr(settled, name) for name in expected} == expected
    assert dict(settled.origins) == {option.name: "built-in" for option in OPTIONS} | {
        "max_steps": "agent default",
        "think": "agent default",
    }


def test_each_layer_beats_the_ones_below(world: World) -> None:
    world.user_file.write_text('max_steps = 1\nmax_tool_calls = 2\nmax_denials = 3\ntimeout = "4s"\nthink = "low"\n')
    world.project_file.write_text("max_steps = 10\nmax_tool_calls = 20\nmax_denials = 30\n")
    settled = world.resolve(Options(max_steps=100), AGENTCTL_MAX_STEPS="101", AGENTCTL_MAX_TOOL_CALLS="200")
    names = ("max_steps", "max_tool_calls", "max_denials", "timeout", "think")
    assert [(getattr(settled, name), settled.origins[name]) for name in names] == [
        (100, "--max-steps"),
        (200, "AGENTCTL_MAX_TOOL_CALLS"),
        (30, str(world.project_file)),
        (4.0, str(world.user_file)),
        ("low", str(world.user_file)),
    ]


@pytest.mark.parametrize(
    ("agent", "steps", "think"),
    [
        ("default", 50, "medium"),
        ("quick", 12, "off"),
        ("deep", 80, "max"),
        ("plan", 50, "high"),
        ("review", 50, "high"),
    ],
)
def test_the_agent_sets_steps_and_thinking(world: World, agent: str, steps: int, think: str) -> None:
    settled = world.resolve(Options(agent=agent))
    assert (settled.max_steps, settled.think) == (steps, think)
    assert (settled.origins["agent"], settled.origins["max_steps"]) == ("--agent", f"agent {agent}")


def test_an_explicit_limit_beats_the_agent(world: World) -> None:
    world.user_file.write_text("max_steps = 7\n")
    settled = world.resolve(Options(agent="deep", think="off"))
    assert (settled.max_steps, settled.think, settled.origins["think"]) == (7, "off", "--think")


def test_reading_agents_are_offered_only_what_reads(world: World) -> None:
    reading = {"read_file", "glob", "grep", "list_dir", "read_many_files"}
    state = {name for name, tool in TOOL_NAMES.items() if tool.effect == "state"}
    for agent in ("plan", "review"):
        assert set(world.resolve(Options(agent=agent)).tools) == reading | state - {"ask"}


TOOLS: list[tuple[tuple[str, ...], set[str]]] = [
    (("core",), {"read_file", "write_file", "edit_file", "glob", "grep", "bash"}),
    (("read_file", "bash"), {"read_file", "bash"}),
    (("+core",), set(TOOL_NAMES) - {"ask"}),
    (("core", "todo_write"), {"read_file", "write_file", "edit_file", "glob", "grep", "bash", "todo_write"}),
]


@pytest.mark.parametrize(("words", "offered"), TOOLS)
def test_tools_are_sets_and_names(world: World, words: tuple[str, ...], offered: set[str]) -> None:
    assert set(world.resolve(Options(tools=words)).tools) == offered


def test_a_tool_that_a_reading_agent_may_not_have_is_named(world: World) -> None:
    settled = world.resolve(Options(agent="review", tools=("read_file", "bash")))
    assert settled.tools == ("read_file",)
    assert settled.problems == (
        Problem(code="left-out", what="--tools bash", why="the agent 'review' only reads", fix="Use another --agent."),
    )


def test_rules_of_all_layers_count_with_their_origin(world: World) -> None:
    world.user_file.write_text('allow = "bash:make"\ndeny = ["bash:rm *"]\nsecret_env = "A"\npass_env = ["X"]\n')
    world.project_file.write_text('deny = ["@write:db/**"]\n')
    settled = world.resolve(
        Options(allow=("bash:ls",), secret_env=("B",), pass_env=("Y",)), AGENTCTL_DENY="bash:git push\nbash:git tag"
    )
    assert settled.allow == (
        Given(value="bash:ls", origin="--allow"),
        Given(value="bash:make", origin=str(world.user_file)),
    )
    assert settled.deny == (
        Given(value="bash:git push", origin="AGENTCTL_DENY"),
        Given(value="bash:git tag", origin="AGENTCTL_DENY"),
        Given(value="@write:db/**", origin=str(world.project_file)),
        Given(value="bash:rm *", origin=str(world.user_file)),
    )
    assert (settled.secret_env, settled.pass_env) == (("B", "A"), ("Y",))
    assert settled.origins["allow"] == f"--allow, {world.user_file}"


FORMATS: list[tuple[Options, dict[str, str], str, str]] = [
    (Options(json=True), {}, "jsonl", "--json"),
    (Options(format="json"), {}, "json", "--format"),
    (Options(json=True, format="jsonl"), {}, "jsonl", "--json"),
    (Options(json=True), {"AGENTCTL_FORMAT": "text"}, "jsonl", "--json"),
    (Options(format="text"), {"AGENTCTL_JSON": "1"}, "text", "--format"),
    (Options(), {"AGENTCTL_JSON": "true"}, "jsonl", "AGENTCTL_JSON"),
    (Options(), {"AGENTCTL_JSON": "0", "AGENTCTL_FORMAT": "json"}, "json", "AGENTCTL_FORMAT"),
]


@pytest.mark.parametrize(("options", "env", "form", "origin"), FORMATS)
def test_json_is_a_format(world: World, options: Options, env: dict[str, str], form: str, origin: str) -> None:
    settled = world.resolve(options, **env)
    assert (settled.format, settled.origins["format"]) == (form, origin)


def test_two_formats_in_one_place_are_an_error(world: World) -> None:
    with pytest.raises(UsageError, match="--json asks for jsonl and --format for 'text'"):
        world.resolve(Options(json=True, format="text"))


def test_paths_are_meant_from_where_they_are_written(world: World) -> None:
    world.user_file.write_text('policy = "mine.toml"\nadd_dir = ["lib"]\n')
    settled = world.resolve()
    assert (settled.policy, settled.add_dir) == (str(world.home / "mine.toml"), (str(world.home / "lib"),))
    world.project_file.write_text('policy = "ci/policy.toml"\n')
    assert world.resolve().policy == str(world.project / "ci/policy.toml")
    below = world.project / "below"
    below.mkdir()
    options = Options(directory="..", policy="p.toml", output="out.txt", add_dir=("a",), prompt_file="-")
    settled = resolve(options, env={"AGENTCTL_HOME": str(world.home)}, cwd=below)
    assert (settled.root, settled.policy, settled.output, settled.add_dir, settled.prompt_file) == (
        world.project,
        str(below / "p.toml"),
        str(below / "out.txt"),
        (str(below / "a"),),
        "-",
    )


@pytest.mark.parametrize(("name", "why"), [("missing", "does not exist"), ("file", "is not a folder")])
def test_the_root_must_be_a_folder(world: World, name: str, why: str) -> None:
    (world.project / "file").write_text("")
    with pytest.raises(UsageError, match=rf"-C: '{name}' {why}\."):
        world.resolve(Options(directory=name))


def test_a_project_name_is_the_key(world: World) -> None:
    assert world.resolve(Options(project="web")).project_key == world.resolve(AGENTCTL_PROJECT="web").project_key
    assert world.resolve(Options(project="web")).project_key != world.resolve().project_key


def test_a_python_caller_may_give_one_text_for_a_list(world: World) -> None:
    one: Any = "two\nlines"
    assert world.resolve(Options(prompt=one)).prompt == ("two\nlines",)


# --- complaints -----------------------------------------------------------------------------------------------------

COMPLAINTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("a flag", {"options": Options(max_steps=0)}, "--max-steps: 0 is not a whole number from 1.", ""),
    ("a variable", {"env": {"AGENTCTL_TIMEOUT": "soon"}}, "AGENTCTL_TIMEOUT: 'soon' is not a time above 0", ""),
    ("a near variable", {"env": {"AGENTCTL_MAX_STEP": "3"}}, "AGENTCTL_MAX_STEP: there is no such variable.",
     "Did you mean 'AGENTCTL_MAX_STEPS'?"),
    ("a key", {"user": "max_step = 3"}, "config.toml: there is no key 'max_step'.", "Did you mean 'max_steps'?"),
    ("a dashed key", {"user": "max-steps = 3"}, "there is no key 'max-steps'.", "Did you mean 'max_steps'?"),
    ("a table", {"user": "[mcp.servers.x]\ncommand = 'y'"}, "config.toml: there is no key 'mcp'.", ""),
    ("once only", {"user": "prompt = 'x'"}, "config.toml: there is no key 'prompt'.", ""),
    ("a value", {"user": "think = 'hihg'"}, "config.toml: think: 'hihg' is not one of", "Did you mean 'high'?"),
    ("a type", {"user": "yolo = 3"}, "config.toml: yolo: 3 is not true or false.", ""),
    ("no TOML", {"user": "max_steps 3"}, "config.toml: not valid TOML: ", ""),
    ("twice", {"user": "think = 'low'\nthink = 'off'"}, "config.toml: not valid TOML: ", ""),
    ("no UTF-8", {"user": b"model = '\xff'"}, "config.toml: not UTF-8 (byte 9).", ""),
    ("too large", {"user": b"#" * 1_000_001}, "config.toml: larger than 1 MB.", ""),
    ("project key", {"project": "agent = 'turbo'"}, ".agentctl/config.toml: agent: 'turbo' is not one of", ""),
    ("a set", {"options": Options(tools=("cor",))}, "--tools: 'cor' is neither a set", "Did you mean 'core'?"),
    ("mixed tools", {"options": Options(tools=("core", "+bash"))}, "'core,+bash' mixes names with +names.", ""),
    ("no tool left", {"options": Options(tools=("bash",), agent="plan")}, "--tools: the agent 'plan' only reads", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("world_of", "message", "hint"), [row[1:] for row in COMPLAINTS], ids=[row[0] for row in COMPLAINTS]
)
def test_complaints(world: World, world_of: dict[str, Any], message: str, hint: str) -> None:
    for key, file in (("user", world.user_file), ("project", world.project_file)):
        text = world_of.get(key, "")
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        world.resolve(world_of.get("options"), **world_of.get("env", {}))
    assert message in caught.value.message
    assert not hint or caught.value.hint == hint
    assert caught.value.ending == "usage"


def test_an_unreadable_config_is_named(world: World) -> None:
    world.user_file.mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml: Is a directory"):
        world.resolve()


def test_other_variables_with_the_prefix_are_a_problem(world: World) -> None:
    settled = world.resolve(AGENTCTL_BINARY="x", AGENTCTL_API_KEY="k", AGENTCTL_MODEL="")
    assert [(problem.code, problem.what) for problem in settled.problems] == [("unknown-variable", "AGENTCTL_BINARY")]


# --- trust ----------------------------------------------------------------------------------------------------------


def test_what_a_project_never_sets_is_left_out_and_named(world: World) -> None:
    world.project_file.write_text(
        "yolo = true\nbase_url = 'http://evil'\npass_env = ['X']\nsecret_env = 'X'\nadd_dir = '/'\n"
        "trust = 'workspace'\nnetwork = 'on'\nsandbox = 'off'\nopenai_api_key = 'k'\nmax_steps = 3\n"
    )
    settled = world.resolve()
    assert (
        settled.yolo,
        settled.base_url,
        settled.pass_env,
        settled.secret_env,
        settled.add_dir,
        settled.max_steps,
    ) == (
        False,
        None,
        (),
        (),
        (),
        3,
    )
    left_out = ["yolo", "base_url", "pass_env", "secret_env", "add_dir", "trust"]
    left_out += ["network", "sandbox", "openai_api_key"]
    assert [problem.what for problem in settled.problems] == [f"{key} in {world.project_file}" for key in left_out]
    assert settled.problems[0].fix == f"Say it with --yolo, AGENTCTL_YOLO or {world.user_file}."


UNTRUSTED: list[tuple[str, Callable[[World], Settings]]] = [
    ("--trust none", lambda world: world.resolve(Options(trust="none"))),
    ("a pull request without its base", lambda world: world.resolve(**PULL_REQUEST)),
]


@pytest.mark.parametrize("settle", [row[1] for row in UNTRUSTED], ids=[row[0] for row in UNTRUSTED])
def test_of_an_untrusted_project_only_refusals_count(world: World, settle: Callable[[World], Settings]) -> None:
    world.project_file.write_text("max_steps = 3\nallow = 'bash'\ndeny = ['bash:rm *']\nno_such_key = 1\n")
    settled = settle(world)
    assert (settled.max_steps, settled.allow) == (50, ())
    assert settled.deny == (Given(value="bash:rm *", origin=str(world.project_file)),)
    assert [(problem.code, problem.what) for problem in settled.problems] == [("left-out", ".agentctl/config.toml")]
    assert settled.problems[0].fix


def test_a_broken_untrusted_project_stops_nobody(world: World) -> None:
    world.project_file.write_text("= broken")
    assert world.resolve(Options(trust="none")).problems[0].what == ".agentctl/config.toml"


def test_trust_of_the_user_file_counts(world: World) -> None:
    world.user_file.write_text("trust = 'workspace'\n")
    world.project_file.write_text("max_steps = 3\n")
    settled = world.resolve(**PULL_REQUEST)
    assert (settled.trust, settled.max_steps) == (Trust(level="workspace", why=str(world.user_file)), 3)


def test_isolated_reads_no_config_but_drops_no_refusal(world: World) -> None:
    world.user_file.write_text("max_steps = 3\ndeny = 'bash:rm *'\n")
    world.project_file.write_text("max_steps = 4\ndeny = 'bash:mv *'\nyolo = true\n")
    settled = world.resolve(Options(isolated=True))
    names = ("no_skills", "no_memory", "no_mcp", "no_plugins", "no_instructions", "no_subagents")
    assert [(getattr(settled, name), settled.origins[name]) for name in names] == [(True, "--isolated")] * 6
    assert (settled.max_steps, settled.problems) == (50, ())
    assert [rule.value for rule in settled.deny] == ["bash:mv *", "bash:rm *"]
    assert world.resolve(AGENTCTL_ISOLATED="0").max_steps == 4
