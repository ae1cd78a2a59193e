"""The JSON Schema of each `--json` document: `docs/json/NAME.schema.json` is written from the declarations here.

The published schemas permit further keys, because keys may be added within a version. The tests validate against a strict form
without further keys, so that no key stays undeclared.
"""

import json
from pathlib import Path

from tests.harness.reference.schema_types import (
    ANY,
    BOOLEAN,
    COUNT,
    INTEGER,
    STRING,
    Schema,
    document,
    entries,
    list_of,
    mapping,
    nullable,
    one_of,
)

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "json"

PATHS = list_of(STRING)
REASONS = list_of(mapping(path=STRING, reason=STRING))
RISKS = list_of(mapping(rule=STRING, reason=STRING))
SUBJECTS = list_of(mapping(id=STRING, subject=STRING))
KIND = one_of("added", "copied", "edited", "deleted", "renamed", "retyped", "metadata")
TYPE = one_of("file", "dir", "symlink", "fifo", "socket", "device")
DECISION = one_of("allow", "deny", "checkpoint", "transact", "ask")
STATE = one_of("running", "waiting", "killed", "merged", "discarded", "damaged")
SUBMODULE = mapping(commit=STRING, path=STRING, before=nullable(STRING), after=nullable(STRING), log=nullable(SUBJECTS))
REFS = list_of(mapping(name=STRING, before=nullable(STRING), after=nullable(STRING)))
PUBLISHED = list_of(mapping(inside=COUNT, address=STRING, outside=COUNT, url=STRING))
MERGE_RESULT = document(
    session=STRING,
    merge=nullable(STRING),
    dry_run=BOOLEAN,
    applied=PATHS,
    skipped=REASONS,
    conflicts=REASONS,
    problems=PATHS,
    split_links=PATHS,
)
UNDO_RESULT = document(
    merge=STRING,
    session=STRING,
    time=INTEGER,
    refs=REFS,
    declined=list_of(STRING),
    paths=PATHS,
    skipped=REASONS,
    mergeable=PATHS,
    kept=PATHS,
)
CHECKPOINT = {
    "checkpoint": COUNT,
    "time": INTEGER,
    "cause": STRING,
    "message": nullable(STRING),
    "changed": COUNT,
    "files": COUNT,
    "bytes": COUNT,
    "copied": COUNT,
    "problems": PATHS,
}
STEPS = list_of(mapping(command=list_of(STRING), exit=nullable(INTEGER), milliseconds=COUNT))
TRANSACTION = {
    "state": one_of("merged", "failed", "not started"),
    "exit": INTEGER,
    "cause?": nullable(STRING),
    "reason?": nullable(STRING),
    "session?": nullable(STRING),
    "merge?": nullable(STRING),
    "applied?": PATHS,
    "skipped?": REASONS,
    "unchanged?": PATHS,
    "commits?": COUNT,
    "steps?": STEPS,
}
_REMOTE = {"state": one_of("merged", "failed", "waiting"), "line": STRING, "host": nullable(STRING), "starts": COUNT}
_ATTEMPT = {"state": one_of("passed", "merged", "failed"), "attempt": COUNT, "score": nullable({"type": "number"})}
_ATTEMPT |= dict.fromkeys(("name", "host"), nullable(STRING))
_ATTEMPT |= dict.fromkeys(("files", "insertions", "deletions", "risks"), nullable(COUNT))
ORIGIN = nullable(mapping(host=STRING, signer=nullable(STRING), signed=BOOLEAN, left_out=list_of(STRING)))
KEPT_ATTEMPT = nullable(mapping(run=STRING, number=COUNT, count=COUNT, lowest=BOOLEAN, score=nullable({"type": "number"})))
PERSON = mapping(name=STRING, email=STRING, time=INTEGER, zone=STRING)
COMMIT_REPORT = {
    "commits": list_of(
        mapping(
            id=STRING,
            subject=STRING,
            message=STRING,
            parents=list_of(STRING),
            author=PERSON,
            committer=PERSON,
            signature=nullable(one_of("ssh", "openpgp", "x509", "unknown")),
            files=list_of(entries({"path": STRING, "kind": KIND, "from": nullable(STRING), "risks": list_of(STRING)})),
            includes_uncommitted=PATHS,
            on_remote=BOOLEAN,
            imported=BOOLEAN,
            declined=BOOLEAN,
        )
    ),
    "truncated": BOOLEAN,
    "fetched": COUNT,
    "refs": list_of(
        mapping(name=STRING, change=one_of("new", "moved", "deleted"), before=nullable(STRING), after=nullable(STRING))
    ),
    "stashes": SUBJECTS,
    "in_progress": list_of(STRING),
    "submodules": list_of(SUBMODULE),
    "unlisted": list_of(
        mapping(
            submodule=nullable(STRING), commits=COUNT, unreferenced=COUNT, stashes=COUNT, refs=COUNT, problem=nullable(STRING)
        )
    ),
    "start": nullable(STRING),
    "head": nullable(STRING),
    "uncommitted": nullable(PATHS),
}
EDITS = list_of(mapping(action=one_of("rewritten", "dropped"), where=STRING, text=STRING))
RESTORED = document(session=STRING, to=nullable(COUNT), before=COUNT, paths=PATHS, problems=PATHS)
ENTRIES = list_of(mapping(name=STRING, bytes=COUNT))


