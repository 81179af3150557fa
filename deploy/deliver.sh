#!/bin/sh
# Delivers files of text: copies them, and then the manifest that makes them a delivery.
#   deploy/deliver.sh gs://PROJECT-beambert-text FILE…
set -eu
bucket=${1%/}
shift
manifest=$(mktemp)
trap 'rm -f "$manifest"' EXIT
separator='{"files": ['
for file in "$@"; do
  printf '%s{"path": "%s/%s", "bytes": %s}' "$separator" "$bucket" "$(basename "$file")" "$(wc -c <"$file")"
  separator=', '
done >"$manifest"
echo ']}' >>"$manifest"
# A file that is there already is not replaced: runs have taken it.
gcloud storage cp --no-clobber "$@" "$bucket/"
gcloud storage cp "$manifest" "$bucket/manifests/$(date -u +%Y-%m-%dT%H%M%S).manifest.json"
