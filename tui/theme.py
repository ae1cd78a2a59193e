"""The colours: few, calm, and never the only carrier of a meaning."""

from textual.theme import Theme

THEME = Theme(
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
    },
)
