"""Write the man page, the table of shell completion, the page about the agents and the JSON schemas.

python -m tests.harness.reference
"""

from tests.harness.reference import agents_table, json_schemas, man_page, table

man_page.PAGE.write_text(man_page.make_page(), encoding="utf-8")
table.TABLE.write_text(table.make_table(), encoding="utf-8")
agents_table.PAGE.write_text(agents_table.make_page(), encoding="utf-8")
json_schemas.write_all()
