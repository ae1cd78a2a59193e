"""Strict YAML: a tree of nodes with their lines; YAML's surprising values are problems."""

import os
from typing import TYPE_CHECKING

import yaml
from yaml.constructor import SafeConstructor
from yaml.events import AliasEvent, Event
from yaml.nodes import ScalarNode, SequenceNode
from yaml.reader import ReaderError

from agent_dev.config import schema
from agent_dev.config.decisions import DECISIONS
from agent_dev.config.validators import CheckedFile, Mapping, Node, Problem, Scalar, Sequence
from agent_dev.value import Value

if TYPE_CHECKING:
    from yaml import _yaml

_LARGEST = 256 << 10  # bytes of one file
_TAG = "tag:yaml.org,2002:"
_LONGEST_NUMBER = 20
_NUMBER_STARTS = frozenset("+-.0123456789")
_MEANINGS = {"null": "nothing", "float": "a number", "timestamp": "a date", "value": "a YAML special value"}
# YAML 1.1 reads these as true or false, PyYAML reads them as text.
_SHORT_TRUTH = {"y": "true", "Y": "true", "n": "false", "N": "false"}


class ParsedFile(Value):
    """A parsed file: `problems` as `path:line: key: message`; `status` is the file's, None if it was not read."""

    fields: dict[str, object]
    lines: dict[str, int]
    problems: tuple[str, ...]
    status: os.stat_result | None = None


def parse(path: str, kind: str, choices: "dict[str, tuple[str, ...]] | None" = None) -> ParsedFile:
    """Read and check a file or pipe that holds a `profile`, `config`, `rules`, a `policy` or `network` rules.

    Never raises: see `problems`.

    `choices`: the allowed values of enumerated fields of `rules`.
    """
    try:
        with open(path, "rb", 0) as file:
            data = _read_all(file.fileno())
            status = os.fstat(file.fileno())
    except OSError as error:
        return ParsedFile({}, {}, (f"{path}: cannot be read: {error.strerror}",))
    return parse_data(path, kind, data, choices).replace(status=status)


def parse_data(path: str, kind: str, data: bytes, choices: "dict[str, tuple[str, ...]] | None" = None) -> ParsedFile:
    """Parse and check bytes that were read from a file."""
    if len(data) > _LARGEST:
        return ParsedFile({}, {}, (f"{path}: is larger than {_LARGEST >> 10} KiB",))
    tree, problems = parse_tree(data)
    checked = _check(kind, tree, choices or {})
    lines = {problem.line for problem in problems}  # on that line the YAML problem is reported already
    problems += tuple(problem for problem in checked.problems if problem.line not in lines)
    ordered = sorted(problems, key=lambda problem: problem.line)
    texts = tuple(f"{path}:{problem.line}: {problem.text}" for problem in ordered)
    return ParsedFile(checked.fields, checked.lines, texts)


def _check(kind: str, tree: Node | None, choices: dict[str, tuple[str, ...]]) -> CheckedFile:
    if kind == "rules":
        return schema.check_risk_rules(tree, choices)
    if kind == "policy":
        return schema.check_policy(tree, DECISIONS)
    if kind == "repository":
        from agent_dev.config import repository_settings  # deferred: rarely needed

        return repository_settings.check(tree)
    if kind == "network":
        return schema.check_remembered_rules(tree)
    return schema.check_profile(tree) if kind == "profile" else schema.check_config(tree)


