"""The settings that point each agent to a scripted model: variables, files of the agent home, and arguments."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MODEL, KEY = "scripted", "dummy"
MADE = "made by the agent\n"
COMMAND = f"printf '{MADE[:-1]}\\n' >made.txt"
EDIT_BLOCK = f"made.txt\n```\n<<<<<<< SEARCH\n=======\n{MADE}>>>>>>> REPLACE\n```\n"  # of an agent without tools


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of an agent that uses the model; the prompt is given by `agent-dev --prompt`."""

    arguments: tuple[str, ...] = ()  # after the agent's name
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # of the agent home
    text: str = "A title"  # the answer to a request without tools

    def options(self) -> list[str]:
        """Return the variables as options of agent-dev."""
        return [word for name, value in self.environ.items() for word in ("--env", f"{name}={value}")]

    def write_files(self, home: Path) -> None:
        """Write the files into an agent home."""
        for path, text in self.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)


def _aider(url: str) -> Setup:
    environ = {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    model = ("--model", f"openai/{MODEL}", "--edit-format", "diff", "--no-stream", "--no-show-model-warnings")
    return Setup(model, environ, text=EDIT_BLOCK)


def _claude(url: str) -> Setup:
    environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return Setup(environ=environ)


def _cline(url: str) -> Setup:
    provider = {"provider": "openai-compatible", "apiKey": KEY, "model": MODEL, "baseUrl": f"{url}/v1"}
    saved = {"settings": provider, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    document = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {"openai-compatible": saved}}
    return Setup(
        ("--provider", "openai-compatible", "--model", MODEL), files={".cline/data/settings/providers.json": json.dumps(document)}
    )


def _codex(url: str) -> Setup:
    provider = f'{{name="{MODEL}",base_url="{url}/v1",wire_api="responses",env_key="MODEL_KEY"}}'
    settings = {"model_provider": MODEL, f"model_providers.{MODEL}": provider, "web_search": "disabled"}
    overrides = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    # Codex makes links to itself in its home, but not below the directory for temporary files, where a test's home is.
    return Setup((*overrides, "-m", MODEL), {"MODEL_KEY": KEY, "TMPDIR": "/var/tmp"})


def _continue(url: str) -> Setup:
    model = {"name": MODEL, "provider": "openai", "model": MODEL, "apiBase": f"{url}/v1", "apiKey": KEY}
    model |= {"roles": ["chat"], "capabilities": ["tool_use"]}  # type: ignore[dict-item]
    settings = {"name": MODEL, "version": "1.0.0", "schema": "v1", "models": [model]}  # JSON is YAML, too
    return Setup(files={".continue/config.yaml": json.dumps(settings), ".continue/.onboarding_complete": ""})


def _copilot(url: str) -> Setup:
    environ = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_API_KEY": KEY, "COPILOT_MODEL": MODEL}
    return Setup(environ=environ)


def _droid(url: str) -> Setup:
    model = {"model": MODEL, "id": f"custom:{MODEL}", "baseUrl": f"{url}/v1", "apiKey": KEY, "displayName": MODEL}
    model |= {"provider": "generic-chat-completion-api", "maxOutputTokens": 4000}  # type: ignore[dict-item]
    settings = {"customModels": [model], "sessionDefaultSettings": {"model": f"custom:{MODEL}"}}
    return Setup((), {"FACTORY_API_KEY": "fk-dummy"}, {".factory/settings.json": json.dumps(settings)})


def _gemini(url: str) -> Setup:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False}}
    environ = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY}
    return Setup((), environ, {".gemini/settings.json": json.dumps(settings)})


def _grok(url: str) -> Setup:
    model = f'[model.{MODEL}]\nbase_url = "{url}/v1"\nenv_key = "XAI_API_KEY"\ncontext_window = 100000\n'
    settings = f'{model}[models]\ndefault = "{MODEL}"\n'
    return Setup((), {"XAI_API_KEY": KEY}, {".grok/config.toml": settings})


def _opencode_like(prefix: str, url: str) -> Setup:
    provider = {"npm": "@ai-sdk/openai-compatible", "name": MODEL, "models": {MODEL: {"name": MODEL}}}
    provider |= {"options": {"baseURL": f"{url}/v1", "apiKey": KEY}}
    settings = {"model": f"{MODEL}/{MODEL}", "provider": {MODEL: provider}}
    environ = {f"{prefix}_CONFIG_CONTENT": json.dumps(settings), f"{prefix}_DISABLE_MODELS_FETCH": "1"}
    return Setup(environ=environ)


def _kilo(url: str) -> Setup:
    return _opencode_like("KILO", url)


def _opencode(url: str) -> Setup:
    return _opencode_like("OPENCODE", url)


def _kimi(url: str) -> Setup:
    environ = {"NAME": MODEL, "PROVIDER_TYPE": "openai", "API_KEY": KEY, "BASE_URL": f"{url}/v1", "MAX_CONTEXT_SIZE": "100000"}
    return Setup((), {f"KIMI_MODEL_{name}": value for name, value in environ.items()})


def _openhands(url: str) -> Setup:
    environ = {"LLM_BASE_URL": f"{url}/v1", "LLM_API_KEY": KEY, "LLM_MODEL": f"openai/{MODEL}"}
    return Setup(("--override-with-envs",), environ)


def _pi(url: str) -> Setup:
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [{"id": MODEL}]}
    files = {".pi/agent/models.json": json.dumps({"providers": {MODEL: provider}})}
    return Setup(("--provider", MODEL, "--model", MODEL), files=files)


def _qwen(url: str) -> Setup:
    environ = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": MODEL}
    return Setup(("--auth-type", "openai"), environ)


def _vibe(url: str) -> Setup:
    provider = f'[[providers]]\nname = "{MODEL}"\napi_base = "{url}/v1"\napi_key_env_var = "MISTRAL_API_KEY"\n'
    model = f'[[models]]\nname = "{MODEL}"\nprovider = "{MODEL}"\nalias = "{MODEL}"\n'
    settings = f'active_model = "{MODEL}"\n{provider}api_style = "openai"\nbackend = "generic"\n{model}'
    return Setup((), {"MISTRAL_API_KEY": KEY}, {".vibe/config.toml": settings})


# The versions that are tested. The newest may be incomplete in a registry: a program for Linux or a dependency may be missing.
VERSIONS: Mapping[str, str] = {
    "aider": "0.86.2",
    "claude": "2.1.330",
    "cline": "3.0.65",
    "codex": "0.169.0",
    "continue": "1.5.47",
    "copilot": "1.0.102",
    "droid": "0.215.0",  # the newest whose programs for Linux were published
    "gemini": "0.61.0",
    "grok": "1.0.41",
    "kilo": "7.7.7",
    "kimi": "2.1.0",
    "opencode": "1.18.33",
    "openhands": "1.16.0",
    "pi": "1.3.0",
    "qwen": "0.24.4",
    "vibe": "3.0.2",
}

SETUPS: Mapping[str, Callable[[str], Setup]] = {
    "aider": _aider,
    "claude": _claude,
    "cline": _cline,
    "codex": _codex,
    "continue": _continue,
    "copilot": _copilot,
    "droid": _droid,
    "gemini": _gemini,
    "grok": _grok,
    "kilo": _kilo,
    "kimi": _kimi,
    "opencode": _opencode,
    "openhands": _openhands,
    "pi": _pi,
    "qwen": _qwen,
    "vibe": _vibe,
}
