"""A parsed YAML tree becomes fields with line numbers, and all errors are reported together."""

import pytest

from agent_dev.config import schema
from agent_dev.config.validators import CheckedFile, Mapping, Node, Problem, Scalar, Sequence

WORDS = {"kinds": ("added", "deleted"), "types": ("file",), "content": ("elf",)}


def text(word: str) -> Scalar:
    return Scalar(1, word)


def plain(word: str, means: str) -> Scalar:
    return Scalar(1, word, means)


def listed(*words: str) -> Sequence:
    return Sequence(1, tuple(Scalar(number, word) for number, word in enumerate(words, 2)))


def mapping(**pairs: Node) -> Mapping:
    return Mapping(1, tuple((Scalar(1, name), node) for name, node in pairs.items()))


EMPTY = plain("", "nothing")
GOOD = [
    ("about", text("An agent."), "An agent."),
    ("command", listed("claude", "-p", ""), ("claude", "-p", "")),
    ("command", text("my agent"), ("my agent",)),
    ("programs", listed("npm", "g++"), ("npm", "g++")),
    ("env", listed("A", "_b2"), ("A", "_b2")),
    ("env", EMPTY, ()),
    ("env", Sequence(1, ()), ()),
    ("set", mapping(A=text("1"), B=text("")), (("A", "1"), ("B", ""))),
    ("set", EMPTY, ()),
    ("home", text("~/agents/one"), "~/agents/one"),
    ("home", text("/srv//home/./x/"), "/srv/home/x"),
    ("home", text("~"), "~"),
    ("home", text("/"), "/"),
    ("net", text("none"), "none"),
    ("policy", plain("off", "false"), "off"),
    ("policy", text("off"), "off"),
    ("tools", listed("~/bin/"), ("~/bin",)),
    ("caches", listed("~/.cache/pip"), ("~/.cache/pip",)),
    ("path", listed("/opt/x/bin", "~/bin"), ("/opt/x/bin", "~/bin")),
    ("ro", listed("/data", "~"), ("/data", "~")),
    ("rw", listed("/a b"), ("/a b",)),
    ("overlay", listed("~/src"), ("~/src",)),
    ("install", text("npm install x\n"), "npm install x"),
    ("extends", text("claude"), "claude"),
    *(
        ("agent", mapping(conversations=text(place)), (("conversations", place),))
        for place in (".x/{conversation}.json#cwd", "*/{conversation}.jsonl#info.cwd", ".x/*/y/{conversation}/a.json#cwd")
    ),
    ("merge", plain("false", "false"), False),
    ("merge", plain("true", "true"), True),
]


@pytest.mark.parametrize(("key", "node", "value"), GOOD)
def test_valid_input_becomes_a_field(key: str, node: Node, value: object) -> None:
    checked = schema.check_profile(mapping(**{key: node}))

    assert checked.problems == ()
    assert checked.fields == {key: value}


