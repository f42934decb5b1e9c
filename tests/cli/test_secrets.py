"""One secret, planted wherever a run could pick it up; then every byte that the run leaves is searched for it."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.conftest import Ran, World
from tests.server import Call, Fault, Turn

SECRET = "ghp/" + os.urandom(9).hex() + "+A =" + os.urandom(9).hex()
"""With characters that URLs, JSON and base64 write in their own way."""
MASK = "[masked:DEPLOY_TOKEN]"
ENCODER = """
import base64, sys, urllib.parse
secret = open("leak.txt").read().strip().removeprefix("token=")
for before in ("", "u", "us", "user:"):
    print(base64.b64encode((before + secret + "!").encode()).decode())
    print(base64.urlsafe_b64encode((before + secret).encode()).decode())
print(secret.encode().hex(), secret.encode().hex().upper(), urllib.parse.quote(secret, safe=""))
print(urllib.parse.quote_plus(secret), secret[::-1])
for char in secret:
    sys.stdout.write(char)
    sys.stdout.flush()
sys.stderr.write(secret)
"""


def needles(secret: str) -> Iterator[bytes]:
    """What must not be found: the secret in every form, with only what stands in it alone."""
    data = secret.encode()
    yield from (data, data[::-1], data.hex().encode(), data.hex().upper().encode(), quote(secret, safe="").encode())
    yield from (json.dumps(secret)[1:-1].encode(), quote(secret, safe="").lower().encode())
    for offset in range(3):
        inner = base64.b64encode(bytes(offset) + data)[4 * (offset > 0) : -4]
        yield from (inner, inner.replace(b"+", b"-").replace(b"/", b"_"))
    yield from (data[:12], data[-12:])  # also not in halves


def artifacts(world: World, planted: set[Path]) -> dict[str, bytes]:
    """Every file below the test's folder that the test did not put there."""
    root = world.cwd.parent
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path not in planted
    }


def assert_clean(ran: Ran, files: dict[str, bytes]) -> None:
    for needle in needles(SECRET):
        for place, data in {"stdout": ran.out, "stderr": ran.err.encode(), **files}.items():
            assert needle not in data, (place, needle, data[max(0, data.find(needle) - 80) :][:200])


@pytest.fixture
def leaky(world: World) -> World:
    """A workspace with the secret in files, a file name and the environment."""
    world.env["DEPLOY_TOKEN"] = SECRET
    (world.cwd / "leak.txt").write_text(f"token={SECRET}\n")
    (world.cwd / "long.txt").write_text(f"{'x' * 1990}{SECRET}{'y' * 500}\n")
    (world.cwd / "wide.txt").write_text(f"needle {'z' * 285}{SECRET} and more{'y' * 500}\n")
    (world.cwd / "big.txt").write_text((f"{'a' * 70}\n" * 20 + f"{SECRET}\n") * 40)
    (world.cwd / "encode.py").write_text(ENCODER)
    return world


PLANTED = ("leak.txt", "long.txt", "wide.txt", "big.txt", "encode.py", "copy.txt")


def everything() -> list[Turn]:
    """A conversation in which the secret turns up in every place that a service or a tool controls."""
    bash = [f"{sys.executable} encode.py", "env", "cat big.txt", "cat leak.txt >&2; exit 3", f"echo '{SECRET}'"]
    return [
        Turn(
            fault=Fault(status=429, body={"error": {"message": f"slow down {SECRET}"}}, headers={"retry-after": "0.1"})
        ),
        Turn(
            text=f"I have found {SECRET} here",
            reasoning=f"Could {SECRET} be it?",
            delta=3,
            calls=[
                Call("read_file", {"path": "leak.txt"}),
                Call("read_file", {"path": "long.txt"}),
                Call("read_file", {"path": f"{SECRET}.txt"}),
                Call("grep", {"pattern": "needle"}),
                Call("grep", {"pattern": SECRET[4:20]}),
                Call(f"tool_{SECRET}", {}),
                Call("read_file", {SECRET: "odd"}),
                Call("read_file", f"not json {SECRET}"),
                Call("edit_file", {"path": "leak.txt", "oldString": "token=", "newString": "key="}),
            ],
        ),
        Turn(calls=[Call("bash", {"command": command}) for command in bash]),
        Turn(calls=[Call("todo_write", {"todos": [{"content": f"hide {SECRET}", "status": "pending"}]})]),
        Turn(text=f"the token is {SECRET}", delta=5),
    ]


