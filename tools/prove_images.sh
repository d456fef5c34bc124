#!/usr/bin/env bash
# Builds the images in docker/ through Docker Compose and trains Catch in them, without a Docker engine (Debian 12 or
# later, as root):
#
#   tools/prove_images.sh
#
# Docker's registry is not needed, only apt and pip. A Debian system made by mmdebstrap replaces the official Python
# image and gets this machine's pip settings. Podman's service, which speaks Docker's protocol, builds and runs the
# containers for Docker Compose. Everything is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TOOLS=(buildah ca-certificates iptables mmdebstrap netavark podman runc) # netavark calls iptables.
COMPOSE_RELEASE=trixie # The first Debian that has Docker Compose v2.
PRESET=small/catch_vtrace
FRAMES=600000
TLS_FRAMES=100000
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

# Podman's store, settings and socket are all in $work. The limits are below the hard ones, which root in a container
# cannot raise.
set_up_podman() {
    export TMPDIR="$work" CONTAINERS_STORAGE_CONF="$work/storage.conf" CONTAINERS_CONF="$work/containers.conf" BUILDAH_ISOLATION=chroot
    export DOCKER_HOST="unix://$work/podman.sock"
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/graph" "$work/run" \
        >"$CONTAINERS_STORAGE_CONF"
    printf '[%s]\n%s\n' containers 'default_ulimits = ["nofile=9000:9000", "nproc=9000:9000"]' \
        engine 'runtime = "runc"' network "network_config_dir = \"$work/networks\"" >"$CONTAINERS_CONF"
}

install_tools() {
    local path hooks=()
    command -v apt-get >/dev/null && ((EUID == 0)) || fail "this needs Debian's apt and root."
    if ! dpkg-query -W "${TOOLS[@]}" >/dev/null 2>&1; then
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${TOOLS[@]}"
    fi >&2 || fail "apt-get could not install ${TOOLS[*]}; its output above gives the reason."
    mmdebstrap --quiet --variant=extract --include=docker-compose "$COMPOSE_RELEASE" "$work/compose" >&2
    pip_settings >"$work/pip.conf"
    for path in $(grep -oE '/[A-Za-z0-9._/-]+' "$work/pip.conf"); do
        [[ ! -f "$path" ]] || hooks+=("--customize-hook=mkdir -p \"\$1${path%/*}\"" "--customize-hook=upload $path $path")
    done
    hooks+=("--customize-hook=upload $work/pip.conf /etc/pip.conf")
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv "${hooks[@]}" bookworm - |
        podman import --quiet - "docker.io/library/$(sed -n 's/^ARG BASE=//p' docker/Dockerfile)" >/dev/null
}

