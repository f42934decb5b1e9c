#!/usr/bin/env bash
# Finds agentctl for action.yml, or installs it from the action's own checkout; writes `program=PATH` to $GITHUB_OUTPUT.
# It never installs by name: on the public index that name belongs to another project.
set -euo pipefail

fail() {
    echo "::error title=agentctl::$1"
    exit 2
}

own=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$GITHUB_ACTION_PATH/agentctl/version.py")
wanted=${INPUT_VERSION:-$own}

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "python3 must be Python 3.11 or newer. Put actions/setup-python before this step."

if found=$(command -v agentctl) && [ "$("$found" --version 2>/dev/null)" = "agentctl $wanted" ]; then
    program=$found
elif [ "$wanted" = "$own" ]; then
    venv=$RUNNER_TEMP/agentctl-$own
    if [ ! -x "$venv/bin/agentctl" ]; then
        python3 -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH"
    fi
    program=$venv/bin/agentctl
else
    fail "version ${wanted//[^A-Za-z0-9.+-]/?} is wanted, and this action is $own. Name the commit of that version in uses."
fi

echo "program=$program" >>"$GITHUB_OUTPUT"
