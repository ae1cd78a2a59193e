"""The screen's settings of config.yaml. Only the screen knows their names, so that no schema checks them."""

from agent_dev.config import validators
from agent_dev.config.profile import Profile
from agent_dev.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tui.theme import ScreenSettings


def check_screen_settings(profile: Profile) -> None:
    """Raise UsageError for settings of the screen that it would refuse."""
    if profile.theme != Profile.theme or profile.keys:  # else Textual need not be imported
        load_screen_settings(profile)


def load_screen_settings(profile: Profile) -> "ScreenSettings":
    """Return the user's keys and colours. Raises UsageError for an unknown action, key or theme."""
    from tui.theme import THEMES, ScreenSettings

    _check_keys(profile.keys)
    if profile.theme not in THEMES:
        message = f"config.yaml: theme: unknown theme {profile.theme}{validators.did_you_mean(profile.theme, THEMES)}"
        raise UsageError(message=message, hint=f"themes: {', '.join(THEMES)}")
    return ScreenSettings(profile.theme, dict(profile.keys))


def _check_keys(keys: tuple[tuple[str, str], ...]) -> None:
    from tui.keys.bindings import REVIEW_BINDINGS
    from tui.keys.key_names import is_key

    for name, text in keys:
        if name not in REVIEW_BINDINGS:
            message = f"config.yaml: keys: unknown action {name}{validators.did_you_mean(name, REVIEW_BINDINGS)}"
            raise UsageError(message=message, hint=f"actions: {', '.join(REVIEW_BINDINGS)}")
        unknown = [key.strip() for key in text.split(",") if not is_key(key.strip())]
        if unknown:
            hint = "keys are named like m, ctrl+s, shift+up, f2, question_mark"
            raise UsageError(message=f"config.yaml: keys: {name}: unknown key `{unknown[0]}`", hint=hint)
