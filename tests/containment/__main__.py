"""Write docs/containment.md: `python -m tests.containment`."""

from tests.containment.rows import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
