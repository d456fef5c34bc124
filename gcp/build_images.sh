#!/usr/bin/env bash
# Builds the images of docker/Dockerfile and pushes them to where gcp.submit expects them.
#
#   gcp/build_images.sh PROJECT [REGION] [TAG]     # us-central1 and latest by default
#
# ACCELERATOR=cpu takes the learner's image without CUDA. BUILD_ARGS are passed to docker buildx build for both, such
# as BUILD_ARGS="--build-arg SUITES=atari". PUSH=0 builds only. In these images root is the user: in Vertex AI's
# containers only root may write the file that a trial's result goes to.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "seed_rl: error: $*" >&2
    exit 2
}

project="${1:-}" region="${2:-us-central1}" tag="${3:-latest}"
[[ -n "$project" ]] || fail "No project is named; the form is gcp/build_images.sh PROJECT [REGION] [TAG]."
command -v docker >/dev/null ||
    fail "docker is not installed; install it (https://docs.docker.com/engine/install), or set PATH to it."
docker info >/dev/null 2>&1 || fail "No Docker engine answers; start it, and see what docker info says."
docker buildx version >/dev/null 2>&1 ||
    fail "docker buildx is not installed; install it (https://docs.docker.com/build/install-buildx)."
host="$region-docker.pkg.dev" repository="$region-docker.pkg.dev/${project/:/\/}/seed-rl"
output=--load
if [[ "${PUSH:-1}" == 1 ]]; then
    command -v gcloud >/dev/null ||
        fail "gcloud is not installed; install it (https://cloud.google.com/sdk/docs/install), or build with PUSH=0."
    gcloud artifacts repositories describe seed-rl --project="$project" --location="$region" >/dev/null ||
        fail "There is no repository seed-rl that you may see; make it with: gcloud artifacts repositories create" \
            "seed-rl --repository-format=docker --project=$project --location=$region"
    gcloud auth configure-docker "$host" --quiet
    output=--push
fi

for target in learner actor; do
    image="$repository/$target:$tag"
    # One build with one more stage: a builder in a container (docker-container) does not see the engine's images, so a
    # second build could not begin with the first one's. --load and --push take the result out of any builder.
    # shellcheck disable=SC2086 (BUILD_ARGS are several words)
    {
        cat docker/Dockerfile
        printf '\nFROM %s AS vertex\nUSER root\n' "$target"
    } | docker buildx build -f - --platform linux/amd64 --target vertex --provenance=false \
        --build-arg ACCELERATOR="${ACCELERATOR:-gpu}" ${BUILD_ARGS:-} -t "$image" "$output" .
    echo "$image"
done
