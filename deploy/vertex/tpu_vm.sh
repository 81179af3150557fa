#!/usr/bin/env bash
# Runs a command of BeamBERT on a TPU VM without Vertex AI. The script makes the VM, runs the command
# in the trainer's image and deletes the VM. If a spot VM is taken back, it makes another and goes on,
# at most TRIES (20) times. A command that fails on a VM that is still there ends the script.
#
#   deploy/vertex/tpu_vm.sh pretrain --recipe=bert_base --data=gs://B/records/128 \
#       --long_data=gs://B/records/512 --model_dir=gs://B/base --tpu=local --dtype=bfloat16
#
# The image is that of the checked-out commit. The environment variables COMMIT, PROJECT, REGION, ZONE,
# NAME, TYPE (v5litepod-8) and ACCOUNT override the defaults below.
set -euo pipefail
cd "$(dirname "$0")/../.."

setting() { sed -n "s/^$1 *= *\"\(.*\)\"/\1/p" deploy/terraform/terraform.tfvars; }
PROJECT=${PROJECT:-$(setting project)}
REGION=${REGION:-$(setting region)}
ZONE=${ZONE:-$REGION-a}
NAME=${NAME:-beambert}
TYPE=${TYPE:-v5litepod-8}
ACCOUNT=${ACCOUNT:-beambert-trainer@$PROJECT.iam.gserviceaccount.com}
COMMIT=${COMMIT:-$(git rev-parse HEAD)}
REGISTRY=$REGION-docker.pkg.dev
VM=(gcloud compute tpus tpu-vm)
SSH=(gcloud alpha compute tpus tpu-vm ssh) # Only alpha goes through Identity-Aware Proxy.
WHERE=(--project="$PROJECT" --zone="$ZONE" --quiet)

# The command runs in a container, because the VM's own Python is too old. The container has a name, so
# that no second one starts if only the connection was lost. The variable is Vertex's name of a job that
# goes on on another machine: the command there takes the locks of the machine that is gone.
TOKEN=http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token
COMMAND="curl -sSf -H Metadata-Flavor:Google $TOKEN | sed 's/.*\"access_token\":\"\([^\"]*\)\".*/\1/' |
  sudo docker login -u oauth2accesstoken --password-stdin https://$REGISTRY &&
  sudo docker run --rm --name=beambert --privileged --net=host --shm-size=16g \
    --env=CLOUD_ML_JOB_ID=$NAME $REGISTRY/$PROJECT/beambert/trainer-tpu:$COMMIT$(printf ' %q' "$@")"

finish() { "${VM[@]}" delete "$NAME" "${WHERE[@]}" || true; }
trap finish EXIT

ready() { "${VM[@]}" describe "$NAME" "${WHERE[@]}" --format='value(state)' 2>/dev/null | grep -q READY; }

tries=0
until
  ready ||
    { finish
      "${VM[@]}" create "$NAME" "${WHERE[@]}" --accelerator-type="$TYPE" --spot \
        --network=beambert --subnetwork=beambert --internal-ips \
        --version=v2-alpha-tpuv5-lite --service-account="$ACCOUNT" --labels=app=beambert; }
  # The command continues from its newest checkpoint.
  "${SSH[@]}" "$NAME" "${WHERE[@]}" --tunnel-through-iap --command="$COMMAND"
do
  status=$?
  # ssh ends with 255 if it has lost the connection. With any other status the command itself has
  # failed, and another try would cost the same again.
  if [ "$status" -ne 255 ] && ready; then exit "$status"; fi
  tries=$((tries + 1))
  if [ "$tries" -ge "${TRIES:-20}" ]; then
    echo "no TPU VM lasted long enough in $tries tries; the same command goes on later" >&2
    exit "$status"
  fi
  echo "the TPU VM or the connection to it is gone; trying again in a minute" >&2
  sleep "${PAUSE:-60}"
done