def test_no_byte_of_any_artifact_holds_the_secret(leaky: World, served: Any, tmp_path: Path) -> None:
    server = served(everything())
    flags = ["--yolo", "--show-reasoning", "--debug", "--record", "run.rec", "-o", "answer.txt"]
    (leaky.cwd / "prompt.txt").write_text(f"Use {SECRET} well")
    ran = leaky.run("--prompt-file", "prompt.txt", "--json", *flags, server=server).ended("completed", 0)
    planted = {leaky.cwd / name for name in (*PLANTED, "prompt.txt")}
    files = artifacts(leaky, planted)
    assert_clean(ran, files)
    for request in server.requests:  # what the model wrote itself goes back to it as it was
        said = [message for message in request.body["messages"] if message["role"] != "assistant"]
        text = re.sub(r"<state>.*?</state>", "", json.dumps(said))
        assert [needle for needle in needles(SECRET) if needle in text.encode()] == []
    kept = {name.rpartition("/")[2] for name in files}
    assert {"answer.txt", "run.rec", "1.txt"} <= kept
    assert any(name.endswith(".jsonl") for name in kept)
    assert sum(data.count(MASK.encode()) for data in files.values()) > 20
    assert ran.out.count(MASK.encode()) > 20
    assert (leaky.cwd / "answer.txt").read_text() == f"the token is {MASK}\n"
    assert (leaky.cwd / "leak.txt").read_text() == f"key={SECRET}\n"  # the file itself is not touched


@pytest.mark.parametrize("words", [["--json"], [], ["--format", "json"], ["--debug"]])
def test_failures_name_no_secret(leaky: World, served: Any, words: list[str]) -> None:
    """A service that sends the key and the secret back in its refusal, in the body and in a header."""
    key = leaky.env["OPENAI_API_KEY"] = f"sk-{os.urandom(12).hex()}"
    body = {"error": {"message": f"bad request with {SECRET} and {key}", "type": "invalid_request_error"}}
    server = served([Turn(fault=Fault(status=400, body=body, headers={"x-echo": f"{SECRET} {key}"}))])
    ran = leaky.run("-p", f"hello {SECRET}", *words, server=server)
    assert ran.code == 8
    assert MASK in (ran.out.decode() + ran.err)
    assert_clean(ran, artifacts(leaky, {leaky.cwd / name for name in PLANTED}))
    assert key not in ran.out.decode() + ran.err
    assert "authorization" not in ran.err.lower()


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "x", f"--api-key={SECRET}"],
        ["-p", "x", "--json", "--model", f"{SECRET}/x"],
        ["-p", "x", "--model", "openai/gpt-5", "--base-url", f"http://u:{quote(SECRET, safe='')}@127.0.0.1:1/v1 x"],
        [f"verb-{SECRET}"],
        ["policy", "explain", SECRET, "{}", "--json"],
        ["sessions", "list", "--session-key", SECRET],
    ],
)
def test_what_fails_before_a_run_names_no_secret(leaky: World, words: list[str]) -> None:
    ran = leaky.run(*words)
    assert_clean(ran, artifacts(leaky, {leaky.cwd / name for name in PLANTED}))


def test_a_traceback_shows_no_values(leaky: World, served: Any) -> None:
    """--debug prints where a failure came from: lines of code, no variables."""
    body = {"error": {"message": f"no such thing as {SECRET}", "type": "invalid_request_error"}}
    server = served([Turn(fault=Fault(status=400, body=body))])
    ran = leaky.run("-p", SECRET, "--debug", server=server)
    assert ran.code != 0
    assert "debug: Traceback" in ran.err
    assert_clean(ran, {})


def test_the_mask_is_never_written_back(leaky: World, served: Any) -> None:
    masked = {"path": "copy.txt", "content": f"token={MASK}\n"}
    edit = {"path": "leak.txt", "oldString": f"token={MASK}", "newString": "token=x"}
    patch = {"patch": f"*** Begin Patch\n*** Add File: copy.txt\n+{MASK}\n*** End Patch"}
    shell = {"command": f"echo '{MASK}' > copy.txt"}
    calls = [Call("write_file", masked), Call("edit_file", edit), Call("apply_patch", patch), Call("bash", shell)]
    server = served([Turn(calls=[Call("read_file", {"path": "leak.txt"}), *calls]), Turn(text="I may not")])
    ran = leaky.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    errors = ran.of("tool-error")
    assert len(errors) == 4
    assert all("mask in place of a secret" in error["error"] for error in errors)
    assert not (leaky.cwd / "copy.txt").exists()
    assert (leaky.cwd / "leak.txt").read_text() == f"token={SECRET}\n"


