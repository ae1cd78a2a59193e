"""A scripted model on 127.0.0.1 with a part of Anthropic's Messages API, for the real Claude Code.

turns = [Turn("I write it.", [ToolCall("Write", {"file_path": path, "content": "x"})]), Turn("It is written.")]
with ModelServer(turns) as server:
    run_claude(claude.environment(server.url))
assert server.is_finished()
"""

import json
import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.harness.agents.web import Listener, QuietHandler, TestServer

Json = dict[str, Any]

LAST_ANSWER = "Done."
SIDE_ANSWER = "A title"  # the answer to all requests of Claude Code outside the conversation


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, with its input."""

    name: str
    input: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer of the model; a held one starts, and does not end before the client disconnects.

    `while_waiting` is called while the client waits for the answer.
    """

    text: str = ""
    calls: Sequence[ToolCall] = ()
    held: bool = False
    while_waiting: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request of a client; `turn` is its answer in the main conversation, None for any other request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json = field(default_factory=dict)
    turn: Turn | None = None

    def content(self) -> object:
        """Return the content of the last message: a text or a list of blocks."""
        messages = self.body.get("messages")
        return messages[-1].get("content") if messages else None


class ModelServer(TestServer):
    """A model server as a context manager; `requests` lists all requests."""

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self.requests: list[ModelRequest] = []
        self._turns = list(turns)
        self._lock = threading.Lock()
        super().__init__(_Listener(self))

    @property
    def main_requests(self) -> list[ModelRequest]:
        """Return the requests of the main conversation."""
        return [request for request in self.requests if request.turn is not None]

    @property
    def tool_results(self) -> list[str]:
        """Return the tool results of the main conversation, in the order of the calls."""
        return [text for request in self.main_requests for text in _tool_results(request.content())]

    def is_finished(self) -> bool:
        """Return whether each turn of the script was requested."""
        return not self._turns

    def add(self, *turns: Turn) -> None:
        """Append turns to the script."""
        with self._lock:
            self._turns.extend(turns)

    def record(self, request: ModelRequest) -> ModelRequest:
        """Record a request, with its turn if it belongs to the main conversation."""
        with self._lock:
            if _is_main(request):
                turn = self._turns.pop(0) if self._turns else Turn(LAST_ANSWER)
                request = ModelRequest(request.method, request.path, request.headers, request.body, turn)
            self.requests.append(request)
            return request


def _is_main(request: ModelRequest) -> bool:
    """Return whether a request asks for the next answer of the conversation that the user sees."""
    is_small = "haiku" in str(request.body.get("model"))  # the model for titles and similar requests
    return _path(request) == "/v1/messages" and bool(request.body.get("tools")) and not is_small


def _path(request: ModelRequest) -> str:
    return urlsplit(request.path).path


def _texts(content: object) -> Iterator[str]:
    """Yield the texts in a content, which is a text or a list of blocks that may contain contents."""
    match content:
        case str():
            yield content
        case list():
            for block in content:
                yield from _texts(block.get("text"))
                yield from _texts(block.get("content"))
        case _:
            pass


def _tool_results(content: object) -> list[str]:
    blocks = content if isinstance(content, list) else []
    return ["\n".join(_texts(block.get("content"))) for block in blocks if block.get("type") == "tool_result"]


# The encoding of a turn


def _blocks(turn: Turn, number: int) -> list[Json]:
    text = [{"type": "text", "text": turn.text}] if turn.text or not turn.calls else []
    uses = [
        {
            "type": "tool_use",
            "id": f"toolu_{number:04}_{index}",
            "name": call.name,
            "input": dict(call.input),
        }
        for index, call in enumerate(turn.calls)
    ]
    return [*text, *uses]


def _message(turn: Turn, model: object, number: int) -> Json:
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(turn, number),
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


def _events(message: Json) -> Iterator[Json]:
    """Yield the stream of a message: start, blocks, stop reason, end."""
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None},
    }
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


def _block_events(index: int, block: Json) -> Iterator[Json]:
    if block["type"] == "text":
        empty, delta = (
            {**block, "text": ""},
            {"type": "text_delta", "text": block["text"]},
        )
    else:
        whole = json.dumps(block["input"], default=str)
        empty, delta = (
            {**block, "input": {}},
            {"type": "input_json_delta", "partial_json": whole},
        )
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


class _Listener(Listener):
    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self.closing, self._open = socket.socketpair()
        super().__init__(_Handler)

    def end_held_answers(self) -> None:
        """End the held answers."""
        self._open.close()

    def server_close(self) -> None:
        super().server_close()
        self._open.close()
        self.closing.close()


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    server: _Listener

    def do_HEAD(self) -> None:
        self._take({})
        self._send_json({})

    def do_GET(self) -> None:
        self._take({})
        self._send_json({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        request = self._take(body)
        if request.turn is not None and request.turn.while_waiting is not None:
            request.turn.while_waiting()
        match _path(request):
            case "/v1/messages":
                self._answer(request, request.turn or Turn(SIDE_ANSWER))
            case "/v1/messages/count_tokens":
                self._send_json({"input_tokens": 10})
            case _:
                self._send_json({})

    def _take(self, body: Json) -> ModelRequest:
        return self.server.model.record(ModelRequest(self.command, self.path, dict(self.headers), body))

    def _answer(self, request: ModelRequest, turn: Turn) -> None:
        message = _message(turn, request.body.get("model"), len(self.server.model.requests))
        if not request.body.get("stream"):
            self._send_json(message)
            return
        self._send_head("text/event-stream")
        for event in _events(message):
            if turn.held and event["type"] == "message_delta":
                select.select([self.connection, self.server.closing], [], [])
                return
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def _send_json(self, value: Json) -> None:
        self._send_head("application/json")
        if self.command != "HEAD":
            self.wfile.write(json.dumps(value).encode())

    def _send_head(self, kind: str) -> None:
        """Send a header without a length: the answer ends when the connection is closed."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
