#!/usr/bin/env bash
# Builds the wheel and the sdist, installs the wheel into a fresh environment, then the sdist in its place, and trains
# Catch with each for a few seconds:
#
#   tools/prove_packages.sh             # on each Python 3.11 to 3.13 that is found on the PATH or in pyenv
#   tools/prove_packages.sh newest      # on the newest of them only, as continuous integration does
#   tools/prove_packages.sh PYTHON...   # on these interpreters
#
# Each is first installed without extras; for the wheel, that is all that an actor has. Everything is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSIONS=(3.11 3.12 3.13)
FRAMES=60000
GIBIBYTES=3 # Disk space in the folder for temporary files, for one environment at a time.

say() { echo "tools/prove_packages.sh: $* (${SECONDS} s)" >&2; }
fail() {
    echo "tools/prove_packages.sh: error: $*" >&2
    exit 1
}

# Prints the interpreter of a version. Those of pyenv may be on the PATH as shims that refuse to run.
find_python() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python python3; do
        if "$candidate" -c "import sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# Copies the files that git tracks or could add, to keep leftovers of earlier builds out of the packages.
build() {
    local python="$1"
    mkdir "$work/source"
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read |
        tar --extract --directory="$work/source"
    "$python" -m venv "$work/builder"
    "$work/builder/bin/pip" install -qq build
    "$work/builder/bin/python" -m build --outdir "$work/dist" "$work/source" >"$work/build.log" 2>&1 || {
        tail -n 20 "$work/build.log" >&2
        fail "the packages could not be built; the output above gives the reason."
    }
    say "built $(cd "$work/dist" && echo *)."
}

# Installs a package into the environment $work/venv.
install() {
    "$work/venv/bin/pip" install -qq --no-compile "$1" ||
        fail "$(basename "$1") cannot be installed on $("$work/venv/bin/python" --version)."
}

# Runs Python in a folder without the sources. -E ignores variables such as PYTHONPATH that could lead to them.
run() { (cd "$work/empty" && "$work/venv/bin/python" -E "$@"); }

# Tries a package in $work/venv, in which nothing else of this project is left.
try() {
    local package="$1" versions
    install "$package"
    (cd "$work/empty" && "$work/venv/bin/seed_rl" actor --help) >/dev/null || fail "the actor does not start after pip install $(basename "$package")."
    install "$package[learner]"
    rm -rf "$work/run"
    "$work/venv/bin/pip" check >&2 || fail "$(basename "$package") was installed with incompatible packages."
    run -m seed_rl train catch vtrace --logdir="$work/run" --total_environment_frames="$FRAMES" \
        >"$work/train.log" 2>&1 || {
        tail -n 20 "$work/train.log" >&2
        fail "Catch could not be trained with $(basename "$package") on $("$work/venv/bin/python" --version)."
    }
    ! grep -i 'gencode\|Warning' "$work/train.log" >&2 || fail "training with $(basename "$package") warns; see above."
    versions="$("$work/venv/bin/pip" freeze | grep -E '^(tensorflow|keras|protobuf|numpy)==' | xargs)"
    say "$("$work/venv/bin/python" --version), $(basename "$package"), $versions: $(tail -n 1 "$work/train.log")"
    "$work/venv/bin/pip" uninstall -qq --yes seed_rl
}

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
free=$(($(df --output=avail --block-size=1G "$work" | tail -n 1)))
((free >= GIBIBYTES)) || fail "this needs $GIBIBYTES GiB of disk space, but ${work%/*} has $free left: make room there, or set TMPDIR to another folder."
mkdir "$work/empty"

pythons=("$@") missing=()
if [[ "${*:-newest}" == newest ]]; then
    pythons=()
    for version in "${VERSIONS[@]}"; do
        python="$(find_python "$version")" && pythons+=("$python") || missing+=("$version")
    done
    [[ "$*" != newest ]] || pythons=("${pythons[@]: -1}")
fi
((${#pythons[@]})) || fail "no Python ${VERSIONS[*]} was found; install one, or give the path of an interpreter."
for python in "${pythons[@]}"; do
    "$python" -c 'import sys' 2>/dev/null || fail "$python is not a working Python; give another."
done
build "${pythons[0]}"
for python in "${pythons[@]}"; do
    rm -rf "$work/venv"
    "$python" -m venv "$work/venv"
    for package in "$work"/dist/*.whl "$work"/dist/*.tar.gz; do
        try "$package"
    done
done
((${#missing[@]} == 0)) || say "not tried, because it was not found here: Python ${missing[*]}."
say "done."
