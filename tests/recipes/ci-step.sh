#!/bin/sh
# A step of a CI job: an agent does a task, its tests must pass, and its session and the review are kept as artifacts.
set -eu
artifacts=$1
status=0
agent-dev tx --validate 'test -s answer.txt' --json -- sh -c 'echo 42 >answer.txt' >"$artifacts/result.json" || status=$?
agent-dev tx --validate 'false' --json -- sh -c 'echo wrong >other.txt' >"$artifacts/failed.json" || status=$?
test "$status" -ne 0
agent-dev merge --html "$artifacts/review.html"
agent-dev bundle "$artifacts/session.bundle"
test -s "$artifacts/review.html"
test "$(cat answer.txt)" = 42
test ! -e other.txt
