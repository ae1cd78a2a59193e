"""Which commands may run: rules over a program, its words, options, arguments and paths; the first that matches decides.

A guard rail: it reads what a command line says, and there are many ways to do the same without saying it. What holds is the
sandbox and the overlay.
"""

import posixpath

from agent_dev.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ALLOW, DENY, CHECKPOINT, TRANSACT, ASK = "allow", "deny", "checkpoint", "transact", "ask"
DECISIONS = (ALLOW, DENY, CHECKPOINT, TRANSACT, ASK)
_STRICTNESS = (ALLOW, CHECKPOINT, TRANSACT, ASK, DENY)

# Options whose value is the next word, so that it is not taken for the first word of what is asked.
_VALUED = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"),
    "npm": ("--prefix", "-C", "--workspace", "-w"),
    "pnpm": ("-C", "--dir", "--filter"),
    "yarn": ("--cwd",),
    "cargo": ("-C", "--config", "-Z"),
    "pip": ("--python", "--log", "--proxy", "--cache-dir"),
    "docker": ("-H", "--host", "-c", "--context", "--config", "-l"),
    "podman": ("--url", "--connection", "--root"),
    "kubectl": ("-n", "--namespace", "--context", "--cluster", "--kubeconfig", "-s"),
    "helm": ("-n", "--namespace", "--kube-context", "--kubeconfig"),
    "systemctl": ("-H", "-M", "-t"),
    "apt-get": ("-o", "-c", "-t"),
    "apt": ("-o", "-c", "-t"),
    "terraform": (),
    "make": ("-C", "-f", "-I", "-j", "-o", "-W"),
}
# Letters that take the rest of a cluster, or the next word, as their value: in `git clean -fdenode` the n is of a pattern.
_VALUED_LETTERS = {"git clean": "e"}
# Programs that start the words after their own, with the options that take a value.
_WRAPPERS = {
    "env": ("-u", "--unset", "-C", "--chdir", "-S"),
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "-t"),
    "timeout": ("-s", "--signal", "-k", "--kill-after"),
    "stdbuf": ("-i", "-o", "-e"),
    "nohup": (),
    "setsid": (),
    "time": ("-f", "-o"),
    "sudo": ("-u", "-g", "-h", "-p", "-C", "-r", "-t"),
    "doas": ("-u", "-C"),
    "xargs": ("-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"),
    "busybox": (),
    "command": (),
    "exec": (),
}
_WITH_OPERAND = ("timeout",)  # one word of their own before the command
_DEEPEST = 8  # wrappers in wrappers


class Rule(Value):
    """It applies to a command that meets all its conditions, each by any of what it lists; an empty one is met by all.

    `programs`: patterns of the file name. `words`: what the arguments that are no options begin with. `options`: a letter
    (`-r`, in a cluster too) or a word (`--recursive`, `-delete`). `arguments`: patterns of any argument as it stands; `paths`: of
    any operand as a path, made absolute; `only`: of every operand so, and none in or above `cwd`; `names`: of the last part of
    every operand; `lines`: of the whole line;
    `cwd`: of the working directory. `over`: more operands than that. In patterns `*` stands for anything, in those of paths a
    leading `~` for the home.
    """

    name: str
    decision: str
    programs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    cwd: tuple[str, ...] = ()
    over: int = -1
    message: str = ""
    origin: str = ""  # file:line


class Command(Value):
    """What is about to run: the program's path or name, all words (the first is what it calls itself), and where."""

    program: str
    argv: tuple[str, ...]
    cwd: str = "/"
    home: str = ""


class Decision(Value):
    """What becomes of a command, and the rule that says so ("": none did, so it is allowed)."""

    decision: str = ALLOW
    rule: str = ""
    message: str = ""
    origin: str = ""


ALLOWED = Decision()


class Policy:
    """A set of rules in order, found by the program's name: most commands are met by none of them."""

    def __init__(self, name: str, rules: tuple[Rule, ...]) -> None:
        self.name = name
        self.rules = rules
        self._by_program: dict[str, list[int]] = {}
        self._patterns: list[int] = []
        for number, rule in enumerate(rules):
            if not rule.programs or any("*" in program for program in rule.programs):
                self._patterns.append(number)
            else:
                for program in rule.programs:
                    self._by_program.setdefault(program, []).append(number)
        self._known: dict[str, tuple[Rule, ...]] = {}

    def about(self, program: str) -> tuple[Rule, ...]:
        """Return the rules that can apply to a program of that file name, in order."""
        known = self._known.get(program)
        if known is None:
            numbers = [*self._by_program.get(program, ())]
            numbers += [number for number in self._patterns if _is_meant(self.rules[number], program)]
            known = tuple(self.rules[number] for number in sorted(numbers))
            if len(self._known) < 4096:  # names are the agent's: not as many as it likes
                self._known[program] = known
        return known

    def is_of_interest(self, program: str) -> bool:
        """Whether any rule could apply: without one nothing but the name needs to be known."""
        name = program.rpartition("/")[2]
        return name in _WRAPPERS or bool(self.about(name))


def _is_meant(rule: Rule, program: str) -> bool:
    return not rule.programs or any(matches(pattern, program) for pattern in rule.programs)


def decide(policy: Policy, command: Command) -> Decision:
    """Return what becomes of a command: the first rule's decision; of one inside a wrapper (`env`, `xargs`) the stricter."""
    found = _first(policy, command)
    inner = unwrapped(command)
    for _ in range(_DEEPEST):
        if inner is None:
            break
        other = _first(policy, inner)
        if _STRICTNESS.index(other.decision) > _STRICTNESS.index(found.decision):
            found = other
        inner = unwrapped(inner)
    return found


