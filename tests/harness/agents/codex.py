"""The real Codex: its program from npm, and a scripted model on 127.0.0.1 with a part of OpenAI's Responses API."""

import json
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.harness.agents.npm import installed, run
from tests.harness.agents.web import Listener, QuietHandler, TestServer

PACKAGE = "@openai/codex"
VERSION = "0.169.0"
KEY = "SCRIPTED_MODEL_KEY"

Json = dict[str, Any]


def install(prefix: Path) -> Path:
    """Link Codex below a prefix such as ~/.local; return the directory to mount inside. Downloaded from npm once."""
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    cached = installed(PACKAGE, VERSION, lambda made: run([made / "bin/codex", "--version"]))  # 400 MB: not copied for each test
    (prefix / "bin/codex").symlink_to(cached / "bin/codex")
    return cached


def arguments(url: str, prompt: str, *more: str) -> list[str]:
    """Return the arguments of `codex` for one task with the model at this URL only."""
    provider = f'{{name="scripted",base_url="{url}/v1",wire_api="responses",env_key="{KEY}"}}'
    settings = {"model_provider": "scripted", "model_providers.scripted": provider, "web_search": "disabled"}
    overrides = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return ["exec", *overrides, *more, "-m", "scripted", prompt]


class ModelServer(TestServer):
    """A model server as a context manager. Each turn is a shell command; then the model reports that it is done."""

    def __init__(self, commands: Iterable[str]) -> None:
        self.outputs: list[str] = []
        self._commands = list(commands)
        super().__init__(_Listener(self))

    def is_finished(self) -> bool:
        """Return whether each command was requested."""
        return not self._commands

    def answer(self, body: Json) -> Json:
        """Record the last command's output; return the next item of the conversation."""
        *_, last = body["input"]
        if last.get("type") == "function_call_output":
            self.outputs.append(str(last["output"]))
        if not self._commands:
            return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "All done."}]}
        call = {"cmd": self._commands.pop(0), "yield_time_ms": 20_000}
        number = len(self._commands)
        return {"type": "function_call", "call_id": f"call_{number}", "name": "exec_command", "arguments": json.dumps(call)}


def _events(item: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": {"id": "response"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    ended = {"id": "response", "output": [], "usage": {**usage, "total_tokens": 2}}
    yield {"type": "response.completed", "response": ended}


class _Listener(Listener):
    def __init__(self, model: ModelServer) -> None:
        self.model = model
        super().__init__(_Handler)


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    server: _Listener

    def do_GET(self) -> None:
        self._send_head(404, "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if not self.path.endswith("/responses"):
            self._send_head(404, "text/plain")
            return
        self._send_head(200, "text/event-stream")
        for event in _events(self.server.model.answer(body)):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def _send_head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
