#!/usr/bin/env bash
# A first live run of everything on Google Cloud, with a tiny corpus, and its teardown.
#
#   deploy/smoke.sh                    all steps below, in their order
#   deploy/smoke.sh vocabulary tpu     some of them, to continue after a failure
#   DRY_RUN=1 deploy/smoke.sh          print the calls
#
# The project is that of deploy/terraform/terraform.tfvars. It must be one for trials: `teardown` deletes
# its buckets. trainer = "v5e-1" is enough, with a quota of two chips. It takes about two
# hours and costs about $2 at list prices; both are expected and were never measured.
set -euo pipefail
cd "$(dirname "$0")/.."

setting() { sed -n "s/^$1 *= *\"\(.*\)\"/\1/p" deploy/terraform/terraform.tfvars; }
PROJECT=$(setting project) REGION=$(setting region) BUCKET=$(setting bucket)
COMMIT=${COMMIT:-$(git rev-parse HEAD)}
TEXT=gs://$BUCKET-text CONFIG=gs://$BUCKET-config WORK=gs://$BUCKET-work/smoke
REGISTRY=$REGION-docker.pkg.dev/$PROJECT/beambert
WORKER=beambert-worker@$PROJECT.iam.gserviceaccount.com
SUBNETWORK=regions/$REGION/subnetworks/beambert
HERE=smoke-output
export PATH=$PWD/.venv/bin:$PATH

call() { printf '$ %s\n' "$*"; [ -n "${DRY_RUN:-}" ] || "$@"; }
vertex() { call python -m beambert.deploy.vertex "$@"; }
terraform_() { call terraform -chdir=deploy/terraform "$@"; }
# Repeats a call each minute until it works, at most so many times.
await() {
  local tries=$1; shift
  printf '$ %s, until it works\n' "$*"; [ -z "${DRY_RUN:-}" ] || return 0
  for _ in $(seq "$tries"); do if "$@"; then return 0; fi; sleep 60; done
  return 1
}

resources() { # Terraform's resources, its accounts' rights
  call gcloud services enable cloudresourcemanager.googleapis.com serviceusage.googleapis.com --project="$PROJECT"
  call gcloud storage buckets create "gs://$BUCKET-state" --project="$PROJECT" --location="$REGION" \
    --uniform-bucket-level-access --public-access-prevention || true # it may be there already
  terraform_ init -reconfigure -backend-config="bucket=$BUCKET-state"
  terraform_ apply -auto-approve
}
corpus() { # people's rights to deliver and to configure; the last file is the second delivery
  call python -m beambert.demo.corpus --output="$HERE"
  call gcloud storage cp "$HERE"/corpus/documents-0000[0-2]*.jsonl "$TEXT/" --no-clobber
  call gcloud storage cp -r "$HERE/task" "$CONFIG/smoke/"
  call beambert vocab --input="$HERE/corpus/documents-0000[0-2]*.jsonl" --vocab_size=8000 --output="$HERE/vocab.txt"
  call gcloud storage cp "$HERE/vocab.txt" "$CONFIG/smoke/"
}
build() { # images are built
  call gcloud builds submit --project="$PROJECT" --config=deploy/cloudbuild.yaml \
    --gcs-source-staging-dir="gs://$BUCKET-work/tmp/source" \
    --substitutions="_REGISTRY=$REGISTRY,_BUCKET=$BUCKET,_COMMIT=$COMMIT"
}
deployment() { vertex --release="$COMMIT" deploy --config=deploy/smoke.toml; } # the release, its schedule
vocabulary() { # a Dataflow job, workers from the sdist; it has the bytes of the one that was made here
  call beambert vocab --input="$TEXT/documents-0000[0-2]*.jsonl" --vocab_size=8000 --output="$WORK/vocab.txt" \
    --setup_file=./setup.py --runner=DataflowRunner --project="$PROJECT" --region="$REGION" \
    --max_num_workers=2 --temp_location="gs://$BUCKET-work/tmp" --labels=app=beambert \
    --subnetwork="$SUBNETWORK" --no_use_public_ips --service_account_email="$WORKER"
  call gcloud storage cp "$WORK/vocab.txt" "$HERE/there.txt"
  call cmp "$HERE/there.txt" "$HERE/vocab.txt"
}
records() { # a Dataflow job whose workers run the image
  call beambert data --input="$TEXT/*.jsonl" --vocab_file="$CONFIG/smoke/vocab.txt" --output="$WORK/records" \
    --max_seq_length=32 --sdk_container_image="$REGISTRY/beam:$COMMIT" --runner=DataflowRunner \
    --project="$PROJECT" --region="$REGION" --max_num_workers=2 --temp_location="gs://$BUCKET-work/tmp" \
    --labels=app=beambert --subnetwork="$SUBNETWORK" --no_use_public_ips --service_account_email="$WORKER"
}
tpu() { # training on a TPU
  vertex --release="$COMMIT" job --hours=2 -- pretrain --recipe=tiny --data="$WORK/records" \
    --model_dir="$WORK/tiny" --num_train_steps=20 --tpu=local --dtype=bfloat16
}
first() { # a run on any machine with its workspace in a bucket
  printf '$ sed s/BUCKET/%s/ deploy/smoke_first.toml > %s/first.toml\n' "$BUCKET" "$HERE"
  if [ -z "${DRY_RUN:-}" ]; then sed "s/BUCKET/$BUCKET/" deploy/smoke_first.toml >"$HERE/first.toml"; fi
  call beambert retrain --config="$HERE/first.toml"
}
delivery() { # a delivery and a wrong one, the whole pipeline, its lock and its end; permissions; an alert
  if [ -z "${DRY_RUN:-}" ]; then
    (cd "$HERE/corpus" && stat -c "{\"path\": \"$TEXT/%n\", \"bytes\": %s}" documents-00003*.jsonl) |
      jq -s '{files: .}' >"$HERE/second.manifest.json"
    echo "{\"files\": [{\"path\": \"$TEXT/no.jsonl\", \"bytes\": 1}]}" >"$HERE/wrong.manifest.json"
  fi
  call gcloud storage cp "$HERE"/corpus/documents-00003*.jsonl "$TEXT/" --no-clobber
  call gcloud storage cp "$HERE/wrong.manifest.json" "$HERE/second.manifest.json" "$TEXT/manifests/"
  vertex start
  await 120 gcloud storage cat "$WORK/runs/000002/result.json"
  echo 'the address of alert_email has mail now: a delivery was left out'
}
teardown() { # nothing is left that costs
  vertex stop
  call gcloud storage rm "$TEXT/**" "$CONFIG/**" "gs://$BUCKET-work/**" --all-versions --recursive || true # may be empty
  terraform_ destroy -auto-approve
}

STEPS=(resources corpus build deployment vocabulary records tpu first delivery teardown)
for step in "${@:-${STEPS[@]}}"; do
  [[ " ${STEPS[*]} " == *" $step "* ]] || { echo "$step: not a step; choose from ${STEPS[*]}" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- "${STEPS[@]}"
mkdir -p "$HERE"
for step in "$@"; do echo "[$step]"; "$step"; done
