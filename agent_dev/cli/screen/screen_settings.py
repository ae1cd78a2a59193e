"""The screen's settings of config.yaml. Only the screen knows their names, so that no schema checks them."""

from agent_dev.config import validators
from agent_dev.config.profile import Profile
from agent_dev.errors import InvalidConfiguration
from agent_dev.sanitize import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_dev.session.sessions import CommandContext
    from tui.theme import ScreenSettings


def screen_problems(context: "CommandContext") -> tuple[str, ...]:
    """Return the problems of settings that the screen would refuse, with file and line."""
    profile = context.profile
    if profile.theme == Profile.theme and not profile.keys:  # Textual need not be imported
        return ()
    origins = context.origins
    problems = (
        *_key_problems(profile.keys, origins),
        *_bindings_without_keys(profile.keys, origins),
        *_theme_problems(profile.theme, origins),
    )
    return tuple(map(visible, problems))


def load_screen_settings(context: "CommandContext") -> "ScreenSettings":
    """Return the user's keys and colours. Raises InvalidConfiguration."""
    from tui.theme import ScreenSettings

    problems = screen_problems(context)
    if problems:
        raise InvalidConfiguration(message="\n".join(problems))
    return ScreenSettings(context.profile.theme, dict(context.profile.keys))


def _key_problems(keys: tuple[tuple[str, str], ...], origins: dict[str, str]) -> "Iterator[str]":
    from tui.keys.bindings import REVIEW_BINDINGS
    from tui.keys.key_names import is_key

    for name, text in keys:
        where = f"{origins.get(f'keys:{name}', 'config.yaml')}: keys.{name}"
        if name not in REVIEW_BINDINGS:
            yield f"{where}: unknown id{validators.did_you_mean(name, REVIEW_BINDINGS)}"
            continue
        unknown = [key.strip() for key in text.split(",") if not is_key(key.strip())]
        if unknown:
            yield f"{where}: `{unknown[0]}` is not a key like m, ctrl+s, shift+up, f2 or question_mark"


def _bindings_without_keys(keys: tuple[tuple[str, str], ...], origins: dict[str, str]) -> "Iterator[str]":
    from tui.keys.bindings import REVIEW_BINDINGS
    from tui.keys.key_names import split_keys

    takers = {key: name for name, text in reversed(keys) for key in split_keys(text)}
    own = {name: usual for name, (usual, _, _) in REVIEW_BINDINGS.items()} | dict(keys)
    for name, text in own.items():
        others = [takers[key] for key in split_keys(text) if takers.get(key, name) != name]
        if len(others) == len(split_keys(text)):
            where = f"{origins.get(f'keys:{others[0]}', 'config.yaml')}: keys.{others[0]}"
            yield f"{where}: {name} would have no key left: give it another one"


def _theme_problems(theme: str, origins: dict[str, str]) -> "Iterator[str]":
    from tui.theme import THEMES

    if theme not in THEMES:
        where = f"{origins.get('theme', 'config.yaml')}: theme"
        meant = validators.did_you_mean(theme, THEMES)
        yield f"{where}: {theme} is not agent-dev, agent-dev-light or a theme of Textual{meant}"