def _first(policy: Policy, command: Command) -> Decision:
    names = {command.program.rpartition("/")[2], command.argv[0].rpartition("/")[2] if command.argv else ""}
    for name in sorted(names):
        rules = policy.about(name) if name else ()
        if rules:
            line = _Line(name, command)
            for rule in rules:
                if line.meets(rule):
                    return Decision(rule.decision, rule.name, rule.message, rule.origin)
    return ALLOWED


def unwrapped(command: Command) -> Command | None:
    """Return the command that `env`, `nice`, `xargs` and the like start; None when it is no such one."""
    name = command.program.rpartition("/")[2]
    if name not in _WRAPPERS:
        return None
    words = list(command.argv[1:])
    while words and (words[0].startswith("-") or (name in ("env", "sudo") and "=" in words[0])):
        word = words.pop(0)
        if word == "--":
            break
        if word in _WRAPPERS[name] and words:
            words.pop(0)
    if name in _WITH_OPERAND and words:
        words.pop(0)
    return command.but(program=words[0], argv=tuple(words)) if words else None


class _Line:
    """A command line, taken apart once for all rules that look at it."""

    def __init__(self, name: str, command: Command) -> None:
        self.command = command
        self.text = " ".join((name, *command.argv[1:]))
        self.options: list[str] = []
        self.operands: list[str] = []
        valued = _VALUED.get(name, ())
        rest = iter(command.argv[1:])
        for word in rest:
            if word == "--":
                self.options.append(word)
                self.operands += rest
            elif word.startswith("-") and word != "-":
                self.options.append(word)
                if word in valued and not self.operands:
                    next(rest, None)
            else:
                self.operands.append(word)
        letters = _VALUED_LETTERS.get(f"{name} {self.operands[0]}", "") if self.operands else ""
        if letters:
            self.options = [_without_values(word, letters) for word in self.options]

    def meets(self, rule: Rule) -> bool:
        """Whether a rule's conditions are all met, but for that on the program."""
        return (
            (not rule.words or any(self._begins_with(words.split()) for words in rule.words))
            and (not rule.options or any(self._has(option) for option in rule.options))
            and len(self.operands) > rule.over
            and (not rule.arguments or _any(rule.arguments, self.command.argv[1:]))
            and (not rule.paths or _any(self._expanded(rule.paths), map(self._absolute, self.operands)))
            and (not rule.only or self._are_all(rule.only))
            and (not rule.names or self._have_names(rule.names))
            and (not rule.lines or _any(rule.lines, (self.text,)))
            and (not rule.cwd or _any(self._expanded(rule.cwd), (self.command.cwd,)))
        )

    def _begins_with(self, words: list[str]) -> bool:
        return self.operands[: len(words)] == words

    def _are_all(self, patterns: tuple[str, ...]) -> bool:
        expanded = self._expanded(patterns)
        paths = [self._absolute(operand) for operand in self.operands]
        return bool(paths) and all(_any(expanded, (path,)) and not self._is_near(path) for path in paths)

    def _have_names(self, patterns: tuple[str, ...]) -> bool:
        return bool(self.operands) and all(_any(patterns, (operand.rpartition("/")[2],)) for operand in self.operands)

    def _is_near(self, path: str) -> bool:
        """Whether a path lies in the working directory or holds it."""
        cwd = self.command.cwd
        return path == cwd or path.startswith(cwd.rstrip("/") + "/") or cwd.startswith(path.rstrip("/") + "/")

    def _has(self, option: str) -> bool:
        return any(_is_option(option, word) for word in self.options)

    def _absolute(self, operand: str) -> str:
        if operand == "~" or operand.startswith("~/"):
            operand = self.command.home + operand[1:]
        if operand in ("*", "/*") or operand.endswith("/*"):
            operand = operand[:-1]  # all that is in a directory, where no shell has spelt it out
        path = posixpath.normpath(posixpath.join(self.command.cwd, operand))
        return path[1:] if path.startswith("//") else path

    def _expanded(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        home = self.command.home
        return tuple(home + one[1:] if one == "~" or one.startswith("~/") else one for one in patterns)


def _is_option(option: str, word: str) -> bool:
    """Whether a word is an option: exactly, with a value behind it, a letter in a cluster, or shortened as GNU's may be."""
    if word == option or word.startswith(option + "="):
        return True
    if option.startswith("--"):
        return len(word) > 4 and word.startswith("--") and option.startswith(word)
    is_letter = len(option) == 2 and not word.startswith("--")
    return is_letter and (word[1:2] == option[1] or (word[1:].isalpha() and option[1] in word[1:]))  # -s0, or -rf


def _without_values(word: str, letters: str) -> str:
    """Return a cluster up to the first letter that takes the rest of it."""
    ends = [at for at in map(word.find, letters) if at > 0] if not word.startswith("--") else []
    return word[: min(ends) + 1] if ends else word


def _any(patterns: tuple[str, ...], texts: "Iterable[str]") -> bool:
    return any(matches(pattern, text) for text in texts for pattern in patterns)


def matches(pattern: str, text: str) -> bool:
    """Whether a text is as a pattern says, in which `*` stands for anything. Not fnmatch, which brings re."""
    first, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    last = parts.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in parts:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