def _log(kind: str, row: Schema) -> Schema:
    return document(session=STRING, **{kind: list_of(row)}, left_out=COUNT, problem=nullable(STRING))


SCHEMAS: dict[str, Schema] = {
    "status": document(
        session=STRING,
        root=STRING,
        state=STATE,
        running=BOOLEAN,
        exit=nullable(INTEGER),
        changes=list_of(
            entries(
                {
                    "path": STRING,
                    "kind": KIND,
                    "from": nullable(STRING),
                    "type": TYPE,
                    "ignored": BOOLEAN,
                    "binary": BOOLEAN,
                    "insertions": nullable(COUNT),
                    "deletions": nullable(COUNT),
                    "risks": RISKS,
                    "conflict": nullable(STRING),
                    "three_way": BOOLEAN,
                }
            )
        ),
        notes=list_of(STRING),
        commits=list_of(
            mapping(
                id=STRING,
                subject=STRING,
                repository=nullable(STRING),
                imported=BOOLEAN,
                declined=BOOLEAN,
                risks=list_of(
                    entries(
                        {
                            "rule": STRING,
                            "reason": STRING,
                            "commit?": STRING,
                            "path?": STRING,
                            "before?": nullable(STRING),
                            "after?": nullable(STRING),
                            "log?": nullable(SUBJECTS),
                        }
                    )
                ),
            )
        ),
        published=PUBLISHED,
        net=nullable(mapping(mode=STRING, allow=list_of(STRING), deny=list_of(STRING))),
        approvals=COUNT,
        imported=ORIGIN,
        attempt=KEPT_ATTEMPT,
        direct=BOOLEAN,
    ),
    "merge": MERGE_RESULT,
    "restore": MERGE_RESULT,
    "merge-commits": document(
        session=STRING,
        merge=nullable(STRING),
        dry_run=BOOLEAN,
        ref=nullable(STRING),
        before=nullable(STRING),
        after=nullable(STRING),
        commits=SUBJECTS,
        repositories=list_of(
            mapping(
                root=STRING,
                ref=nullable(STRING),
                before=nullable(STRING),
                after=nullable(STRING),
                commits=list_of(STRING),
                reason=nullable(STRING),
                hint=nullable(STRING),
            )
        ),
        applied=PATHS,
        three_way=PATHS,
        conflicts=REASONS,
        risky=list_of(mapping(commit=nullable(STRING), path=STRING, risks=list_of(STRING))),
        reason=nullable(STRING),
        hint=nullable(STRING),
        lfs=COUNT,
        rejected_lfs=list_of(STRING),
        skipped=REASONS,
        split_links=PATHS,
        submodules=list_of(mapping(path=STRING, commit=STRING, ref=nullable(STRING), reason=nullable(STRING))),
    ),
    "commits-decline": document(
        session=STRING,
        merge=STRING,
        session_empty=BOOLEAN,
        repositories=list_of(mapping(root=STRING, commits=list_of(STRING))),
    ),
    "restore-list": document(
        snapshots=list_of(
            mapping(
                snapshot=STRING,
                root=STRING,
                command=list_of(STRING),
                provider=one_of("btrfs", "snapper", "reflink", "copy"),
                path=STRING,
                id=STRING,
                post=nullable(STRING),
                disabled=list_of(mapping(path=STRING, name=STRING)),
                started=INTEGER,
                ended=nullable(INTEGER),
                backups=list_of(mapping(backup=STRING, path=STRING, time=INTEGER)),
            )
        )
    ),
    "backup": entries(
        {
            "version": {"const": 1},
            "backup": nullable(STRING),
            "error?": STRING,
            "path?": STRING,
            "files?": COUNT,
            "linked?": COUNT,
            "copied?": COUNT,
            "problems?": PATHS,
            "removed?": list_of(STRING),
        }
    ),
    "tx": document(**TRANSACTION),
    "tx-many": document(
        state=one_of("merged", "failed", "not started"),
        exit=INTEGER,
        **{"jobs?": list_of(entries({**TRANSACTION, "line": STRING})), "reason?": nullable(STRING)},
    ),
    "tx-on": document(
        state=one_of("merged", "failed", "waiting"),
        exit=INTEGER,
        jobs=list_of(entries({**TRANSACTION, **_REMOTE})),
        hosts=list_of(mapping(host=STRING, tasks=COUNT)),
    ),
    "tx-best": document(
        state=one_of("proposed", "merged", "failed", "not started"),
        exit=INTEGER,
        reason=STRING,
        **{"score?": STRING, "lowest?": BOOLEAN, "best?": nullable(COUNT)},
        **{"attempts?": list_of(entries({**TRANSACTION, **_ATTEMPT}))},
    ),
    "undo": UNDO_RESULT,
    "redo": UNDO_RESULT,
    "merges": document(
        merges=list_of(
            mapping(
                merge=STRING,
                session=STRING,
                name=STRING,
                roots=PATHS,
                time=INTEGER,
                state=one_of("merged", "undone", "partly undone", "damaged"),
                changes=list_of(entries({"path": STRING, "kind": KIND, "from": nullable(STRING)})),
                refs=REFS,
                declined=list_of(STRING),
                problem=nullable(STRING),
            )
        )
    ),
    "sessions": document(
        sessions=list_of(
            mapping(
                session=STRING,
                name=nullable(STRING),
                state=STATE,
                detached=BOOLEAN,
                root=nullable(STRING),
                command=nullable(list_of(STRING)),
                started=nullable(INTEGER),
                exit=nullable(INTEGER),
                approvals=COUNT,
                imported=ORIGIN,
                attempt=KEPT_ATTEMPT,
                problem=nullable(STRING),
            )
        ),
        shared=list_of(mapping(path=STRING, sessions=list_of(STRING))),
    ),
    "worktrees": document(
        session=STRING,
        worktrees=list_of(mapping(name=STRING, path=STRING, branch=nullable(STRING), commit=nullable(STRING), uncommitted=PATHS)),
    ),
    "checkpoints": document(session=STRING, checkpoints=list_of(entries(CHECKPOINT))),
    "checkpoint": document(session=STRING, **CHECKPOINT),
    "checkpoints-thin": document(session=STRING, dry_run=BOOLEAN, removed=list_of(COUNT)),
    "checkpoints-of": document(
        versions=list_of(
            mapping(checkpoint=COUNT, time=INTEGER, state=STRING, bytes=COUNT, digest=nullable(STRING)),
        )
    ),
    "rollback": RESTORED,
    "deleted": document(
        session=STRING, deleted=list_of(mapping(path=STRING, type=STRING, bytes=COUNT, checkpoint=nullable(COUNT)))
    ),
    "log": _log(
        "events",
        entries(
            {
                "n": COUNT,
                "time": INTEGER,
                "event": STRING,
                **{
                    f"{key}?": ANY
                    for key in ("argv", "profile", "checkpoint", "cause", "changed", "milliseconds", "frozen", "failed")
                },
                **{
                    f"{key}?": ANY
                    for key in ("to", "before", "paths", "problems", "verdict", "reason", "merge", "steps", "policy")
                },
                **{
                    f"{key}?": ANY
                    for key in ("command", "problem", "changes", "exit", "commits", "decision", "text", "image", "limit")
                },
            }
        ),
    ),
    "log-commands": _log(
        "commands",
        entries(
            {
                "n": COUNT,
                "time": INTEGER,
                "pid": COUNT,
                "argv": list_of(STRING),
                "parent?": COUNT,
                "cwd?": STRING,
                "program?": STRING,
                "truncated?": BOOLEAN,
                "decision?": DECISION,
                "rule?": STRING,
                "waited?": COUNT,
                "checkpoint?": COUNT,
                "answer?": one_of("yes", "no", "none"),
                "problem?": ANY,
                "exit?": nullable(INTEGER),
                "duration?": COUNT,
                "rolled_back?": BOOLEAN,
            }
        ),
    ),
    "log-network": _log(
        "connections",
        entries(
            {
                "n": COUNT,
                "time": INTEGER,
                "name": STRING,
                "address": STRING,
                "port": COUNT,
                "decision": one_of("allow", "deny"),
                "milliseconds": COUNT,
                "rule?": STRING,
                "why?": STRING,
                "problem?": STRING,
                "pid?": COUNT,
                "program?": STRING,
                "sent?": COUNT,
                "received?": COUNT,
                "published?": ANY,
                "server?": STRING,
                "learned?": BOOLEAN,
                **dict.fromkeys(("credential?", "method?", "path?"), STRING),
                "status?": COUNT,
                "answer?": one_of("yes", "session", "always", "no", "none", "gone"),
                "waited?": COUNT,
            }
        ),
    ),
    "log-changes": document(session=STRING, changes=list_of(mapping(checkpoint=COUNT, time=INTEGER, paths=PATHS))),
    "commits": document(
        session=STRING,
        running=BOOLEAN,
        **COMMIT_REPORT,
        other_repositories=list_of(mapping(root=STRING, **COMMIT_REPORT)),
    ),
    "policy-check": document(
        set=STRING,
        command=list_of(STRING),
        cwd=STRING,
        decision=DECISION,
        rule=nullable(STRING),
        origin=nullable(STRING),
        message=nullable(STRING),
    ),
    "why": document(subject=STRING, state=STRING, text=STRING, origin=STRING, changes=list_of(STRING)),
    "approve": document(
        session=STRING,
        questions=list_of(
            entries(
                {
                    "number": COUNT,
                    "time": INTEGER,
                    "until": INTEGER,
                    "pid": COUNT,
                    "program": STRING,
                    "rule?": STRING,
                    "decision?": STRING,
                    "kind?": STRING,
                    "name?": STRING,
                    "address?": STRING,
                    "port?": COUNT,
                    "parent?": COUNT,
                    "cwd?": STRING,
                    "argv?": list_of(STRING),
                }
            )
        ),
    ),
    "bundle-show": document(
        name=nullable(STRING),
        command=list_of(STRING),
        host=STRING,
        signer=nullable(STRING),
        signed=BOOLEAN,
        roots=list_of(STRING),
        entries=list_of(mapping(root=COUNT, path=STRING, type=STRING)),
        refs=list_of(mapping(root=COUNT, name=STRING)),
        left_out=list_of(STRING),
        bytes=COUNT,
    ),
    "show": document(rows=list_of(mapping(name=STRING, value=STRING, origin=nullable(STRING))), bwrap=STRING),
    "profiles": document(profiles=list_of(mapping(name=STRING, path=STRING, about=STRING))),
    "doctor": document(findings=list_of(mapping(check=STRING, result=STRING, failed=BOOLEAN, hint=nullable(STRING)))),
    "home": document(home=STRING, files=COUNT, autostart=REASONS),
    "home-diff": document(
        home=STRING,
        known=BOOLEAN,
        changes=list_of(mapping(sign=one_of("+", "~", "-"), path=STRING, reason=nullable(STRING))),
    ),
    "home-reset": document(home=STRING, trash=nullable(STRING), kept=PATHS),
    "home-import": entries(
        {
            "version": {"const": 1},
            "source": STRING,
            "items": list_of(
                mapping(
                    agent=STRING,
                    home=STRING,
                    kind=STRING,
                    name=STRING,
                    bytes=COUNT,
                    files=COUNT,
                    state=one_of("new", "same", "differs"),
                    flags=list_of(one_of("secret", "runs automatically", "not checked")),
                    safe=BOOLEAN,
                    edits=EDITS,
                    imported=nullable(INTEGER),
                    changes=list_of(mapping(sign=STRING, path=STRING)),
                    changed_inside=BOOLEAN,
                )
            ),
            "left_out": REASONS,
            "copied?": list_of(mapping(name=STRING, edits=EDITS)),
            "failed?": REASONS,
        }
    ),
    "trust": document(
        root=STRING,
        state=one_of("none", "untrusted", "changed", "trusted"),
        text=STRING,
        grants=list_of(STRING),
        restricts=list_of(STRING),
        problems=list_of(STRING),
    ),
    "clean": document(
        dry_run=BOOLEAN,
        removed=ENTRIES,
        kept=ENTRIES,
        sessions=list_of(mapping(session=STRING, action=one_of("packed", "thinned", "removed"), bytes=COUNT)),
        kinds=list_of(mapping(kind=STRING, removed=COUNT, bytes=COUNT, kept=COUNT, kept_bytes=COUNT)),
        worktrees=PATHS,
    ),
    "watch": entries(
        {
            "event": one_of("session", "change", "reverted", "more", "command", "exit", "approval", "checkpoint", "log", "end"),
            "version?": {"const": 1},
            "time?": INTEGER,
            "session?": STRING,
            "name?": nullable(STRING),
            "root?": STRING,
            "command?": list_of(STRING),
            "kind?": KIND,
            "path?": STRING,
            "from?": nullable(STRING),
            "state?": STRING,
            "exit?": nullable(INTEGER),
            "next?": nullable(STRING),
            **{
                f"{key}?": ANY
                for key in (
                    "changes",
                    "pid",
                    "argv",
                    "cwd",
                    "decision",
                    "rule",
                    "answer",
                    "duration",
                    "number",
                    "until",
                    "address",
                    "port",
                    "program",
                )
            },
            **{
                f"{key}?": ANY for key in ("checkpoint", "cause", "changed", "milliseconds", "frozen", "failed", "log", "profile")
            },
            **{
                f"{key}?": ANY
                for key in ("to", "before", "paths", "problems", "verdict", "reason", "merge", "steps", "policy", "limit")
            },
            **{f"{key}?": ANY for key in ("problem", "commits")},
        }
    ),
    "config": document(values=list_of(mapping(key=STRING, value=ANY, origin=STRING))),
}

