"""What an agent home keeps from one session to the next: which files of it run by themselves, and what changed in it."""

from dataclasses import dataclass

from agent_dev.path_patterns import Patterns

# Why a file matters → patterns, from the home's top. They are read or run without anybody naming them.
LASTING: dict[str, tuple[str, ...]] = {
    "a shell reads it at its start": (
        *("/.bashrc", "/.bash_profile", "/.bash_login", "/.bash_logout", "/.bash_aliases", "/.profile", "/.inputrc", "/.zshrc"),
        *("/.zshenv", "/.zprofile", "/.zlogin", "/.kshrc", "/.cshrc", "/.tcshrc", "/.login", "/.config/fish/", "/.envrc"),
        *("/.oh-my-zsh/", "/.bashrc.d/", "/.config/direnv/", "/.config/environment.d/", "/.xprofile", "/.pam_environment"),
    ),
    "git takes settings, hooks and filters from it": ("/.gitconfig", "/.config/git/", "/.git-templates/", "/.githooks/"),
    "an agent takes hooks, servers or instructions from it": (
        *("/.claude.json", "/.claude/settings*.json", "/.claude/hooks/", "/.claude/agents/", "/.claude/commands/"),
        *("/.claude/skills/", "/.claude/plugins/", "/.claude/CLAUDE.md", "/.codex/config.toml", "/.codex/AGENTS.md"),
        *("/.codex/prompts/", "/.codex/hooks/", "/.gemini/settings.json", "/.gemini/GEMINI.md", "/.gemini/commands/"),
        *("/.gemini/extensions/", "/.config/opencode/", "/.opencode/", "/.qwen/", "/.aider.conf.yml", "/.cursor/", "/.mcp.json"),
        *("/.config/goose/", "/.config/crush/", "/.continue/", "/.agents/", "/.config/amp/", "/.factory/", "/AGENTS.md"),
    ),
    "an editor reads or runs it": (
        *("/.vimrc", "/.gvimrc", "/.vim/", "/.exrc", "/.config/nvim/", "/.emacs", "/.emacs.d/", "/.config/emacs/", "/.nanorc"),
        *("/.config/helix/", "/.vscode-server/", "/.config/Code/User/", "/.ideavimrc"),
    ),
    "a package manager or build tool takes settings from it": (
        *("/.npmrc", "/.yarnrc", "/.yarnrc.yml", "/.bunfig.toml", "/.config/pip/", "/.pip/", "/.pypirc", "/.config/uv/"),
        *("/.cargo/config", "/.cargo/config.toml", "/.cargo/env", "/.m2/settings.xml", "/.gradle/init.d/", "/.gradle/*.gradle"),
        *("/.gradle/gradle.properties", "/.gemrc", "/.bundle/config", "/.condarc", "/.config/go/env", "/.config/pnpm/rc"),
        *("/.config/composer/", "/.sbt/", "/.mix/", "/.rustup/settings.toml", "/.tool-versions", "/.config/mise/", "/.makerc"),
    ),
    "a program or debugger reads it at its start": (
        *("/.pythonrc", "/.pdbrc", "/.pdbrc.py", "/.ipython/profile_default/startup/", "/.gdbinit", "/.lldbinit", "/.irbrc"),
        *("/.pryrc", "/.Rprofile", "/.psqlrc", "/.sqliterc", "/.my.cnf", "/.tmux.conf", "/.screenrc", "/.curlrc", "/.wgetrc"),
        *("/.ripgreprc", "/.lesskey", "/.lessfilter", "/.mailcap", "/.ssh/config", "/.ssh/rc", "/.node_repl_history", "*.pth"),
        *("sitecustomize.py", "usercustomize.py", "/.docker/config.json", "/.docker/cli-plugins/", "/.kube/config"),
    ),
    "a desktop or service manager starts it": (
        *("/.config/autostart/", "/.config/systemd/", "/.local/share/systemd/", "/.local/share/applications/", "/.forward"),
        *("/.local/share/dbus-1/services/", "/.xinitrc", "/.xsession", "/.Xresources"),
    ),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """One file, link or pipe of a home: enough to see that it changed, and the text of one that runs by itself."""

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
        """What differs when anything was done to it; nobody can set ctime."""
        return (self.kind, self.mode, self.size, self.inode, self.mtime, self.ctime, self.target)


@dataclass(frozen=True, slots=True)
class Step:
    """One path that differs: `sign` is +, ~ or -; `why` it runs by itself, empty for one that does not."""

    sign: str
    path: str
    why: str = ""
    before: str | None = None
    after: str | None = None


class Lasting:
    """Tells why a path of a home runs by itself, when it does."""

    def __init__(self, folders: tuple[str, ...], system: frozenset[str]) -> None:
        """Take the directories of PATH inside that lie in the home, relative, and the names of the system's programs."""
        self._whys = tuple(LASTING)
        rows = ((pattern, number) for number, why in enumerate(self._whys) for pattern in LASTING[why])
        self._patterns = Patterns(tuple(rows))
        self._folders, self._system = folders, system

    def why(self, path: str, *, is_program: bool) -> str:
        """Return why, or nothing."""
        folder, _, name = path.rpartition("/")
        if folder in self._folders and is_program:
            return f"hides the system's {name}" if name in self._system else "a program that PATH finds"
        numbers = self._patterns.matching(path.encode("utf-8", "surrogateescape"))
        return self._whys[min(numbers)] if numbers else ""


def is_program(mark: Mark) -> bool:
    """Whether a file could be started by its name."""
    return mark.kind == "symlink" or (mark.kind == "file" and bool(mark.mode & 0o111))


def steps(before: dict[str, Mark], after: dict[str, Mark], lasting: Lasting) -> tuple[Step, ...]:
    """Return what differs between two states of a home: what runs by itself first, then by path."""
    found = []
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None and _is_same(old, new):
            continue
        sign = "+" if old is None else "-" if new is None else "~"
        there = new or old
        why = lasting.why(path, is_program=there is not None and is_program(there))
        found.append(Step(sign, path, why, old.text if old else None, new.text if new else None))
    return tuple(sorted(found, key=lambda step: (not step.why, step.path)))


def _is_same(old: Mark, new: Mark) -> bool:
    return old.identity == new.identity


LOGINS = (
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".gemini/google_accounts.json",
    ".qwen/oauth_creds.json",
    ".local/share/opencode/auth.json",
    ".local/share/amp/secrets.json",
    ".config/github-copilot/apps.json",
    ".config/github-copilot/hosts.json",
    ".config/gh/hosts.yml",
)
# Of a file that holds a login and much else, what is taken along.
LOGIN_KEYS = {
    ".claude.json": (
        *("oauthAccount", "userID", "primaryApiKey", "hasCompletedOnboarding", "lastOnboardingVersion", "theme"),
        "customApiKeyResponses",
    )
}
