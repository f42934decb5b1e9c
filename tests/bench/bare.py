"""The yardstick: one streamed answer with httpx2 and nothing else."""

import json
import sys

import httpx2

body = {"model": "line", "stream": True, "messages": [{"role": "user", "content": "What is the answer?"}]}
text = ""
with (
    httpx2.Client(timeout=30) as client,
    client.stream("POST", f"{sys.argv[1]}/chat/completions", json=body, headers={"authorization": "Bearer x"}) as reply,
):
    for line in reply.iter_lines():
        if line.startswith("data: {"):
            choices = json.loads(line[6:])["choices"]
            text += choices[0]["delta"].get("content") or "" if choices else ""
sys.stdout.write(text + "\n")
