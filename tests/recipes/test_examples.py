"""The workflows of examples/ci: their run steps, executed in a real repository against the scripted model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.recipes.steps import EXAMPLES, SCRIPTS, Job, StepEnd, commands_in, load, steps_of

PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def git(folder: Path, *words: str, **env: str) -> None:
    who = {f"GIT_{role}_{what}": "a@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *words]
    subprocess.run(command, check=True, capture_output=True, env={"PATH": os.environ["PATH"], **who, **env})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone on a branch with one commit that main does not have."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / "README.md").write_text("# Sample\n\n    sample --all\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "First")
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    git(clone, "checkout", "-q", "-b", "topic")
    (clone / "sum.py").write_text("def add(a, b):\n    return a - b\n")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "Add sums")
    return clone


def play(name: str, script: str, tmp_path: Path, checkout: Path, **env: str) -> list[StepEnd]:
    """The steps of a workflow up to the first that fails."""
    model = f"scripted/{SCRIPTS / script}"
    job = Job(tmp_path / "job", checkout, AGENTCTL_MODEL=model, **env)
    workflow = next(load(path) for path in EXAMPLES if path.name == name)
    context = {
        "secrets.ANTHROPIC_API_KEY": "sk-ant-Zx81kQp0-not-a-real-key",
        "vars.AGENTCTL_MODEL": model,
        "vars.AGENTCTL_SOURCE": "not-needed-because-agentctl-is-there",
    }
    ends = []
    for step in steps_of(workflow):
        ends.append(job.run(step, context))
        if ends[-1].code:
            break
    return ends


PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}


def test_review_passes(tmp_path: Path, checkout: Path) -> None:
    """The diff reaches the model: the script only answers when it sees it."""
    ends = play("review-diff.yml", "review-pass.json", tmp_path, checkout, **PULL_REQUEST)
    assert [end.code for end in ends] == [0, 0, 0, 0], ends[-1].log
    shown = ends[2].log.splitlines()
    assert shown[0] == "| The sum is a difference, but nobody uses it."
    assert "| ::error::this is text" in shown
    assert [command for end in ends for command in commands_in(end.log)] == []


def test_review_fails_the_job(tmp_path: Path, checkout: Path) -> None:
    ends = play("review-diff.yml", "review-fail.json", tmp_path, checkout, **PULL_REQUEST)
    assert [end.code for end in ends] == [0, 0, 0, 1]
    assert ends[3].log == "false\n"


def test_review_that_does_not_complete_never_passes(tmp_path: Path, checkout: Path) -> None:
    """The pipeline fails at the run itself, before any gate looks at its text."""
    ends = play("review-diff.yml", "refused.json", tmp_path, checkout, **PULL_REQUEST)
    assert [end.code for end in ends] == [0, 8]


@pytest.mark.parametrize(("script", "codes"), [("check-yes.json", [0, 0, 0, 0]), ("check-no.json", [0, 0, 0, 1])])
def test_reproducible_check(script: str, codes: list[int], tmp_path: Path, checkout: Path) -> None:
    (checkout / ".agentctl").mkdir()
    (checkout / ".agentctl" / "config.toml").write_text('agent = "deep"\n')
    ends = play("check-reproducible.yml", script, tmp_path, checkout)
    assert [end.code for end in ends] == codes, ends[-1].log
    model, steps = ends[2].log.splitlines()
    assert model.startswith(f"scripted/{SCRIPTS / script}, policy ")
    assert re.fullmatch(r"2 steps, cost 0(\.0)?", steps)
    assert sorted(path.name for path in checkout.iterdir()) == [".agentctl", ".git", "README.md", "sum.py"]
    assert [path.name for path in (checkout / ".agentctl").iterdir()] == ["config.toml"]


def test_nightly_report(tmp_path: Path, checkout: Path) -> None:
    ends = play("nightly-cron.yml", "nightly.json", tmp_path, checkout)
    assert [end.code for end in ends] == [0, 0], ends[-1].log
    assert (
        ends[1].summary
        == "### Nightly report\n\n    Sums were added.\n    <b>not bold</b>\n    ::error::this is text\n"
    )
    assert commands_in(ends[1].log) == []


def test_nightly_report_without_commits(tmp_path: Path, checkout: Path) -> None:
    long_ago = {"GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z"}
    git(checkout, "checkout", "-q", "--orphan", "old")
    git(checkout, "commit", "-q", "-m", "Old", **long_ago)
    ends = play("nightly-cron.yml", "nightly.json", tmp_path, checkout)
    assert [(end.code, end.summary) for end in ends] == [(0, ""), (0, "")]
    assert ends[1].log == "No commits since yesterday.\n"


@pytest.mark.parametrize(("script", "code", "warnings"), [("down.json", 0, 1), ("refused.json", 8, 0)])
def test_nightly_tells_try_again_from_failure(
    script: str, code: int, warnings: int, tmp_path: Path, checkout: Path
) -> None:
    ends = play("nightly-cron.yml", script, tmp_path, checkout)
    assert (ends[1].code, ends[1].summary) == (code, "")
    assert len(commands_in(ends[1].log)) == warnings


def deploy(tmp_path: Path, checkout: Path, script: str) -> list[StepEnd]:
    """Both jobs of deploy-with-approval.yml; the folder that the artifact carries is copied from one to the other."""
    (checkout / "CHANGELOG.md").write_text("## Unreleased\n- api: faster\n")
    (checkout / "deploy.sh").write_text(
        '#!/bin/sh\necho "$1 ${DEPLOY_TOKEN:+with a token}" >> deploys\necho "deployed $1"\n'
    )
    (checkout / "deploy.sh").chmod(0o755)
    workflow = next(load(path) for path in EXAMPLES if path.name == "deploy-with-approval.yml")
    model = f"scripted/{SCRIPTS / script}"
    secrets = {"secrets.ANTHROPIC_API_KEY": "sk-ant-Zx81kQp0-not-a-real-key", "vars.AGENTCTL_SOURCE": "there-already"}
    one, two = (
        Job(tmp_path / name, checkout, AGENTCTL_MODEL=model, GITHUB_REPOSITORY="owner/name") for name in ("one", "two")
    )
    ends = [one.run(step, secrets) for step in steps_of(workflow, "propose")]
    session = one.outputs["propose"].get("session", "")
    if not session:
        return ends
    shutil.copytree(one.temp / "agentctl", two.temp / "agentctl")
    more = {"secrets.DEPLOY_TOKEN": "deploy-T0ken-1234", "needs.propose.outputs.session": session}
    for step in steps_of(workflow, "deploy"):
        ends.append(two.run(step, {**secrets, **more}))
    return ends


def test_deploy_waits_for_a_person(tmp_path: Path, checkout: Path) -> None:
    ends = deploy(tmp_path, checkout, "deploy.json")
    assert [end.code for end in ends] == [0, 0, 0, 0], ends[-1].log
    summary = ends[1].summary.splitlines()
    assert summary[0] == "### These calls wait"
    assert '      bash {"command": "./deploy.sh api"}' in summary
    assert (checkout / "deploys").read_text() == "api with a token\n"
    assert ends[3].log.splitlines()[-2:] == ["| api: deployed.", "| : :error::this is text"]
    assert [command for end in ends for command in commands_in(end.log)] == []


def test_nothing_to_approve_and_failures_start_no_second_job(tmp_path: Path, checkout: Path) -> None:
    ends = deploy(tmp_path / "a", checkout, "check-yes.json")
    assert [end.code for end in ends] == [0, 0]
    assert "Nothing waits" in ends[1].log
    ends = deploy(tmp_path / "b", checkout, "refused.json")
    assert [end.code for end in ends] == [0, 8]
    assert not (checkout / "deploys").exists()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_rights_and_pins(path: Path) -> None:
    """Least rights, a bound on time, actions by their full commit id, no expression inside a script."""
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 30
        assert job["defaults"]["run"]["shell"] == "bash"
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if "uses" in step:
                assert PINNED.fullmatch(step["uses"]), step["uses"]
                assert step["with"].get("persist-credentials") is (False if "checkout@" in step["uses"] else None)


def test_each_of_them_is_executed_above() -> None:
    names = ["check-reproducible.yml", "deploy-with-approval.yml", "nightly-cron.yml", "review-diff.yml"]
    assert [path.name for path in EXAMPLES] == names
