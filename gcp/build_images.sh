#!/usr/bin/env bash
# Builds the images of docker/Dockerfile and pushes them to where gcp.submit expects them.
#
#   gcp/build_images.sh PROJECT [REGION] [TAG]     # us-central1 and latest by default
#
# ACCELERATOR=cpu builds the learner's image without CUDA. BUILD_ARGS, such as "--build-arg SUITES=atari", are passed to
# docker buildx build for both images. PUSH=0 builds without pushing. The images run as root, because only root may
# write the file for a trial's result in Vertex AI's containers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "seed_rl: error: $*" >&2
    exit 2
}

project="${1:-}" region="${2:-us-central1}" tag="${3:-latest}"
[[ -n "$project" ]] || fail "No project is named; run gcp/build_images.sh PROJECT [REGION] [TAG]."
host="$region-docker.pkg.dev" repository="$region-docker.pkg.dev/${project/:/\/}/seed-rl"
output=--load
if [[ "${PUSH:-1}" == 1 ]]; then
    command -v gcloud >/dev/null ||
        fail "gcloud is not installed; install it (https://cloud.google.com/sdk/docs/install), or build with PUSH=0."
    gcloud artifacts repositories describe seed-rl --project="$project" --location="$region" >/dev/null ||
        fail "There is no repository seed-rl that you can see; create it with: gcloud artifacts repositories create" \
            "seed-rl --repository-format=docker --project=$project --location=$region"
    gcloud auth configure-docker "$host" --quiet
    output=--push
fi

for target in learner actor; do
    image="$repository/$target:$tag"
    # One build with an extra stage: a builder in a container (docker-container) does not see the engine's images, so a
    # second build could not start from the first one's. --load and --push export the result from any builder.
    # shellcheck disable=SC2086 (BUILD_ARGS are several words)
    {
        cat docker/Dockerfile
        printf '\nFROM %s AS vertex\nUSER root\n' "$target"
    } | docker buildx build -f - --platform linux/amd64 --target vertex --provenance=false \
        --build-arg ACCELERATOR="${ACCELERATOR:-gpu}" ${BUILD_ARGS:-} -t "$image" "$output" .
    echo "$image"
done
