# Creates .venv in the repository with the project and the given extras; sourced by run_local.sh and run_tests.sh.
#
#   . tools/setup_venv.sh && setup_venv learner,atari
#
# PYTHON sets the interpreter. The default is the first one found of Python 3.11 to 3.13, the versions that TensorFlow
# has packages for. It installs only if pyproject.toml, the extras or the Python version have changed.

# The extra that the tests need.
TEST_EXTRAS=dev

_fail() {
    echo "seed_rl: error: $*" >&2
    exit 2
}

_find_python() {
    local candidate candidates=(python3 python3.13 python3.12 python3.11 python)
    [[ -z "${PYTHON:-}" ]] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

setup_venv() {
    local extras="$1" root python stamp wanted
    root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
    VENV_PYTHON="$root/.venv/bin/python"
    if ! "$VENV_PYTHON" -c 'import pip' 2>/dev/null; then
        python="$(_find_python)" ||
            _fail "No Python 3.11 to 3.13 was found${PYTHON:+ as $PYTHON}; install one, or set PYTHON to its path."
        echo "seed_rl: creating the virtual environment $root/.venv with $("$python" --version)." >&2
        # With the newest pip: the one that comes with Python may be too old to resolve the requirements of the tests.
        "$python" -m venv --clear --upgrade-deps "$root/.venv" >&2 ||
            _fail "The virtual environment could not be created; the output above gives the reason (if it is ensurepip, on Debian and Ubuntu: apt install python3-venv)."
    fi
    stamp="$root/.venv/installed_${extras//,/_}"
    wanted="$(cksum <"$root/pyproject.toml") $("$VENV_PYTHON" --version) $root"
    if [[ ! -f "$stamp" || "$(cat "$stamp")" != "$wanted" ]]; then
        echo "seed_rl: installing the project with [$extras]; the first time takes a few minutes." >&2
        "$VENV_PYTHON" -m pip install --disable-pip-version-check --progress-bar off \
            -e "$root[$extras]" >&2 || _fail "The installation failed; pip's output above gives the reason."
        echo "$wanted" >"$stamp"
    fi
}
