"""The files of an agent home that run automatically in later sessions, and the changes among them."""

from agent_dev.path_patterns import PatternIndex
from agent_dev.quick_dataclass import dataclass

# Reason → patterns, relative to the home. Programs read or run these files unasked.
AUTOSTART_PATTERNS: dict[str, tuple[str, ...]] = {
    "read by a shell at startup": (
        *("/.bashrc", "/.bash_profile", "/.bash_login", "/.bash_logout", "/.bash_aliases", "/.profile", "/.inputrc", "/.zshrc"),
        *("/.zshenv", "/.zprofile", "/.zlogin", "/.kshrc", "/.cshrc", "/.tcshrc", "/.login", "/.config/fish/", "/.envrc"),
        *("/.oh-my-zsh/", "/.bashrc.d/", "/.config/direnv/", "/.config/environment.d/", "/.xprofile", "/.pam_environment"),
    ),
    "git settings, hooks or filters": ("/.gitconfig", "/.config/git/", "/.git-templates/", "/.githooks/"),
    "settings, hooks, servers or instructions of an agent": (
        # Those of the agents that have a profile include all that `home --import` offers, and no logins, logs and conversations.
        *("/.aider.conf.yml", "/.aider.model.settings.yml"),
        *("/.claude.json", "/.claude/settings*.json", "/.claude/keybindings.json", "/.claude/CLAUDE.md", "/.claude/rules/"),
        *("/.claude/hooks/", "/.claude/agents/", "/.claude/commands/", "/.claude/skills/", "/.claude/plugins/"),
        *("/.claude/output-styles/", "/.cline/rules/", "/.cline/skills/", "/.cline/hooks/"),
        *("/.cline/data/settings/cline_mcp_settings.json",),
        *("/.codex/config.toml", "/.codex/AGENTS.md", "/.codex/prompts/", "/.codex/hooks/", "/.codex/skills/", "/.codex/rules/"),
        *("/.continue/config.*", "/.continue/.env", "/.continue/permissions.yaml", "/.continue/rules/", "/.continue/prompts/"),
        *("/.continue/mcpServers/", "/.continue/agents/", "/.continue/assistants/", "/.continue/models/"),
        *("/.copilot/copilot-instructions.md", "/.copilot/mcp-config.json", "/.copilot/skills/", "/.copilot/agents/"),
        *("/.copilot/hooks/", "/.factory/AGENTS.md", "/.factory/settings*.json", "/.factory/mcp.json", "/.factory/skills/"),
        *("/.factory/commands/", "/.factory/droids/", "/.factory/hooks/", "/.factory/plugins/"),
        *("/.gemini/settings.json", "/.gemini/.env", "/.gemini/GEMINI.md", "/.gemini/commands/", "/.gemini/skills/"),
        *("/.gemini/agents/", "/.gemini/hooks/", "/.gemini/policies/", "/.gemini/extensions/"),
        *("/.grok/*.toml", "/.grok/AGENTS.md", "/.grok/skills/", "/.grok/hooks/", "/.config/kilo/"),
        *("/.kimi-code/*.toml", "/.kimi-code/mcp.json", "/.kimi-code/AGENTS.md", "/.kimi-code/skills/"),
        *("/.config/opencode/", "/.opencode/", "/.openhands/mcp.json", "/.openhands/*.toml", "/.openhands/skills/"),
        *("/.openhands/microagents/", "/.pi/agent/AGENTS.md", "/.pi/agent/settings.json", "/.pi/agent/models.json"),
        *("/.pi/agent/skills/", "/.pi/agent/prompts/", "/.pi/agent/extensions/"),
        *("/.qwen/*.md", "/.qwen/settings.json", "/.qwen/.env", "/.qwen/commands/", "/.qwen/skills/", "/.qwen/agents/"),
        *("/.qwen/hooks/", "/.qwen/extensions/", "/.vibe/*.toml", "/.vibe/AGENTS.md", "/.vibe/skills/", "/.vibe/agents/"),
        *("/.vibe/prompts/", "/.vibe/tools/", "/.cursor/", "/.mcp.json", "/.config/goose/", "/.config/crush/", "/.agents/"),
        *("/.config/amp/", "/AGENTS.md"),
    ),
    "read or run by an editor": (
        *("/.vimrc", "/.gvimrc", "/.vim/", "/.exrc", "/.config/nvim/", "/.emacs", "/.emacs.d/", "/.config/emacs/", "/.nanorc"),
        *("/.config/helix/", "/.vscode-server/", "/.config/Code/User/", "/.ideavimrc"),
    ),
    "settings of a package manager or build tool": (
        *("/.npmrc", "/.yarnrc", "/.yarnrc.yml", "/.bunfig.toml", "/.config/pip/", "/.pip/", "/.pypirc", "/.config/uv/"),
        *("/.cargo/config", "/.cargo/config.toml", "/.cargo/env", "/.m2/settings.xml", "/.gradle/init.d/", "/.gradle/*.gradle"),
        *("/.gradle/gradle.properties", "/.gemrc", "/.bundle/config", "/.condarc", "/.config/go/env", "/.config/pnpm/rc"),
        *("/.config/composer/", "/.sbt/", "/.mix/", "/.rustup/settings.toml", "/.tool-versions", "/.config/mise/", "/.makerc"),
    ),
    "read by a program or debugger at startup": (
        *("/.pythonrc", "/.pdbrc", "/.pdbrc.py", "/.ipython/profile_default/startup/", "/.gdbinit", "/.lldbinit", "/.irbrc"),
        *("/.pryrc", "/.Rprofile", "/.psqlrc", "/.sqliterc", "/.my.cnf", "/.tmux.conf", "/.screenrc", "/.curlrc", "/.wgetrc"),
        *("/.ripgreprc", "/.lesskey", "/.lessfilter", "/.mailcap", "/.ssh/config", "/.ssh/rc", "/.node_repl_history", "*.pth"),
        *("sitecustomize.py", "usercustomize.py", "/.docker/config.json", "/.docker/cli-plugins/", "/.kube/config"),
    ),
    "started by a desktop or service manager": (
        *("/.config/autostart/", "/.config/systemd/", "/.local/share/systemd/", "/.local/share/applications/", "/.forward"),
        *("/.local/share/dbus-1/services/", "/.xinitrc", "/.xsession", "/.Xresources"),
    ),
}