BAD = [
    ("about", listed("x"), "about: must be text, not a list"),
    ("about", text(""), "about: is empty"),
    ("about", text("a\x1b[0m"), "about: contains a control character"),
    ("command", mapping(a=text("b")), "command: must be a list, not a mapping"),
    ("command", Sequence(1, ()), "command: is empty"),
    ("command", listed("", "x"), "command: begins with an empty argument"),
    ("command", Sequence(1, (plain("20", "a number"),)), 'command: 20 without quotes is a number: write "20"'),
    ("ssh", Mapping(1, ()), "ssh: is empty: set hosts, keys or sign_git, or remove it"),
    ("env", text("A"), "env: must be a list, not text"),
    ("env", listed("A=1"), "env: A=1 is not a variable name: letters, digits and _, not beginning with a digit"),
    ("env", listed("2A"), "env: 2A is not a variable name: letters, digits and _, not beginning with a digit"),
    ("env", listed(""), "env: is empty"),
    ("env", listed("Ä"), "env: Ä is not a variable name: letters, digits and _, not beginning with a digit"),
    ("set", listed("A"), "set: must be a mapping, not a list"),
    ("set", mapping(A=plain("1", "a number")), 'set.A: 1 without quotes is a number: write "1"'),
    ("set", mapping(A=plain("no", "false")), 'set.A: no without quotes is false: write "no"'),
    ("set", mapping(A=EMPTY), "set.A: has no value"),
    ("set", mapping(A=text("a\0b")), "set.A: contains NUL or a character that is not valid in UTF-8"),
    ("set", mapping(A=text("\ud800")), "set.A: contains NUL or a character that is not valid in UTF-8"),
    ("programs", listed("/usr/bin/npm"), "programs: /usr/bin/npm contains a slash: write only the name"),
    ("programs", listed("-x"), "programs: -x begins with a hyphen"),
    ("programs", text("npm"), "programs: must be a list, not text"),
    ("set", mapping(A=listed("x")), "set.A: must be text, not a list"),
    ("home", text("aihome"), "home: aihome is not absolute: begin it with / or ~/"),
    ("home", text("~me/x"), "home: ~me/x is not absolute: begin it with / or ~/"),
    ("home", text("~/../x"), "home: ~/../x contains ..: write the path that it resolves to"),
    ("home", EMPTY, "home: has no value"),
    ("net", text("hots"), "net: hots is not one of host, none, allow, ask, learn (did you mean host?)"),
    ("net", text("xyz"), "net: xyz is not one of host, none, allow, ask, learn"),
    ("policy", plain("no", "false"), 'policy: no without quotes is false: write "no"'),
    ("net", plain("no", "false"), 'net: no without quotes is false: write "no"'),
    ("tools", listed("/opt/x"), "tools: /opt/x is not below the home: begin it with ~/"),
    ("caches", listed("~"), "caches: ~ is not below the home: begin it with ~/"),
    ("path", listed("~/a:b"), "path: ~/a:b contains a colon, which PATH does not allow"),
    ("ro", listed("x\ny"), "ro: contains a control character"),
    ("merge", text("true"), "merge: must be true or false, without quotes, not true"),
    ("merge", plain("no", "false"), "merge: must be true or false, without quotes, not no"),
    ("merge", EMPTY, "merge: must be true or false, without quotes"),
    ("tool", text("x"), "tool: unknown key (did you mean tools?)"),
    ("qqq", text("x"), "qqq: unknown key"),
    *(
        ("agent", mapping(conversations=text(word)), f"agent.conversations: {word} {problem}")
        for word, problem in (
            *(
                (form, "must be PATH#KEY, with {conversation} in PATH, and at most one directory * before it")
                for form in (
                    ".x/{conversation}.json",
                    ".x/one.json#{conversation}",
                    "*/*/{conversation}.json#cwd",
                    ".x/a*/{conversation}.json#cwd",
                    ".x/*{conversation}.json#cwd",
                    ".x/{conversation}/*.json#cwd",
                    ".x/{conversation}/*/a.json#cwd",
                )
            ),
            ("/x/{conversation}.json#cwd", "is not relative to the home, or contains .."),
        )
    ),
    ("state", text("/x"), "state: belongs in config.yaml, not in a profile"),
]


@pytest.mark.parametrize(("key", "node", "problem"), BAD)
def test_invalid_input_is_reported_and_becomes_no_field(key: str, node: Node, problem: str) -> None:
    checked = schema.check_profile(mapping(**{key: node}))

    assert [one.text for one in checked.problems] == [problem]
    assert not checked.fields.get(key)


def test_all_errors_are_reported_together() -> None:
    document = Mapping(1, ((Scalar(1, "nett"), text("x")), (Scalar(2, "env"), text("x")), (Scalar(3, "merge"), text("x"))))

    assert len(schema.check_profile(document).problems) == 3


def test_a_repeated_key_is_a_problem_in_its_second_line() -> None:
    document = Mapping(1, ((Scalar(1, "home"), text("/a")), (Scalar(4, "home"), text("/b"))))
    checked = schema.check_profile(document)

    assert checked.problems == (Problem(4, "home: given twice, first on line 1"),)
    assert checked.fields == {"home": "/a"}


def test_a_repeated_variable_is_a_problem() -> None:
    document = mapping(set=Mapping(2, ((Scalar(2, "A"), text("1")), (Scalar(3, "A"), text("2")))))

    assert schema.check_profile(document).problems == (Problem(3, "set.A: given twice, first on line 2"),)


