#!/usr/bin/env bash
# Builds the images of docker/Dockerfile and pushes them to where gcp.submit expects them.
#
#   gcp/build_images.sh PROJECT [REGION] [TAG]     # us-central1 and latest by default
#
# ACCELERATOR=cpu takes the learner's image without CUDA. BUILD_ARGS are passed to docker build for both, such as
# BUILD_ARGS="--build-arg SUITES=atari". PUSH=0 builds only. Each image is built once more with root as its user:
# in Vertex AI's containers only root may write the file that a trial's result goes to.
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
host="$region-docker.pkg.dev" repository="$region-docker.pkg.dev/${project/:/\/}/seed-rl"
if [[ "${PUSH:-1}" == 1 ]]; then
    command -v gcloud >/dev/null ||
        fail "gcloud is not installed; install it (https://cloud.google.com/sdk/docs/install), or build with PUSH=0."
    gcloud artifacts repositories describe seed-rl --project="$project" --location="$region" >/dev/null ||
        fail "There is no repository seed-rl that you may see; make it with: gcloud artifacts repositories create" \
            "seed-rl --repository-format=docker --project=$project --location=$region"
    gcloud auth configure-docker "$host" --quiet
fi

for target in learner actor; do
    image="$repository/$target:$tag"
    # shellcheck disable=SC2086 (BUILD_ARGS are several words)
    docker build -f docker/Dockerfile --platform linux/amd64 --target "$target" \
        --build-arg ACCELERATOR="${ACCELERATOR:-gpu}" ${BUILD_ARGS:-} -t "seed_rl-$target:$tag" .
    printf 'FROM %s\nUSER root\n' "seed_rl-$target:$tag" | docker build --platform linux/amd64 -t "$image" -
    [[ "${PUSH:-1}" != 1 ]] || docker push "$image"
    echo "$image"
done