# The options that select another document of a subcommand.
_VARIANTS = {
    ("merge", "--commits"): "merge-commits",
    ("commits", "--decline"): "commits-decline",
    ("restore", "--list"): "restore-list",
    ("tx", "--best"): "tx-best",
    ("tx", "--compare"): "tx-best",
    ("tx", "--on"): "tx-on",
    ("tx", "--many"): "tx-many",
    ("checkpoints", "--restore"): "rollback",
    ("checkpoints", "--of"): "checkpoints-of",
    ("checkpoints", "--thin"): "checkpoints-thin",
    ("deleted", "--restore"): "rollback",
    ("log", "--changes"): "log-changes",
    ("log", "--commands"): "log-commands",
    ("log", "--network"): "log-network",
    ("policy", "check"): "policy-check",
    ("bundle", "--show"): "bundle-show",
    ("home", "--diff"): "home-diff",
    ("home", "--reset"): "home-reset",
    ("home", "--import"): "home-import",
}


def schema_name(words: list[str]) -> str:
    """Return the name of the schema of a command's document; "" if the command has none."""
    subcommand = next((word for word in words if not word.startswith("-")), "")
    found = (name for (first, option), name in _VARIANTS.items() if first == subcommand and option in words)
    return next(found, subcommand if subcommand in SCHEMAS else "")


def make_schema(name: str) -> str:
    """Return the published schema of a document, as text."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"agent-dev: {name}"}
    return json.dumps({**head, **SCHEMAS[name]}, indent=1) + "\n"


def write_all() -> None:
    """Write `docs/json/`."""
    FOLDER.mkdir(exist_ok=True)
    for name in SCHEMAS:
        (FOLDER / f"{name}.schema.json").write_text(make_schema(name), encoding="utf-8")
