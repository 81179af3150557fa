#!/usr/bin/env bash
# Pre-trains on a TPU VM of its own, without Vertex AI: makes it, runs a command of BeamBERT there
# until it is done, however often a spot machine is taken back, and deletes it.
#
#   deploy/vertex/tpu_vm.sh pretrain --recipe=bert_base --data=gs://B/records/128 \
#       --long_data=gs://B/records/512 --model_dir=gs://B/base --tpu=local --dtype=bfloat16
#
# PROJECT, ZONE, NAME, TYPE (v5litepod-8) and ACCOUNT may be given in the environment.
set -euo pipefail
cd "$(dirname "$0")/../.."

setting() { sed -n "s/^$1 *= *\"\(.*\)\"/\1/p" deploy/terraform/terraform.tfvars; }
PROJECT=${PROJECT:-$(setting project)}
ZONE=${ZONE:-$(setting region)-a}
NAME=${NAME:-beambert}
TYPE=${TYPE:-v5litepod-8}
ACCOUNT=${ACCOUNT:-beambert-trainer@$PROJECT.iam.gserviceaccount.com}
VM=(gcloud compute tpus tpu-vm)
WHERE=(--project="$PROJECT" --zone="$ZONE" --quiet)
COMMAND=$(printf ' %q' "$@")

finish() { "${VM[@]}" delete "$NAME" "${WHERE[@]}" || true; }
trap finish EXIT

until
  "${VM[@]}" describe "$NAME" "${WHERE[@]}" --format='value(state)' 2>/dev/null | grep -q READY ||
    { finish
      "${VM[@]}" create "$NAME" "${WHERE[@]}" --accelerator-type="$TYPE" --spot \
        --version=v2-alpha-tpuv5-lite --service-account="$ACCOUNT"; }
  tar --exclude=.git --exclude='.venv*' --exclude='*-output' -czf - . |
    "${VM[@]}" ssh "$NAME" "${WHERE[@]}" --command='mkdir -p beambert && tar -xzf - -C beambert'
  # The command continues from its newest checkpoint.
  "${VM[@]}" ssh "$NAME" "${WHERE[@]}" --command="cd beambert && python3 -m venv .venv &&
    .venv/bin/pip install -q --no-deps -r requirements-tpu.lock && .venv/bin/python -m beambert$COMMAND"
do
  status=$?
  # What a person must mend isn't mended by another try.
  [ "$status" -eq 2 ] && exit 2
  echo "the machine is gone or the command failed (status $status); again in a minute" >&2
  sleep "${PAUSE:-60}"
done
