"""Play keys on an application of one screen."""

import asyncio

from tui.screens.single_screen import SingleScreenApp


def play_keys(app: SingleScreenApp, *keys: str, size: tuple[int, int], resized: tuple[int, int] | None = None) -> str:
    """Press keys; return the text of the screen before it ends. `resized`: the size after the keys."""
    texts = []

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            while app.is_before_first_paint:
                await pilot.pause()
            for key in keys:
                texts.append(screen_text(app))
                await pilot.press(key)
                await pilot.pause()
            if resized:
                await pilot.resize_terminal(*resized)
                await pilot.pause()
            if app.is_running and app.screen_stack:
                texts.append(screen_text(app))

    asyncio.run(run())
    return texts[-1]


def screen_text(app: SingleScreenApp) -> str:
    """Return the text of the current screen."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips()) + "\n"
