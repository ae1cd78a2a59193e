"""The published JSON schemas."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from tests.harness.json_documents import check_document
from tests.harness.reference import json_schemas

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "json.md"


@pytest.mark.parametrize("name", json_schemas.SCHEMAS)
def test_a_schema_file_is_valid_and_as_declared(name: str) -> None:
    text = (json_schemas.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert text == json_schemas.make_schema(name), "run python -m tests.harness.reference"


def test_no_schema_file_is_left_over() -> None:
    assert {path.name for path in json_schemas.FOLDER.iterdir()} == {f"{name}.schema.json" for name in json_schemas.SCHEMAS}


def test_every_example_of_the_page_follows_its_schema() -> None:
    section = ""
    count = 0
    for title, example in re.findall(
        r"^## ([^\n]*)$|^```json\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        section = title.partition(",")[0] or section
        if example:
            check_document([*section.split(), "--json"], example)
            count += 1
    assert count > 5


def test_an_undeclared_key_is_found() -> None:
    document = {"version": 1, "merges": [], "surprise": 1}
    with pytest.raises(AssertionError, match="surprise"):
        check_document(["merges", "--json"], json.dumps(document))


def test_the_options_of_a_command_select_its_schema() -> None:
    names = [json_schemas.schema_name(words) for words in (["log", "--json"], ["log", "--network"], ["-q", "merge"], ["run"])]
    assert names == ["log", "log-network", "merge", ""]
