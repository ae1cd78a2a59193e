"""The rules of the command policy, on a program, its options, arguments and paths; the first match decides.

This is a guard rail: it reads only the command line, and a program can do the same in many other ways. The sandbox and the
overlay are the protection.
"""

import posixpath

from agent_dev.config.decisions import ALLOW, ASK, CHECKPOINT, DENY, TRANSACT
from agent_dev.value import Value
from agent_dev.wildcard import matches_stars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_STRICTNESS = (ALLOW, CHECKPOINT, TRANSACT, ASK, DENY)

# Options whose value is the next argument, which is then not the subcommand.
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
# Letters that take the rest of a cluster, or the next argument, as a value: in `git clean -fdenode` the n is part of a pattern.
_VALUED_LETTERS = {"git clean": "e"}
# Programs that start the command in their arguments, with their options that take a value.
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
_WITH_OPERAND = ("timeout",)  # one operand before the command
_DEEPEST = 8  # nested wrappers


class CommandRule(Value):
    """A rule; it applies to a command that meets all its conditions; a condition is met by any one of its values.

    `programs`: patterns of the file name. `words`: the first operands. `options`: a letter (`-r`, also in a cluster) or a word
    (`--recursive`, `-delete`). `arguments`: patterns of any argument; `paths`: of any operand as an absolute path; `only`: of
    every operand as a path, none of them in or above `cwd`; `names`: of the last component of every operand; `lines`: of the
    whole command line; `cwd`: of the working directory. `over`: more operands than this. In patterns `*` matches anything, in
    those of paths a leading `~` is the home directory.
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
    """A command about to run: the program's path or name, all arguments (the first is argv[0]), and the working directory."""

    program: str
    argv: tuple[str, ...]
    cwd: str = "/"
    home: str = ""


class CommandDecision(Value):
    """The decision on a command, and the rule that made it ("": none, so the command is allowed)."""

    decision: str = ALLOW
    rule: str = ""
    message: str = ""
    origin: str = ""


ALLOWED = CommandDecision()


class Policy:
    """An ordered set of rules, indexed by the program's name, since most commands match none."""

    def __init__(self, name: str, rules: tuple[CommandRule, ...]) -> None:
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
        self._known: dict[str, tuple[CommandRule, ...]] = {}

    def rules_for(self, program: str) -> tuple[CommandRule, ...]:
        """Return the rules that can apply to a program with this file name, in order."""
        known = self._known.get(program)
        if known is None:
            numbers = [*self._by_program.get(program, ())]
            numbers += [number for number in self._patterns if _has_program(self.rules[number], program)]
            known = tuple(self.rules[number] for number in sorted(numbers))
            if len(self._known) < 4096:  # the agent chooses the names: limit their number
                self._known[program] = known
        return known

    def may_apply_to(self, program: str) -> bool:
        """Return whether any rule could apply; if not, only the name needs to be known."""
        name = program.rpartition("/")[2]
        return name in _WRAPPERS or bool(self.rules_for(name))


def _has_program(rule: CommandRule, program: str) -> bool:
    return not rule.programs or any(matches_stars(program, pattern) for pattern in rule.programs)


def decide(policy: Policy, command: Command) -> CommandDecision:
    """Return the decision of the first matching rule; for a command in a wrapper (`env`, `xargs`) the stricter one of both."""
    found = _first(policy, command)
    inner = unwrap(command)
    for _ in range(_DEEPEST):
        if inner is None:
            break
        other = _first(policy, inner)
        if _STRICTNESS.index(other.decision) > _STRICTNESS.index(found.decision):
            found = other
        inner = unwrap(inner)
    return found


def _first(policy: Policy, command: Command) -> CommandDecision:
    names = {command.program.rpartition("/")[2], command.argv[0].rpartition("/")[2] if command.argv else ""}
    for name in sorted(names):
        rules = policy.rules_for(name) if name else ()
        if rules:
            line = _Line(name, command)
            for rule in rules:
                if line.meets(rule):
                    return CommandDecision(rule.decision, rule.name, rule.message, rule.origin)
    return ALLOWED


def unwrap(command: Command) -> Command | None:
    """Return the command that `env`, `nice`, `xargs` and the like start; None if there is no such wrapper."""
    name = command.program.rpartition("/")[2]
    if name not in _WRAPPERS:
        return None
    arguments = list(command.argv[1:])
    while arguments and (arguments[0].startswith("-") or (name in ("env", "sudo") and "=" in arguments[0])):
        argument = arguments.pop(0)
        if argument == "--":
            break
        if argument in _WRAPPERS[name] and arguments:
            arguments.pop(0)
    if name in _WITH_OPERAND and arguments:
        arguments.pop(0)
    return command.replace(program=arguments[0], argv=tuple(arguments)) if arguments else None


class _Line:
    """A parsed command line, used by all rules that apply to it."""

    def __init__(self, name: str, command: Command) -> None:
        self.command = command
        self.text = " ".join((name, *command.argv[1:]))
        self.options: list[str] = []
        self.operands: list[str] = []
        valued = _VALUED.get(name, ())
        rest = iter(command.argv[1:])
        for argument in rest:
            if argument == "--":
                self.options.append(argument)
                self.operands += rest
            elif argument.startswith("-") and argument != "-":
                self.options.append(argument)
                if argument in valued and not self.operands:
                    next(rest, None)
            else:
                self.operands.append(argument)
        letters = _VALUED_LETTERS.get(f"{name} {self.operands[0]}", "") if self.operands else ""
        if letters:
            self.options = [_without_values(option, letters) for option in self.options]

    def meets(self, rule: CommandRule) -> bool:
        """Return whether all conditions of a rule are met, apart from that on the program."""
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
        """Return whether a path is below the working directory or above it."""
        cwd = self.command.cwd
        return path == cwd or path.startswith(cwd.rstrip("/") + "/") or cwd.startswith(path.rstrip("/") + "/")

    def _has(self, option: str) -> bool:
        return any(_is_option(option, argument) for argument in self.options)

    def _absolute(self, operand: str) -> str:
        if operand == "~" or operand.startswith("~/"):
            operand = self.command.home + operand[1:]
        if operand in ("*", "/*") or operand.endswith("/*"):
            operand = operand[:-1]  # everything in a directory, not expanded by a shell
        path = posixpath.normpath(posixpath.join(self.command.cwd, operand))
        return path[1:] if path.startswith("//") else path

    def _expanded(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        home = self.command.home
        return tuple(home + one[1:] if one == "~" or one.startswith("~/") else one for one in patterns)


def _is_option(option: str, argument: str) -> bool:
    """Return whether an argument is an option: exact, with `=value`, a letter in a cluster, or a GNU abbreviation."""
    if argument == option or argument.startswith(option + "="):
        return True
    if option.startswith("--"):
        return len(argument) > 4 and argument.startswith("--") and option.startswith(argument)
    is_letter = len(option) == 2 and not argument.startswith("--")
    return is_letter and (argument[1:2] == option[1] or (argument[1:].isalpha() and option[1] in argument[1:]))  # -s0, or -rf


def _without_values(argument: str, letters: str) -> str:
    """Return a cluster up to the first letter that takes a value."""
    ends = [at for at in map(argument.find, letters) if at > 0] if not argument.startswith("--") else []
    return argument[: min(ends) + 1] if ends else argument


def _any(patterns: tuple[str, ...], texts: "Iterable[str]") -> bool:
    return any(matches_stars(text, pattern) for text in texts for pattern in patterns)
