#!/usr/bin/env bash
# Builds the two images in docker/ and trains Catch in them, without a Docker engine (Debian 12 or later, as root):
#
#   tools/prove_images.sh
#
# Docker's registry is not needed, only apt and pip. A Debian system made by mmdebstrap replaces the official Python
# image, buildah builds without an engine, and Podman's service, which speaks Docker's protocol, runs the containers
# for Docker Compose. In the build, pip has this machine's settings. Everything is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TOOLS=(buildah ca-certificates iptables mmdebstrap netavark podman runc) # netavark calls iptables.
COMPOSE_RELEASE=trixie # The first Debian that has Docker Compose v2.
PRESET=catch_vtrace_small
FRAMES=600000
GIBIBYTES=12 # Disk space in the folder for temporary files (TMPDIR, or /tmp), until everything is removed.

say() { echo "tools/prove_images.sh: $* (${SECONDS} s)" >&2; }
fail() {
    echo "tools/prove_images.sh: error: $*" >&2
    exit 1
}

clean_up() {
    podman rm --all --force --time=0 >/dev/null 2>&1 || true
    buildah rm --all >/dev/null 2>&1 || true # Unmounts what a failed build left mounted.
    [[ -z "${service:-}" ]] || kill "$service" || true
    rm -rf "$work"
}

# When the disk is full, buildah does not always say so; the error may be "read/write on closed pipe".
look_for_room() {
    local free
    free=$(($(df --output=avail --block-size=1G "$work" | tail -n 1)))
    ((free >= GIBIBYTES)) || fail "this needs $GIBIBYTES GiB of disk space, but ${work%/*} has $free left: make room there, or set TMPDIR to another folder."
}

# Podman's store, settings and socket, all in $work; the limits are below the hard ones, which root in a container may not raise.
set_up_podman() {
    export TMPDIR="$work" CONTAINERS_STORAGE_CONF="$work/storage.conf" CONTAINERS_CONF="$work/containers.conf" BUILDAH_ISOLATION=chroot
    export DOCKER_HOST="unix://$work/podman.sock"
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/graph" "$work/run" \
        >"$CONTAINERS_STORAGE_CONF"
    printf '[%s]\n%s\n' containers 'default_ulimits = ["nofile=9000:9000", "nproc=9000:9000"]' \
        engine 'runtime = "runc"' network "network_config_dir = \"$work/networks\"" >"$CONTAINERS_CONF"
}

install_tools() {
    command -v apt-get >/dev/null && ((EUID == 0)) || fail "this needs Debian's apt and root."
    if ! dpkg-query -W "${TOOLS[@]}" >/dev/null 2>&1; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${TOOLS[@]}"
    fi >&2 || fail "apt-get could not install ${TOOLS[*]}; its output above gives the reason."
    mmdebstrap --quiet --variant=extract --include=docker-compose "$COMPOSE_RELEASE" "$work/compose" >&2
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv bookworm - |
        podman import --quiet - localhost/seed_rl-base >/dev/null
}

# Prints the options that give a build this machine's pip settings and the files and folders that they refer to.
pip_volumes() {
    local path
    {
        echo '[global]'
        python3 -m pip config list | sed -nE "s/^(:env:|global)\.([a-z-]+)='(.*)'$/\2 = \3/p" | awk '!seen[$1]++'
    } >"$work/pip.conf"
    echo "--volume=$work/pip.conf:/etc/pip.conf:ro"
    for path in $(grep -oE '/[A-Za-z0-9._/-]+' "$work/pip.conf"); do
        path="$(realpath -m "${path%/simple}")" # An index links to files beside it.
        [[ ! -e "$path" ]] || echo "--volume=$path:$path:ro"
    done
}

build() {
    local target volumes
    mapfile -t volumes < <(pip_volumes)
    for target in actor learner; do
        buildah bud --layers --format docker "${volumes[@]}" --build-arg BASE=localhost/seed_rl-base \
            --target "$target" -t "seed_rl-$target" -f docker/Dockerfile . >"$work/build.log" 2>&1 || {
            tail -n 40 "$work/build.log" >&2
            fail "the $target image could not be built; buildah's output above gives the reason."
        }
        say "built the $target image: $(podman image inspect --format '{{.Size}}' "seed_rl-$target") bytes."
    done
}

# Checks that nothing unwanted is in the images, and that they do not run as root.
inspect() {
    local target
    for target in actor learner; do
        podman run --rm --network=none --entrypoint bash "seed_rl-$target" -c '
            ((UID == 1000)) && ! command -v gcc cc make cmake git && ! ls -d .git .venv runs tests 2>/dev/null' ||
            fail "the $target image runs as root, or contains build tools or files that .dockerignore should keep out."
    done
    ! podman run --rm --network=none --entrypoint python seed_rl-actor -c 'import tensorflow' 2>/dev/null ||
        fail "the actor image contains TensorFlow."
}

compose() { "$work"/compose/usr/libexec/docker/cli-plugins/docker-compose -f docker/compose.yaml "$@"; }

has_task() { [[ "$(podman logs "seed_rl-actor-$1" 2>&1)" == *"has given this actor task"* ]]; }

in_learner() { podman exec seed_rl-learner-1 "$@"; }

# Waits until the command succeeds.
until_true() {
    local deadline=$((SECONDS + 180))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "'$*' did not succeed within 180 s."
        sleep 1
    done
}

# Trains with the documented command: stopped once, resumed, and scaled while it runs.
train() {
    podman system service --time=0 "$DOCKER_HOST" >"$work/service.log" 2>&1 &
    service=$!
    until_true test -S "$work/podman.sock"
    export SEED_RL_PRESET="$PRESET" SEED_RL_LEARNER_FLAGS="--logdir=/runs/proof --total_environment_frames=$FRAMES"
    compose config --quiet
    compose --profile gpu config --quiet
    compose up --detach --no-build --scale actor=2
    until_true in_learner test -s /runs/proof/metrics.jsonl
    in_learner python /opt/healthcheck.py unix:/run/seed_rl/learner.sock
    say "training with two actors."
    compose stop learner
    [[ "$(podman wait seed_rl-learner-1)" == 143 ]] || fail "the learner did not stop with a checkpoint."
    compose up --detach --no-build --scale actor=3
    until_true has_task 3
    say "training resumed from the checkpoint with three actors."
    compose stop actor
    [[ "$(podman wait seed_rl-actor-1)" == 130 ]] || fail "the actor did not exit cleanly (code 130) when it was stopped."
    compose up --detach --no-build --scale actor=1
    say "training continues with one actor."
    [[ "$(timeout 300 podman wait seed_rl-learner-1)" == 0 ]] || fail "the learner failed: $(compose logs learner)"
    compose logs --no-log-prefix learner | tail -n 3 >&2
    podman run --rm --network=none -v seed_rl_runs:/runs --entrypoint python seed_rl-learner -c "
import json
lines = [json.loads(line) for line in open('/runs/proof/metrics.jsonl')]
assert lines[-1]['env_frames'] >= $FRAMES and lines[-1]['mean_return'] > 0.9, lines[-1]
print('mean return', lines[-1]['mean_return'])" || fail "Catch was not learned."
    compose down --volumes
}

work="$(mktemp -d)"
trap clean_up EXIT
look_for_room
set_up_podman
install_tools
say "the tools and the base image are ready."
build
inspect
train
say "done."