@pytest.mark.parametrize("value", ["abc", "password", "31415926535"])
def test_what_is_not_masked_is_named(world: World, served: Any, value: str) -> None:
    world.env["DB_PASSWORD"] = value
    said = served([Turn(text=f"it is {value}")])
    ran = world.run("-p", "x", "--json", server=said).ended("completed", 0)
    (problem,) = [row for row in ran.events[0]["problems"] if row["code"] == "secret-not-masked"]
    assert "DB_PASSWORD" in problem["what"]
    assert value not in json.dumps(problem)
    assert ran.done["text"] == f"it is {value}"
    said = served([Turn(text=f"it is {value}")])
    ran = world.run("-p", "x", "--json", "--secret-env", "DB_PASSWORD", server=said).ended("completed", 0)
    assert ran.done["text"] == "it is [masked:DB_PASSWORD]"
    assert ran.events[0]["problems"] == []


def test_commands_get_only_what_is_passed_on_by_name(leaky: World, served: Any) -> None:
    names = [
        "GITHUB_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "NPM_KEY",
        "X_SECRET",
    ]
    leaky.env.update({name: f"Value-of-{name}-1" for name in names})
    files = ["GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"]
    leaky.env.update({name: str(leaky.cwd.parent / name) for name in files})
    command = "env | cut -d= -f1 | sort"
    passed = ["--pass-env", "NPM_KEY,GITHUB_ENV"]
    server = served([Turn(calls=[Call("bash", {"command": command})]), Turn(text="ok")])
    ran = leaky.run("-p", "x", "--json", "--yolo", *passed, server=server).ended("completed", 0)
    (result,) = ran.of("tool-result")
    seen = set(result["output"].split())
    assert "NPM_KEY" in seen
    assert not seen & {*names, *files, "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEPLOY_TOKEN"} - {"NPM_KEY"}


def test_no_key_is_ever_an_argument(leaky: World, served: Any) -> None:
    """While a run waits, its own command line and those of its children are public."""
    server = served(
        [Turn(calls=[Call("bash", {"command": "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"})]), Turn(text="ok")]
    )
    ran = leaky.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    (result,) = ran.of("tool-result")
    assert "agentctl" in result["output"]
    assert leaky.env["OPENAI_API_KEY"] not in result["output"]
    assert MASK not in result["output"]


def test_the_token_of_a_checkout_is_masked_and_named(world: World, served: Any) -> None:
    """actions/checkout writes it into .git/config, or into a file that this one includes."""
    token = f"ghs_{os.urandom(15).hex()}"
    header = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    subprocess.run(["git", "init", "-q", "."], cwd=world.cwd, check=True)
    other = world.cwd.parent / "git-credentials.config"
    other.write_text(f'[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic {header}\n')
    with (world.cwd / ".git" / "config").open("a") as config:
        config.write(f'[includeIf "gitdir:{world.cwd}/.git"]\n\tpath = {other}\n')
    world.env["GITHUB_ACTIONS"] = "true"
    command = "git config --get-all http.https://github.com/.extraheader; echo " + f"{token[:10]}''{token[10:]}"
    server = served([Turn(calls=[Call("bash", {"command": command})]), Turn(text="ok")])
    ran = world.run("-p", "x", "--json", "--yolo", server=server).ended("completed", 0)
    (problem,) = [row for row in ran.events[0]["problems"] if row["code"] == "checkout-token"]
    assert "persist-credentials: false" in problem["fix"]
    (result,) = ran.of("tool-result")
    assert header not in ran.out.decode()
    assert result["output"].count("[masked:checkout-token") == 2
    assert token not in ran.of("tool-result")[0]["output"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_what_a_run_saves_is_private_whatever_the_umask(world: World, served: Any, umask: int) -> None:
    state = world.cwd.parent / "agentctl"
    world.env["AGENTCTL_HOME"] = str(state)
    (world.cwd / "big.txt").write_text("line\n" * 10_000)
    server = served([Turn(calls=[Call("bash", {"command": "cat big.txt"})]), Turn(text="ok")])
    process = world.start("-p", "x", "--json", "--yolo", "--record", "r.rec", server=server, umask=umask)
    out, err = process.communicate(timeout=30)
    Ran(process.returncode, out, err).ended("completed", 0)
    made = [path for top in (state, world.cwd / ".agentctl") for path in (top, *top.rglob("*"))]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in (*made, world.cwd / "r.rec")}
    wrong = {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if Path(path).is_dir() else 0o600)}
    assert wrong == {}
    assert len(modes) > 8


