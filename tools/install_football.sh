#!/usr/bin/env bash
# Installs Google Research Football (Debian or Ubuntu):
#
#   tools/install_football.sh [python of a virtual environment; default: .venv/bin/python here]
#
# gfootball has no wheel: its engine is compiled from the sources on PyPI, once for each Python version. The built
# wheels are kept in ${XDG_CACHE_HOME:-~/.cache}/seed_rl/football.
set -euo pipefail

VERSION=2.10.2
# The last gym version that works with gfootball; its setup.py needs an old setuptools, as does gfootball's.
GYM_VERSION=0.25.2
SYSTEM_PACKAGES=(
    build-essential cmake libgl1-mesa-dev libegl1-mesa-dev libsdl2-dev libsdl2-image-dev libsdl2-ttf-dev
    libsdl2-gfx-dev libboost-python-dev libboost-thread-dev libboost-filesystem-dev libboost-system-dev
    python3-dev
)
# Of the engine's sources, those that define names which others also use.
SOURCES_APART=(src/onthepitch/player/humanoid/humanoid.cpp src/misc/perlin.cpp)
PYTHON_PACKAGES=(absl-py cloudpickle gym-notices 'numpy<3' opencv-python-headless psutil pygame scipy six)

fail() {
    echo "tools/install_football.sh: error: $*" >&2
    exit 1
}

say() {
    echo "tools/install_football.sh: $*" >&2
}

install_system_packages() {
    local missing=() package as_root=()
    for package in "${SYSTEM_PACKAGES[@]}"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    say "installing the system packages ${missing[*]}."
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "run this as root once: apt-get install ${missing[*]}."
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -q >&2 || fail "apt-get update failed; its output above gives the reason."
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}" >&2 || fail "apt-get install failed; its output above gives the reason."
}

# Makes the environment $1 build with CMake's unity builds: files are joined into fewer, because most of the time
# goes into the headers that each of them includes.
join_sources() {
    local cmake
    cmake="$(command -v cmake)"
    echo "set_source_files_properties(${SOURCES_APART[*]} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)" >"$1/apart.cmake"
    printf '#!/bin/sh\nexec %q -DCMAKE_UNITY_BUILD=ON -DCMAKE_PROJECT_INCLUDE=%q "$@"\n' \
        "$cmake" "$1/apart.cmake" >"$1/bin/cmake"
    chmod +x "$1/bin/cmake"
}

# Builds the wheels of gfootball and gym into the folder $1, with the interpreter $2.
build_wheels() {
    local folder="$1" python="$2"
    # The engine is linked against the system's Boost, which is built for the system's Python.
    [[ "$("$python" -c 'import sys; print(sys.version_info[:2])')" == \
        "$(/usr/bin/python3 -c 'import sys; print(sys.version_info[:2])')" ]] ||
        say "warning: $python differs in version from /usr/bin/python3, which the system's Boost is built for."
    say "compiling the engine; this takes about 2 minutes, once."
    work="$(mktemp -d)" # Not local: it is removed when the script ends.
    trap 'rm -rf "$work"' EXIT
    "$python" -m venv "$work/venv"
    join_sources "$work/venv"
    (
        . "$work/venv/bin/activate" # The engine's build script calls python3.
        export MAKEFLAGS="-j$(nproc)" CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)"
        pip install -q --disable-pip-version-check 'setuptools<66' 'wheel<0.39' "${PYTHON_PACKAGES[@]}" &&
            pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$work/wheels" \
                "gym==$GYM_VERSION" "gfootball==$VERSION"
    ) >&2 || fail "the engine could not be built; pip's output above gives the reason."
    mkdir -p "$folder.new.$$" && mv "$work"/wheels/*.whl "$folder.new.$$"
    rm -rf "$folder" && mv "$folder.new.$$" "$folder"
}

main() {
    local python folder tag
    python="${1:-"$(dirname "${BASH_SOURCE[0]}")/../.venv/bin/python"}"
    "$python" -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null ||
        fail "$python is not the Python of a virtual environment; run ./run_local.sh once, or pass one."
    if "$python" -c 'import gfootball.env' 2>/dev/null; then
        say "already installed."
        return
    fi
    command -v apt-get >/dev/null || fail "this needs apt; elsewhere, follow github.com/google-research/football."
    install_system_packages
    tag="$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"
    folder="${XDG_CACHE_HOME:-$HOME/.cache}/seed_rl/football/$VERSION-$tag-$(uname -m)"
    compgen -G "$folder/gfootball-*.whl" >/dev/null || build_wheels "$folder" "$python"
    "$python" -m pip install -q --disable-pip-version-check "${PYTHON_PACKAGES[@]}" >&2
    "$python" -m pip install -q --disable-pip-version-check --no-deps "$folder"/*.whl >&2
    "$python" -c 'import gfootball.env' || fail "it was installed but cannot be imported; see above."
    say "done."
}

main "$@"
