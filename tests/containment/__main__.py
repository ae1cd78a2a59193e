"""`python -m tests.containment`: write docs/containment.md anew."""

from tests.containment.rows import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