def _read_all(fd: int) -> bytes:
    """Return the bytes of a file or pipe, at most one byte more than is allowed."""
    parts = []
    left = _LARGEST + 1
    while left and (part := os.read(fd, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def parse_tree(data: bytes) -> tuple[Node | None, tuple[Problem, ...]]:
    """Return a file's tree, None for an empty file, and its YAML problems."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return None, (Problem(line, f"not UTF-8: byte {data[error.start]:#04x}"),)
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        tree = None if root is None or _is_blank(root) else _node(root, loader.problems)
        return tree, tuple(loader.problems)
    except yaml.MarkedYAMLError as error:
        return None, (*(loader.problems if loader else ()), _syntax(error))
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, (Problem(line, f"not YAML: the character U+{ord(text[error.position]):04X} is not allowed"),)
    except RecursionError:
        return None, (Problem(1, "nested too deeply"),)


class _Loader(yaml.SafeLoader):
    """Composes nodes; reports anchors, aliases and tags, and otherwise ignores them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[Problem] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, AliasEvent):
            self._refuse(event, f"*{event.anchor}: aliases are not allowed: write the value out")
            self.get_event()
            return ScalarNode(_TAG + "str", "", style='"')
        if event.anchor is not None:
            self._refuse(event, f"&{event.anchor}: anchors are not allowed: write the value out")
            event.anchor = None
        if event.tag is not None:
            self._refuse(event, f"{event.tag.replace(_TAG, '!!')}: tags are not allowed")
            event.tag = None
        return super().compose_node(parent, index)

    def _refuse(self, event: Event, text: str) -> None:
        self.problems.append(Problem(_line(event.start_mark), text))


def _is_blank(node: yaml.Node) -> bool:
    return isinstance(node, ScalarNode) and node.style is None and not node.value


def _syntax(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    message = error.problem or error.context or "it cannot be read"
    if "single document" in (error.context or ""):
        message = "more than one document"
    if "'\\t'" in message:
        message += " (indent with spaces)"
    return Problem(_line(mark), f"not YAML: {message}")


def _line(mark: "yaml.error.Mark | _yaml.Mark | None") -> int:
    return mark.line + 1 if mark else 1


def _node(node: yaml.Node, problems: list[Problem]) -> Node:
    if isinstance(node, ScalarNode):
        return _scalar(node)
    line = _line(node.start_mark)
    if isinstance(node, SequenceNode):
        return Sequence(line, tuple(_node(item, problems) for item in node.value))
    pairs = []
    for key, value in node.value:
        name = _key(key, problems)
        if name is not None:
            pairs.append((name, _node(value, problems)))
    return Mapping(line, tuple(pairs))


def _key(node: yaml.Node, problems: list[Problem]) -> Scalar | None:
    line = _line(node.start_mark)
    if not isinstance(node, ScalarNode):
        problems.append(Problem(line, "a key must be a word, not a list or a mapping"))
        return None
    if node.tag == _TAG + "merge":
        problems.append(Problem(line, "<<: merge keys are not allowed: write the keys out"))
        return None
    return _scalar(node)


def _scalar(node: ScalarNode) -> Scalar:
    text = str(node.value)
    return Scalar(_line(node.start_mark), text, "" if node.style is not None else _meaning(node, text))


def _meaning(node: ScalarNode, text: str) -> str:
    """Return what YAML 1.1 or 1.2 reads an unquoted scalar as; "" if both read text."""
    tag = node.tag.removeprefix(_TAG)
    if tag == "bool":
        return str(SafeConstructor.bool_values[text.lower()]).lower()
    if tag == "int":
        return _number(node)
    return _MEANINGS.get(tag) or _SHORT_TRUTH.get(text) or ("a number" if _is_number(text) else "")


def _number(node: ScalarNode) -> str:
    try:
        number = SafeConstructor().construct_yaml_int(node) if len(node.value) < _LONGEST_NUMBER else None
    except ValueError:
        number = None
    return "a number" if number is None or str(number) == node.value else f"the number {number}"


def _is_number(text: str) -> bool:
    """Return whether YAML 1.2 or another parser sees a number (`1e3`, `0o17`) where PyYAML sees text."""
    if text[:1] not in _NUMBER_STARTS or len(text) > _LONGEST_NUMBER:
        return False
    for read_number in (float, lambda digits: int(digits, 0)):
        try:
            read_number(text)
        except ValueError:
            continue
        return True
    return False
