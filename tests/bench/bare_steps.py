"""The yardstick of a step: the same requests with httpx2 and nothing else, reading a file for each."""

import json
import sys
from pathlib import Path

import httpx2

url, count = sys.argv[1], int(sys.argv[2])
messages = [{"role": "user", "content": "go"}]
with httpx2.Client(timeout=30) as client:
    while True:
        body = {"model": f"steps-{count}", "stream": True, "messages": messages}
        call = None
        with client.stream("POST", f"{url}/chat/completions", json=body) as reply:
            for line in reply.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        call = (choice["delta"].get("tool_calls") or [call])[0]
        if call is None:
            break
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = Path(json.loads(call["function"]["arguments"])["path"]).read_text()
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