def test_a_state_folder_that_is_open_to_others_is_closed(world: World, served: Any) -> None:
    state = world.cwd.parent / "agentctl"
    world.env["AGENTCTL_HOME"] = str(state)
    world.run("-p", "x", "--json", server=served([Turn(text="ok")])).ended("completed", 0)
    (journal,) = state.rglob("*.jsonl")
    journal.chmod(0o644)
    journal.parent.chmod(0o755)
    world.run("-p", "y", "-c", "--json", server=served([Turn(text="ok")])).ended("completed", 0)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (journal, journal.parent)] == [0o600, 0o700]


GATEWAY = "gw-s3cr3t/Value+99"
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {
    "a flag": (["--header", f"X-Gateway: {GATEWAY}"], {}),
    "a bearer token": (["--header", f"Authorization: Bearer {GATEWAY}"], {}),
    "a password": (["--header", f"X-Auth: Basic {base64.b64encode(f'me:{GATEWAY}'.encode()).decode()}"], {}),
    "a cookie": (["--header", f"Cookie: a=b; session={GATEWAY}"], {}),
    "AGENTCTL_HEADER": ([], {"AGENTCTL_HEADER": f"X-One: 1\nX-Gateway: {GATEWAY}"}),
    "OPENAI_CUSTOM_HEADERS": ([], {"OPENAI_CUSTOM_HEADERS": f"X-Gateway: {GATEWAY}"}),
    "a variable": (["--header", "X-Gateway: ${GATEWAY}"], {"GATEWAY": GATEWAY}),
    "a variable in a variable": ([], {"AGENTCTL_HEADER": "X-Gateway: a${GATEWAY}b", "GATEWAY": GATEWAY}),
    "the variable of a proxy": ([], {"HTTPS_PROXY": f"http://me:{quote(GATEWAY, safe='')}@127.0.0.1:9"}),
    "the token of an address": ([], {"MIRROR": f"https://{quote(GATEWAY, safe='')}@example.org/x"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_service_that_repeats_what_the_way_carries_shows_no_secret(way: str, world: World, served: Any) -> None:
    flags, variables = WAYS[way]
    body = {"error": {"message": f"bad credential {GATEWAY}", "type": "invalid_request_error"}}
    server = served([Turn(fault=Fault(status=400, body=body), repeat=3)])
    env = {**world.env, **variables}
    ran = world.run("-p", "x", "--json", *flags, server=server, env=env).ended("provider", 8)
    assert server.requests
    for verb in (["models", *flags], ["config", "show", *flags]):
        ran_verb = world.run(*verb, server=server, env=env)
        assert GATEWAY.encode() not in ran_verb.out + ran_verb.err.encode(), verb
    for place, data in {"stdout": ran.out, "stderr": ran.err.encode(), **artifacts(world, set())}.items():
        assert GATEWAY.encode() not in data, place
        assert quote(GATEWAY, safe="").encode() not in data, place


@pytest.mark.parametrize("flag", ["--proxy", "--proxy="])
def test_a_failure_before_a_run_hides_what_flags_carry(flag: str, world: World) -> None:
    address = f"http://me:{GATEWAY.replace('/', '%2F')}@127.0.0.1:9"
    given = [flag + address] if flag.endswith("=") else [flag, address]
    for words in (["-p", "x", "--max-steps", GATEWAY], ["config", "show", GATEWAY], ["-p", "x", "--json", "--nope"]):
        ran = world.run(*words, *given, "--header", f"X-Key: {GATEWAY}")
        assert ran.code == 2
        assert GATEWAY.encode() not in ran.out + ran.err.encode()


def test_config_show_names_headers_and_hides_passwords(world: World) -> None:
    env = {**world.env, "AGENTCTL_HEADER": f"Authorization: Bearer {GATEWAY}"}
    flags = ["--proxy", "http://me:short@127.0.0.1:9", "--base-url", "https://me:abcd@example.org/v1"]
    ran = world.run("config", "show", "--json", *flags, env=env)
    shown = {row["name"]: row["value"] for row in json.loads(ran.out)["settings"]}
    assert shown["header"] == ["Authorization: [masked:header-authorization]"]
    assert shown["proxy"] == "http://me:[masked]@127.0.0.1:9"
    assert shown["base_url"] == "https://me:[masked]@example.org/v1"


def test_headers_that_are_plainly_no_secret_are_left_alone(world: World, served: Any) -> None:
    values = ("X-Team: ci", "X-Source: github-actions", "X-Version: 2023-06-01", "Accept-Language: en")
    server = served([Turn(text="ci github-actions 2023-06-01 en")])
    flags = [word for value in values for word in ("--header", value)]
    assert world.run("-p", "x", "--json", *flags, server=server).done["text"] == "ci github-actions 2023-06-01 en"
