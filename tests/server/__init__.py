"""A local server that speaks the three wire formats, as strict as the services and as broken as the network.

    from tests.server import Call, Fault, Turn, serve

    with serve([Turn(calls=[Call("read_file", {"path": "a.txt"})]), Turn(text="done")]) as server:
        ...                       # server.base_url ends in /v1; server.root_url is without it
        server.requests           # what came in, in order; each with body, headers, path, connection, status
        server.refusals           # what the validation found wrong with requests; empty for a good client

One script serves `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`; `GET /v1/models` lists `models`.
Each valid request takes the next turn that is not used up (`repeat=-1`: never) and whose `when`, a regular expression,
is found in the request body. A request that breaks the rules of its format gets the error that the service would
send, and takes no turn. After the last turn the server answers 418, which no client tries again.

What a turn says: `text` (a string or pieces), `reasoning`, `calls`, `stop` (end, calls, length, refused; by default
what fits), `usage`, `delta` (characters per event), `pause_s` between events, `delay_s` before the answer.
What goes wrong: `fault`, see `Fault` in script.py. `rules` are functions that look at a request before the validation
and may answer it with a Fault: for servers that reject a field or a whole wire format. With `caches` (cache.py) the
tokens are counted and cached as the services do, and a turn's own `usage` does not count.

Files: script.py the words · http.py sockets and faults · wire.py routes and errors · validate_*.py what the services
refuse · render_*.py turns as events. Standard library only; threads, so that it serves asyncio and subprocesses alike.
"""

from __future__ import annotations

from tests.server.cache import Caches
from tests.server.http import Server, serve
from tests.server.script import Call, Counts, Fault, Received, Turn

__all__ = ["Caches", "Call", "Counts", "Fault", "Received", "Server", "Turn", "serve"]