@dataclass(frozen=True, slots=True)
class FileMark:
    """The metadata of a file, link or pipe in a home, and the text of an autostart file."""

    kind: str
    mode: int
    size: int
    inode: int
    mtime: int
    ctime: int
    target: str = ""
    text: str | None = None

    @property
    def identity(self) -> tuple[str, int, int, int, int, int, str]:
        """The values that reveal any change; ctime cannot be set."""
        return (self.kind, self.mode, self.size, self.inode, self.mtime, self.ctime, self.target)


@dataclass(frozen=True, slots=True)
class HomeChange:
    """A path that differs: `sign` is +, ~ or -; `reason` it runs automatically, empty if it does not."""

    sign: str
    path: str
    reason: str = ""
    before: str | None = None
    after: str | None = None


class AutostartRules:
    """The rules that find the autostart files of a home."""

    def __init__(self, folders: tuple[str, ...], system: frozenset[str]) -> None:
        """`folders`: the directories of PATH in the home, relative to it; `system`: the names of system programs."""
        self._whys = tuple(AUTOSTART_PATTERNS)
        rows = ((pattern, number) for number, why in enumerate(self._whys) for pattern in AUTOSTART_PATTERNS[why])
        self._patterns = PatternIndex(tuple(rows))
        self._folders, self._system = folders, system

    def find_reason(self, path: str, *, is_program: bool) -> str:
        """Return why a path runs automatically, or ""."""
        folder, _, name = path.rpartition("/")
        if folder in self._folders and is_program:
            return f"shadows the system's {name}" if name in self._system else "a program in PATH"
        numbers = self._patterns.matching_path(path.encode("utf-8", "surrogateescape"))
        return self._whys[min(numbers)] if numbers else ""


def is_program(mark: FileMark) -> bool:
    """Return whether a file can be started by its name."""
    return mark.kind == "symlink" or (mark.kind == "file" and bool(mark.mode & 0o111))


def compare_marks(before: dict[str, FileMark], after: dict[str, FileMark], lasting: AutostartRules) -> tuple[HomeChange, ...]:
    """Return the differences of two states of a home: autostart files first, then by path."""
    found = []
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None and _is_same(old, new):
            continue
        sign = "+" if old is None else "-" if new is None else "~"
        mark = new or old
        why = lasting.find_reason(path, is_program=mark is not None and is_program(mark))
        found.append(HomeChange(sign, path, why, old.text if old else None, new.text if new else None))
    return tuple(sorted(found, key=lambda step: (not step.reason, step.path)))


def _is_same(old: FileMark, new: FileMark) -> bool:
    return old.identity == new.identity


OTHER_LOGINS = (  # those of the agents are in their profiles
    ".local/share/amp/secrets.json",
    ".config/github-copilot/apps.json",
    ".config/github-copilot/hosts.json",
    ".config/gh/hosts.yml",
)
# The keys to keep of a file with a login and other settings.
LOGIN_KEYS = {
    ".claude.json": (
        *("oauthAccount", "userID", "primaryApiKey", "hasCompletedOnboarding", "lastOnboardingVersion", "theme"),
        "customApiKeyResponses",
    )
}