def test_each_field_and_each_item_knows_its_line() -> None:
    document = Mapping(1, ((Scalar(1, "ro"), listed("/a", "/b")), (Scalar(5, "set"), Mapping(6, ((Scalar(6, "A"), text("1")),)))))

    assert schema.check_profile(document).lines == {"ro": 1, "ro:/a": 2, "ro:/b": 3, "set": 5, "set:A": 6}


@pytest.mark.parametrize("document", [text("x"), listed("x")])
def test_a_file_must_be_a_mapping(document: Node) -> None:
    assert [one.text.split(",")[0] for one in schema.check_profile(document).problems] == ["the file: must be a mapping"]


def test_an_empty_file_gives_no_fields_or_problems() -> None:
    assert schema.check_profile(None) == schema.check_config(None) == CheckedFile({}, {}, ())


@pytest.mark.parametrize("key", ["about", "command", "extends", "install"])
def test_a_profile_key_is_refused_in_the_configuration(key: str) -> None:
    checked = schema.check_config(mapping(**{key: text("x")}))

    assert [one.text for one in checked.problems] == [f"{key}: belongs in a profile, not in config.yaml"]


def test_config_may_set_the_state_directory() -> None:
    assert schema.check_config(mapping(state=text("/srv/state"))).fields == {"state": "/srv/state"}


@pytest.mark.parametrize(
    ("node", "alerts"),
    [
        (text("bell"), ("bell",)),
        (text("desktop"), ("desktop",)),
        (plain("off", "false"), ()),
        (text("off"), ()),
        (listed("desktop", "bell"), ("desktop", "bell")),
        (Sequence(1, ()), ()),
    ],
)
def test_alerts_are_a_word_or_a_list(node: Node, alerts: tuple[str, ...]) -> None:
    checked = schema.check_config(mapping(notify=node))

    assert (checked.fields, checked.problems) == ({"notify": alerts}, ())


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (text("bel"), "notify: bel is not one of bell, desktop, terminal, off (did you mean bell?)"),
        (listed("bell", "off"), "notify: off is not one of bell, desktop, terminal"),
        (mapping(bell=text("x")), "notify: must be text, not a mapping"),
    ],
)
def test_other_alerts_are_refused(node: Node, problem: str) -> None:
    checked = schema.check_config(mapping(notify=node))

    assert [one.text for one in checked.problems] == [problem]
    assert checked.fields.get("notify") in (None, ("bell",))


@pytest.mark.parametrize(
    ("field", "word", "value", "problem"),
    [
        ("net", "--net", "hots", "--net: hots is not one of host, none, allow, ask, learn (did you mean host?)"),
        ("home", "AGENT_DEV_HOME", "x", "AGENT_DEV_HOME: x is not absolute: begin it with / or ~/"),
        ("env", "--env", "A B", "--env: A B is not a variable name: letters, digits and _, not beginning with a digit"),
        ("set", "--env", "1", "--env: 1 is not a variable name: letters, digits and _, not beginning with a digit"),
    ],
)
def test_values_from_other_sources_are_validated_alike(field: str, word: str, value: str, problem: str) -> None:
    assert schema.check_values(field, word, [value]) == (problem,)


def test_a_rule_is_parsed_with_its_allowed_keys() -> None:
    rule = mapping(why=text("Runs."), paths=listed("*.so"), kinds=listed("added"), executable=plain("true", "true"))
    checked = schema.check_risk_rules(mapping(lib=rule), WORDS)

    assert checked.problems == ()
    assert checked.fields == {"lib": {"why": "Runs.", "paths": ("*.so",), "kinds": ("added",), "executable": True}}


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (mapping(paths=listed("x")), "lib: has no `why`"),
        (mapping(why=text("x")), "lib: has no condition, so it would match everything"),
        (mapping(why=text("x"), paths=listed("x"), kinds=listed("add")), "lib.kinds: add is not one of added, deleted"),
        (mapping(why=text("x"), path=listed("x"), types=listed("file")), "lib.path: unknown key (did you mean paths?)"),
        (listed("x"), "lib: must be a mapping, not a list"),
    ],
)
def test_an_invalid_rule_is_reported(rule: Node, problem: str) -> None:
    texts = [one.text for one in schema.check_risk_rules(mapping(lib=rule), WORDS).problems]

    assert [one.removesuffix(" (did you mean added?)") for one in texts] == [problem]