# This machine's pip settings, without those that name a folder on it: the base image has no room for one.
pip_settings() {
    local name value word words
    echo '[global]'
    python3 -m pip config list | sed -nE "s/^(:env:|global)\.([a-z-]+)='(.*)'$/\2 \3/p" | awk '!seen[$1]++' |
        while read -r name value; do
            words=()
            for word in $value; do
                [[ -d "${word#file://}" ]] || words+=("$word")
            done
            ((${#words[@]} == 0)) || echo "$name = ${words[*]}"
        done
}

compose() { "$work"/compose/usr/libexec/docker/cli-plugins/docker-compose -f docker/compose.yaml "$@"; }

# Podman's service has Docker's classic builder only, as far as Compose can tell.
start_service() {
    export DOCKER_BUILDKIT=0
    podman system service --time=0 "$DOCKER_HOST" >"$work/service.log" 2>&1 &
    service=$!
    until_true test -S "$work/podman.sock"
}

has_task() { [[ "$(podman logs "$1" 2>&1)" == *"has given this actor task"* ]]; }

in_learner() { podman exec seed_rl-learner-1 "$@"; }

tensorboard_answers() {
    python3 -c 'import urllib.request; urllib.request.urlopen("http://127.0.0.1:6006/", timeout=5)'
}

# Another learner on the same socket, such as one of the wrong profile, must exit and leave the socket alone.
second_learner_is_refused() {
    ! podman run --rm --network=none -v seed_rl_socket:/run/seed_rl seed_rl-learner --environment=catch --agent=vtrace \
        --logdir=/tmp/run --server_address=unix:/run/seed_rl/learner.sock >"$work/refusal" 2>&1 &&
        grep -q 'Cannot listen on --server_address' "$work/refusal" ||
        fail "a second learner on the same socket was not refused: $(cat "$work/refusal")"
    in_learner python /opt/healthcheck.py unix:/run/seed_rl/learner.sock
}

# Waits until the command succeeds.
until_true() {
    local deadline=$((SECONDS + 180))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "'$*' did not succeed within 180 s."
        sleep 1
    done
}

# Runs the documented command, including the builds.
build_and_start() {
    export SEED_RL_PRESET="$PRESET" SEED_RL_LEARNER_FLAGS="--logdir=/runs/proof --total_environment_frames=$FRAMES"
    compose config --quiet
    compose --profile gpu config --quiet
    compose --profile hosts config --quiet
    compose up --detach --scale actor=2 >"$work/up.log" 2>&1 || {
        tail -n 40 "$work/up.log" >&2
        fail "Docker Compose could not build and start the services; its output above gives the reason."
    }
    say "built and started: $(podman images --format '{{.Repository}} {{.Size}},' | grep seed_rl- | xargs)"
}

# Checks what must not be in an image, and which user it runs as.
inspect() {
    local target
    for target in actor learner tensorboard; do
        podman run --rm --network=none --entrypoint bash "seed_rl-$target" -c '
            ((UID == 1000)) && ! command -v gcc cc make cmake git && ! ls -d .git .venv runs tests 2>/dev/null' ||
            fail "the image of the $target runs as root, or contains build tools or files that .dockerignore should keep out."
    done
    for target in actor tensorboard; do
        ! podman run --rm --network=none --entrypoint python "seed_rl-$target" -c 'import tensorflow' 2>/dev/null ||
            fail "the image of the $target contains TensorFlow."
    done
    ! podman run --rm --network=none --entrypoint python seed_rl-learner -m seed_rl learner --require_accelerator \
        --environment=catch --agent=vtrace --logdir=/tmp/run >"$work/refusal" 2>&1 &&
        grep -q 'error: --require_accelerator: TensorFlow sees no GPU' "$work/refusal" ||
        fail "--require_accelerator does not refuse to train on a CPU: $(cat "$work/refusal")"
}

# Waits until the run ends, and checks that it has the given number of frames and a mean return above the given one.
finish() {
    local run="$1" frames="$2" least="$3" learner=seed_rl-learner-1 code
    code="$(timeout 300 podman wait "$learner")" || fail "the learner has not ended after 300 s."
    podman logs "$learner" 2>&1 | tail -n 3 >&2
    [[ "$code" == 0 ]] || fail "the learner failed; see above."
    podman run --rm --network=none -v seed_rl_runs:/runs --entrypoint python seed_rl-learner -c "
import json
lines = [json.loads(line) for line in open('/runs/$run/metrics.jsonl')]
assert lines[-1]['env_frames'] >= $frames and lines[-1]['mean_return'] > $least, lines[-1]
print('mean return', lines[-1]['mean_return'])" || fail "Catch was not learned."
}

# Stops training once, resumes it, and scales it while it runs.
train() {
    until_true in_learner test -s /runs/proof/metrics.jsonl
    in_learner python /opt/healthcheck.py unix:/run/seed_rl/learner.sock
    [[ "$(podman logs seed_rl-learner-1 2>&1)" == *"Training and inference on CPU:0"* ]] || fail "the learner does not name its device."
    until_true tensorboard_answers
    second_learner_is_refused
    say "training with two actors."
    compose stop learner
    [[ "$(podman wait seed_rl-learner-1)" == 143 ]] || fail "the learner did not stop with a checkpoint."
    compose up --detach --scale actor=3
    until_true has_task seed_rl-actor-3
    say "training resumed from the checkpoint with three actors."
    compose stop actor
    [[ "$(podman wait seed_rl-actor-1)" == 130 ]] || fail "the actor did not exit cleanly (code 130) when it was stopped."
    compose up --detach --scale actor=1
    say "training continues with one actor."
    finish proof "$FRAMES" 0.9
    compose down
}

# The learner's and the actors' machines of docs/docker.md are two projects here, connected over 127.0.0.1.
train_over_tls() {
    export SEED_RL_SECRETS="$work/secrets" SEED_RL_LISTEN=127.0.0.1 SEED_RL_LEARNER=127.0.0.1
    export SEED_RL_LEARNER_FLAGS="--logdir=/runs/tls --total_environment_frames=$TLS_FRAMES"
    mkdir "$SEED_RL_SECRETS" && make_secrets "$SEED_RL_SECRETS"
    printf 'services: {actor: {network_mode: host}}\n' >"$work/host.yaml"
    compose -f docker/compose.tls-learner.yaml up --detach --scale actor=0
    compose -f docker/compose.tls-actors.yaml -f "$work/host.yaml" -p seed_rl_actors up --detach --scale actor=2 actor
    until_true has_task seed_rl_actors-actor-2
    in_learner python /opt/healthcheck.py localhost:8686 /run/secrets/learner.pem seed-rl-learner
    say "two actors train over TLS."
    finish tls "$TLS_FRAMES" 0.5
    compose -f docker/compose.tls-actors.yaml -p seed_rl_actors down --volumes
    compose -f docker/compose.tls-learner.yaml down --volumes
}

# The commands of docs/docker.md.
make_secrets() (
    cd "$1"
    eval "$(sed -n '/^openssl req/,/^chown/p' "$OLDPWD/docs/docker.md")"
)

work="$(mktemp -d)"
trap clean_up EXIT
look_for_room
set_up_podman
install_tools
say "the tools and the base image are ready."
start_service
build_and_start
inspect
train
train_over_tls
say "done."
