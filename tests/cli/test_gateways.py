"""The way to a service, from flags, variables and config files, and whole runs on a cloud, as the installed command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import AGENTCTL, World
from tests.server import Call, Counts, Turn, serve
from tests.server.clouds import AWS_KEY_ID, AWS_SECRET
from tests.server.proxy import proxy

TLS_FILE = Path(__file__).parents[1] / "unit" / "providers" / "tls_loopback.pem"


def user_config(world: World, text: str) -> dict[str, str]:
    """An environment whose user has this config file."""
    home = world.home / "agentctl"
    home.mkdir()
    (home / "config.toml").write_text(text)
    return {**world.env, "AGENTCTL_HOME": str(home)}


def test_flags_reach_the_wire(world: World, served: Any) -> None:
    server = served([Turn(text="ok")])
    flags = ["--header", "X-Team: ci", "--header", "X-Key: ${GATEWAY_KEY}", "--auth", "bearer", "--organization", "org"]
    env = {**world.env, "GATEWAY_KEY": "a-long-s3cret"}
    ran = world.run("-p", "x", "--json", *flags, "--api-version", "7", server=server, env=env).ended("completed", 0)
    request = server.requests[0]
    assert request.path == "/v1/chat/completions?api-version=7"
    assert [request.headers[name] for name in ("x-team", "x-key", "openai-organization")] == [
        "ci",
        "a-long-s3cret",
        "org",
    ]
    assert b"a-long-s3cret" not in ran.out


@pytest.mark.parametrize("source", ["variable", "config"])
def test_headers_of_the_environment_and_of_the_user(source: str, world: World, served: Any) -> None:
    server = served([Turn(text="ok")])
    env = {**world.env, "AGENTCTL_HEADER": "X-One: 1\nX-Two: 2"}
    if source == "config":
        env = user_config(world, 'header = ["X-One: 1", "X-Two: 2"]\n')
    world.run("-p", "x", "--json", server=server, env=env).ended("completed", 0)
    assert [server.requests[0].headers.get(name) for name in ("x-one", "x-two")] == ["1", "2"]


def test_a_project_says_nothing_about_the_way(world: World, served: Any) -> None:
    server = served([Turn(text="ok")])
    (world.cwd / ".agentctl").mkdir()
    lines = ['header = ["X-One: 1"]', 'proxy = "http://127.0.0.1:1"', 'ca_file = "ca.pem"', 'auth = "none"']
    (world.cwd / ".agentctl" / "config.toml").write_text("\n".join(lines))
    ran = world.run("-p", "x", "--json", server=server).ended("completed", 0)
    assert "x-one" not in server.requests[0].headers
    left_out = [problem["what"] for problem in ran.events[0]["problems"]]
    assert all(any(name in what for what in left_out) for name in ("header", "proxy", "ca_file", "auth")), left_out


def test_a_proxy_and_a_ca_file_by_flags_and_by_config(world: World) -> None:
    with serve([Turn(text="ok", repeat=2)], tls=TLS_FILE) as server, proxy() as between:
        flags = ["--proxy", between.url, "--ca-file", str(TLS_FILE)]
        world.run("-p", "x", "--json", *flags, server=server).ended("completed", 0)
        env = user_config(world, f'proxy = "{between.url}"\nca_file = "{TLS_FILE}"\n')
        world.run("-p", "x", "--json", server=server, env=env).ended("completed", 0)
        assert between.targets == [f"CONNECT {server.root_url.removeprefix('https://')}"] * 2


def test_the_variables_of_the_system_are_enough(world: World) -> None:
    with serve([Turn(text="ok")], tls=TLS_FILE) as server, proxy() as between:
        env = {**world.env, "HTTPS_PROXY": between.url, "SSL_CERT_FILE": str(TLS_FILE)}
        world.run("-p", "x", "--json", server=server, env=env).ended("completed", 0)
        assert len(between.targets) == 1


def aws(world: World) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": AWS_KEY_ID, "AWS_SECRET_ACCESS_KEY": AWS_SECRET, "AWS_REGION": "eu-test-1"}
    return {**world.env, **keys, "AWS_EC2_METADATA_DISABLED": "true"}


def test_a_run_on_bedrock_needs_no_transport_flag(world: World) -> None:
    (world.cwd / "a.txt").write_text("inside")
    script = [Turn(text="looking", calls=[Call("read_file", {"path": "a.txt"})]), Turn(text="it says inside")]
    model = "bedrock/eu.anthropic.claude-opus-5-5"
    with serve(script) as server:
        flags = ["--model", model, "--base-url", server.root_url]
        ran = world.run("-p", "read a.txt", "--json", *flags, env=aws(world), limit_s=90).ended("completed", 0)
        assert (ran.done["text"], ran.done["steps"], server.refusals) == ("it says inside", 2, [])
        assert {request.path for request in server.requests} == {
            "/model/eu.anthropic.claude-opus-5-5/invoke-with-response-stream"
        }
    assert ran.done["cost_usd"] > 0
    assert ran.events[0]["model"]["vendor"] == "bedrock"


AZURE = {"AZURE_OPENAI_API_KEY": "an-azure-key", "OPENAI_API_VERSION": "2026-10-01"}


def test_a_run_on_a_cloud_is_replayed_anywhere(world: World) -> None:
    words = ["-p", "x", "--json"]
    flags = ["--header", "X-Key: ${GATEWAY_KEY}", "--model", "azure/my-deployment"]
    with serve([Turn(text="over there")]) as server:
        env = {**world.env, **AZURE, "GATEWAY_KEY": "a-long-s3cret", "AZURE_OPENAI_ENDPOINT": server.root_url}
        world.run(*words, *flags, "--record", "run.tape", env=env).ended("completed", 0)
    bare = {"PATH": world.env["PATH"], "HOME": world.env["HOME"]}
    for more in ([], flags):
        again = world.run(*words, *more, "--replay", "run.tape", env=bare).ended("completed", 0)
        assert again.done["text"] == "over there"


def test_a_run_on_azure(world: World) -> None:
    env = {**world.env, **AZURE}
    with serve([Turn(text="ok")]) as server:
        env["AZURE_OPENAI_ENDPOINT"] = server.root_url
        world.run("-p", "x", "--json", "--model", "azure/my-deployment", env=env).ended("completed", 0)
        request = server.requests[0]
    assert request.path == "/openai/deployments/my-deployment/chat/completions?api-version=2026-10-01"
    assert "x-stainless-lang" not in request.headers  # by itself it goes the fast way


def test_the_models_of_a_cloud_are_those_of_the_catalogue(world: World) -> None:
    command = [AGENTCTL, "models", "--model", "bedrock/any", "--json"]
    ran = subprocess.run(command, cwd=world.cwd, env=aws(world), capture_output=True, check=True)
    document = json.loads(ran.stdout)
    assert (document["source"], document["why"]) == ("catalogue", "bedrock lists no models at this address.")
    rows = {row["name"]: row for row in document["models"]}
    assert rows["bedrock/eu.anthropic.claude-opus-5-5"]["price"]["input"] > 0


def test_a_long_prompt_is_metered_at_its_tier(world: World, served: Any) -> None:
    server = served(
        [Turn(text="a", usage=Counts(input=272_001, output=1000)), Turn(text="b", usage=Counts(input=1000, output=0))]
    )
    flags = ["--model", "openai/gpt-5.4", "--base-url", server.base_url]
    ran = world.run("-p", "x", "-p", "y", "--json", *flags).ended("completed", 0)
    assert ran.done["cost_usd"] == pytest.approx((272_001 * 5 + 1000 * 22.5 + 1000 * 2.5) / 1e6)
    capped = served([Turn(text="a", calls=[Call("read_file", {"path": "a"})], usage=Counts(input=272_001, output=1))])
    flags = ["--model", "openai/gpt-5.4", "--base-url", capped.base_url, "--max-cost", "1"]
    ran = world.run("-p", "x", "--json", *flags).ended("limit", 5)  # at the base tier it would have gone on
    assert (ran.done["limit"], ran.done["steps"]) == ("cost", 1)
