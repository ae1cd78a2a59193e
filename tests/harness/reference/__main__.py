"""Write the man page and the table of shell completion: `python -m tests.harness.reference`."""

from tests.harness.reference import man_page, table

man_page.PAGE.write_text(man_page.make_page(), encoding="utf-8")
table.TABLE.write_text(table.make_table(), encoding="utf-8")
