"""A scripted model on 127.0.0.1 for any agent: Anthropic messages, OpenAI chat and responses, Gemini.

The model runs one shell command with the agent's own tool, then it says that it is done. A request without tools gets a text.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.harness.agents.web import Listener, QuietHandler, TestServer

Json = dict[str, Any]

DONE = "All done."
INSTRUCTIONS = b"You work in a sandbox (agent-dev)"
_PATIENCE = 120  # seconds that an agent waits for the others
_SHELL_TOOLS = (
    *("bash", "shell", "shell_command", "exec_command", "run_shell_command", "run_terminal_command", "run_command"),
    *("execute_command", "execute", "run_commands", "terminal", "execute_bash"),
)
_COMMAND_PROPERTIES = ("command", "cmd", "commands", "script")
_DEFAULTS: Mapping[str, object] = {"boolean": False, "integer": 20_000, "number": 20_000, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Asked:
    """The content of a request, whatever its protocol: the schemas of the tools by name, and whether one was already called."""

    tools: Mapping[str, Json]
    has_result: bool


class AnyModel(TestServer):
    """A model server as a context manager. `paths`: the requested paths; `has_called`: the command was run by a tool.

    `has_instructions`: a request had the text that tells an agent how its sandbox works. `keys`: those of the requests.
    `last`: the body of the last request.
    """

    def __init__(self, command: str, text: str = "A title", *, agents: int = 1) -> None:
        """`agents`: the tool is called as soon as this many agents have made a request, so that they run at the same time."""
        self._agents = threading.Barrier(agents)
        self.command, self.text = command, text
        self.paths: list[str] = []
        self.keys: set[str] = set()
        self.last = b""
        self.tools: set[str] = set()
        self.has_called = False
        self.has_instructions = False
        self.unanswered: list[str] = []
        super().__init__(_Listener(self))

    def answer(self, asked: Asked) -> Call | str:
        """Return the next answer to an agent."""
        self.tools.update(asked.tools)
        if not asked.tools:
            return self.text
        if asked.has_result:
            self.has_called = True
            return DONE
        found = next((name for wanted in _SHELL_TOOLS for name in asked.tools if name.lower() == wanted), None)
        if found is not None:
            self._agents.wait(_PATIENCE)
        return DONE if found is None else Call(found, fill_in(asked.tools[found], self.command))


def fill_in(schema: Json, command: str) -> Json:
    """Return arguments for a shell tool: its command, and something harmless for each other argument that it requires."""
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    name = next((one for one in _COMMAND_PROPERTIES if one in properties), "command")
    given: Json = {one: _harmless(properties.get(one, {})) for one in required if one != name}
    is_list = _kind(properties.get(name, {})) == "array"
    return given | {name: [command] if is_list and name == "commands" else ["sh", "-c", command] if is_list else command}


def _kind(schema: Json) -> str:
    kind = schema.get("type", "string")
    return str(next((one for one in kind if one != "null"), "string") if isinstance(kind, list) else kind).lower()


def _harmless(schema: Json) -> object:
    return schema["enum"][0] if schema.get("enum") else _DEFAULTS.get(_kind(schema), "scripted")


# The protocols: how a request is read, and what the events of an answer are


def _read_messages(body: Json) -> Asked:
    blocks = [block for one in body["messages"] if isinstance(one["content"], list) for block in one["content"]]
    tools = {one["name"]: one.get("input_schema") or {} for one in body.get("tools") or ()}
    return Asked(tools, any(block["type"] == "tool_result" for block in blocks))


def _write_messages(answer: Call | str, body: Json) -> Iterator[Json]:
    if isinstance(answer, str):
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": answer}
        whole, reason = {**block, "text": answer}, "end_turn"
    else:
        block = {"type": "tool_use", "id": "toolu_1", "name": answer.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        whole, reason = {**block, "input": answer.arguments}, "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "usage": usage}
    yield {**head, "content": [whole], "stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "stop_sequence": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _read_chat(body: Json) -> Asked:
    functions = [one["function"] for one in body.get("tools") or () if "function" in one]
    tools = {one["name"]: one.get("parameters") or {} for one in functions}
    return Asked(tools, any(one["role"] == "tool" for one in body["messages"]))


def _write_chat(answer: Call | str, body: Json) -> Iterator[Json]:
    if isinstance(answer, str):
        message: Json = {"role": "assistant", "content": answer}
    else:
        function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
        calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "stop" if isinstance(answer, str) else "tool_calls"
    head = {"id": "chat_1", "created": 1, "model": body.get("model")}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "finish_reason": reason}
    yield {**head, "object": "chat.completion", "choices": [{**choice, "message": message}], "usage": usage}
    part = {**head, "object": "chat.completion.chunk"}
    yield {**part, "choices": [{**choice, "finish_reason": None, "delta": message}]}
    yield {**part, "choices": [{**choice, "delta": {}}], "usage": usage}


def _read_responses(body: Json) -> Asked:
    items = body["input"] if isinstance(body["input"], list) else []
    tools = {one["name"]: one.get("parameters") or {} for one in body.get("tools") or () if one.get("type") == "function"}
    return Asked(tools, any(one.get("type") == "function_call_output" for one in items))


def _write_responses(answer: Call | str, body: Json) -> Iterator[Json]:
    if isinstance(answer, str):
        part = {"type": "output_text", "text": answer, "annotations": []}
        item: Json = {"type": "message", "id": "item_1", "role": "assistant", "status": "completed", "content": [part]}
        place = {"item_id": "item_1", "output_index": 0, "content_index": 0}
        middle: list[Json] = [{"type": "response.output_text.delta", **place, "delta": answer}]
    else:
        arguments = json.dumps(answer.arguments)
        item = {"type": "function_call", "id": "item_1", "call_id": "call_1", "name": answer.tool, "status": "completed"}
        item |= {"arguments": arguments}
        middle = []
    usage: Json = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1, "total_tokens": 2}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    head = {"id": "response_1", "object": "response", "created_at": 1, "model": body.get("model")}
    whole = {**head, "status": "completed", "output": [item], "usage": usage}
    events: list[Json] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    yield whole
    yield from ({**event, "sequence_number": number} for number, event in enumerate(events))


def _read_gemini(body: Json) -> Asked:
    parts = [part for one in body["contents"] for part in one.get("parts") or ()]
    functions = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    tools = {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in functions}
    return Asked(tools, any("functionResponse" in part for part in parts))


def _write_gemini(answer: Call | str, body: Json) -> Iterator[Json]:
    part: Json = (
        {"text": answer} if isinstance(answer, str) else {"functionCall": {"name": answer.tool, "args": answer.arguments}}
    )
    if "responseMimeType" in body.get("generationConfig", {}):  # a request for JSON: which model to use, who speaks next
        part = {"text": json.dumps({"next_speaker": "user", "reasoning": "none", "model_choice": "pro"})}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    document = {"candidates": [candidate], "usageMetadata": usage}
    yield document
    yield document


_PROTOCOLS: Mapping[str, tuple[Callable[[Json], Asked], Callable[[Call | str, Json], Iterator[Json]]]] = {
    "/messages": (_read_messages, _write_messages),
    "/chat/completions": (_read_chat, _write_chat),
    "/responses": (_read_responses, _write_responses),
    ":generateContent": (_read_gemini, _write_gemini),
    ":streamGenerateContent": (_read_gemini, _write_gemini),
}


class _Listener(Listener):
    def __init__(self, model: AnyModel) -> None:
        self.model = model
        super().__init__(_Handler)


class _Handler(QuietHandler, BaseHTTPRequestHandler):
    server: _Listener

    def do_HEAD(self) -> None:
        self._send(b"")

    def do_GET(self) -> None:
        self.server.model.paths.append(f"GET {self.path}")
        models = [{"id": "scripted", "object": "model", "created": 1, "owned_by": "tests"}]
        self._send(json.dumps({"object": "list", "data": models}).encode())

    def do_POST(self) -> None:
        model, path = self.server.model, self.path.partition("?")[0]
        text = self._body() or b"{}"
        body = json.loads(text)
        model.last = text
        model.has_instructions |= INSTRUCTIONS in text
        model.paths.append(f"POST {self.path}")
        model.keys.add(self.headers.get("x-api-key") or self.headers.get("Authorization", "").removeprefix("Bearer "))
        found = next((one for end, one in _PROTOCOLS.items() if path.endswith(end)), None)
        if found is None:
            model.unanswered.append(self.path)
            self._send(json.dumps({"input_tokens": 1, "totalTokens": 1}).encode())
            return
        read, write = found
        whole, *events = write(model.answer(read(body)), body)
        if not (body.get("stream") or "stream" in path):
            self._send(json.dumps(whole).encode())
            return
        rows = [(f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n" for event in events]
        rows += ["data: [DONE]\n\n"] if path.endswith("/chat/completions") else []
        self._send("".join(rows).encode(), "text/event-stream")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        return b"".join(pieces)

    def _send(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
