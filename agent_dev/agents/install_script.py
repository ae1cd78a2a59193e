"""The shell scripts that install an agent in the sandbox, and print the newest version of its package."""

from agent_dev.config.agent_entry import AgentEntry

PREFIX = ".local/agent"  # below the agent home; its bin comes first in PATH
NEEDS_PROGRAM = 3  # exit code: a program is missing, and the script has said which
DOES_NOT_START = 4  # exit code: the new version did not start, and was removed; the old one remains
INTERRUPTED = 130  # exit code: by a signal; the old version remains

_NPM = """\
prefix="$HOME/.local/agent" program=$1 package=$2 need=$3
if ! command -v npm >/dev/null; then
    echo "npm is missing: install it with your package manager, as in: sudo apt install npm" >&2
    exit 3
fi
export NPM_CONFIG_GLOBALCONFIG="$(npm config get globalconfig)" # --prefix would hide it
export NPM_CONFIG_UPDATE_NOTIFIER=false # about npm itself, which is the system's
trap 'rm -rf "${drop-}"' EXIT
trap 'exit 130' HUP INT TERM
stage() { # install a package below $place, next to its version in use
    name=${1%@*} up=../..
    case $name in */*) up=../../.. ;; esac
    key="packages/$(printf %s "$name" | tr / +)"
    new=$key.1 old=$key.2
    case $(readlink "$place/lib/node_modules/$name") in */"$new"/*) new=$key.2 old=$key.1 ;; esac
    drop="$place/$new"
    rm -rf "$drop"
    npm install -g --prefix "$drop" --no-fund --no-audit --loglevel error "$1"
}
switch() { # replace the version in use by the staged one
    link="$place/lib/node_modules/$name"
    rm -rf "${place:?}/$old"
    mkdir -p "$place/bin" "$place/$old" "${link%/*}"
    trap '' HUP INT TERM
    [ -L "$link" ] || [ ! -e "$link" ] || mv "$link" "$place/$old/" # installed by npm alone
    ln -sfn "$up/$new/lib/node_modules/$name" "$link"
    for file in "$place/$new/bin/"*; do mv -f "$file" "$place/bin/"; done # relative links into lib/node_modules
    rm -rf "${place:?}/$old"
    drop=
    trap 'exit 130' HUP INT TERM
}
fits() {
    have=$("$1" -p process.versions.node 2>/dev/null || echo 0)
    [ -z "$need" ] || [ "$(printf '%s\\n' "$need" "$have" | sort -V | head -n 1)" = "$need" ]
}
place="$prefix"
if fits node; then
    stage "$package"
    "$place/$new/bin/$program" --version || exit 4
    switch
else
    # This node is on no PATH: the repository's builds and the other agents keep the system's.
    place="$prefix/node/${need%%.*}"
    if ! fits "$place/bin/node"; then
        echo "installing node $need for $program, because this one is $(node -p process.versions.node)"
        stage "node@^$need"
        switch
    fi
    PATH="$place/bin:$PATH"
    stage "$package"
    "$place/$new/bin/$program" --version || exit 4
    own="\\$HOME/.local/agent/node/${need%%.*}/bin" start=
    [ "$(head -c 2 "$place/$new/bin/$program")" != "#!" ] || start="\\"$own/node\\" " # else it is a native program
    printf '#!/bin/sh\\nexec %s"%s" "$@"\\n' "$start" "$own/$program" >"$place/$new/launcher"
    chmod 755 "$place/$new/launcher"
    switch
    mkdir -p "$prefix/bin"
    mv -f "$place/$new/launcher" "$prefix/bin/$program"
fi
"""
_PYPI = """\
prefix="$HOME/.local/agent" program=$1 package=$2 lowest=$3 highest=$4
link="$prefix/venvs/$program" # to the version in use: a new one is made next to it
venv="$link.1" old="$link.2"
[ "$(readlink "$link")" != "$program.1" ] || { venv="$link.2" old="$link.1"; }
drop="$venv"
trap 'rm -rf "$drop"' EXIT
trap 'exit 130' HUP INT TERM
rm -rf "$venv"
quiet=--quiet
[ ! -t 1 ] || quiet= # it shows its progress, which may take minutes
fits() {
    have=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || return 1
    [ "$(printf '%s\\n' "$lowest" "$have" | sort -V | head -n 1)" = "$lowest" ] || return 1
    [ -z "$highest" ] || [ "$(printf '%s\\n' "$highest" "$have" | sort -V | tail -n 1)" = "$highest" ]
}
python=
# The shim of a version manager runs only the selected version, so look at the others, too.
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 "$HOME"/.pyenv/versions/*/bin/python3 \\
    "$HOME"/.local/share/mise/installs/python/*/bin/python3 "$HOME"/.local/share/uv/python/*/bin/python3; do
    if fits "$name"; then python=$name; break; fi
done
if [ -n "$python" ]; then
    if ! "$python" -m venv "$venv"; then
        echo "Python's venv is missing: install it, as in: sudo apt install python3-venv" >&2
        exit 3
    fi
else
    wanted="Python ${highest:-$lowest}"
    echo "$program needs $wanted: fetching it with uv"
    if ! uv=$(command -v uv); then
        uv="$prefix/venvs/uv/bin/uv"
        [ -x "$uv" ] || python3 -m venv "$prefix/venvs/uv" && "$prefix/venvs/uv/bin/python" -m pip install $quiet uv || true
    fi
    if ! "$uv" venv $quiet --seed --python "${highest:-$lowest}" "$venv"; then
        echo "$wanted cannot be fetched: install it with your package manager" >&2
        exit 3
    fi
fi
"$venv/bin/python" -m pip install $quiet --disable-pip-version-check "$package"
"$venv/bin/$program" --version || exit 4
mkdir -p "$prefix/bin"
rm -rf "$old"
trap '' HUP INT TERM
[ -L "$link" ] || [ ! -e "$link" ] || mv "$link" "$old"
ln -sfn "${venv##*/}" "$link"
ln -sfn "../venvs/$program/bin/$program" "$prefix/bin/$program"
drop="$old"
"""
_NEWEST_NPM = 'NPM_CONFIG_UPDATE_NOTIFIER=false npm view --loglevel error "$1" version'
_NEWEST_PYPI = """\
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python=$(printf '%s\\n' "$2" "$python" | sort -V | tail -n 1)
[ -z "$3" ] || python=$(printf '%s\\n' "$3" "$python" | sort -V | head -n 1)
# For another Python than this one, pip lists no version that needs it.
python3 -m pip index versions --python-version "$python" "$1" 2>/dev/null | sed -n 's/^[^(]*(\\([^)]*\\)).*/\\1/p'
"""


def install_command(entry: AgentEntry, program: str, version: str) -> tuple[str, ...]:
    """Return the command that installs an agent in its home; `version`: empty for the newest."""
    if entry.npm:
        # Without @latest, npm takes the newest version that runs on this node, however old.
        return ("sh", "-euc", _NPM, "sh", program, f"{entry.npm}@{version or 'latest'}", entry.node)
    package = f"{entry.pypi}=={version}" if version else entry.pypi
    return ("sh", "-euc", _PYPI, "sh", program, package, *_pythons(entry))


def newest_command(entry: AgentEntry) -> tuple[str, ...]:
    """Return the command that prints the newest version of an agent's package."""
    if entry.npm:
        return ("sh", "-euc", _NEWEST_NPM, "sh", entry.npm)
    return ("sh", "-euc", _NEWEST_PYPI, "sh", entry.pypi, *_pythons(entry))


def _pythons(entry: AgentEntry) -> tuple[str, str]:
    """Return the lowest and the highest version of Python; the highest may be empty."""
    lowest, _, highest = entry.python.partition("-")
    return lowest or "3", highest
