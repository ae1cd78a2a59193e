"""Colour themes. Colour is never the only carrier of a meaning."""

from collections.abc import Mapping

from textual.theme import BUILTIN_THEMES, Theme

from agent_dev.quick_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """Screen settings of config.yaml: the theme's name, and keys by binding id."""

    theme: str = "agent-dev"
    keys: Mapping[str, str] = field(default_factory=dict)


DARK = Theme(
    name="agent-dev",
    primary="#7aa2d6",
    secondary="#8b93a5",
    accent="#8fb8e8",
    warning="#d9a860",
    error="#d8737f",
    success="#8dbf8b",
    foreground="#d3d7de",
    background="#15181d",
    surface="#15181d",
    panel="#1d2128",
    dark=True,
    variables={
        "quiet": "#7f8794",
        "line": "#2e343e",
        "cursor": "#2b3544",
        "idle": "#20252d",
        "added-tint": "#17231c",
        "removed-tint": "#281b1f",
        "string": "#a8b88a",
        "number": "#c9a27c",
        "keyword": "#b294d6",
        "name": "#86b1c9",
    },
)
LIGHT = Theme(
    name="agent-dev-light",
    primary="#2f5f9e",
    secondary="#5b6473",
    accent="#1f5fae",
    warning="#8a5a00",
    error="#a8283a",
    success="#2b6e2f",
    foreground="#22262d",
    background="#fbfbf9",
    surface="#fbfbf9",
    panel="#eceef0",
    dark=False,
    variables={
        "quiet": "#666e7a",
        "line": "#c9ced6",
        "cursor": "#d8e4f4",
        "idle": "#eef1f5",
        "added-tint": "#e6f3e6",
        "removed-tint": "#f8e6e8",
        "string": "#55651f",
        "number": "#87501a",
        "keyword": "#6a3fa0",
        "name": "#1f6485",
    },
)
THEMES = (DARK.name, LIGHT.name, *BUILTIN_THEMES)
