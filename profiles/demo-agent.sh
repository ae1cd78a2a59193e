#!/bin/sh
# The scripted agent of the profile `demo`: makes one change of every kind in any repository.
set -u

report() {
    printf 'demo agent: %s\n' "$*"
}

report "working in $PWD; all changes stay in this session until you merge them"

mkdir -p src docs
if [ -f src/app.py ]; then
    sed 's/"world"/"everybody"/' src/app.py >src/app.py.new && cat src/app.py.new >src/app.py
    rm -f src/app.py.new
fi
printf '\n# Greets everybody unless a name is given.\n' >>src/app.py

cat >docs/names.md <<'END'
# Names

Any name will do, also one of several words:

    sh run.sh Ada Lovelace
END
report "edited src/app.py, added docs/names.md"

if [ -f obsolete.txt ]; then
    rm obsolete.txt
    report "deleted obsolete.txt"
fi

if [ -f src/old_name.py ]; then
    mv src/old_name.py src/greeting.py
    sed 's/from old_name import/from greeting import/' src/app.py >src/app.py.new && cat src/app.py.new >src/app.py
    rm -f src/app.py.new
    report "renamed src/old_name.py to src/greeting.py"
fi

ln -sfn docs/names.md NAMES
[ -f run.sh ] || printf '#!/bin/sh\nexec python3 src/app.py "$@"\n' >run.sh
chmod +x run.sh
report "created the symlink NAMES, made run.sh executable"

if git rev-parse --git-dir >/dev/null 2>&1; then
    git add -A src docs
    git commit -q -m 'Greet everybody by default' && report "committed src and docs"
    hooks=$(git rev-parse --git-path hooks)
    mkdir -p "$hooks"
    printf '#!/bin/sh\necho "a hook that the demo agent planted"\n' >"$hooks/post-checkout"
    chmod +x "$hooks/post-checkout"
    report "planted a git hook, which stays in the session's git directory"
fi

mkdir -p .github/workflows
cat >.github/workflows/deploy.yml <<'END'
name: deploy
on: push
jobs:
  deploy:
    runs-on: ubuntu-latest
    steps:
      - run: echo "this would run with the project's secrets"
END
report "added .github/workflows/deploy.yml, which needs review"
