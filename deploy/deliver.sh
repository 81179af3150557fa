#!/bin/sh
# Delivers files of text: copies them, and then the manifest that makes them a delivery.
#   deploy/deliver.sh gs://PROJECT-beambert-text FILE…
set -eu
[ $# -ge 2 ] || { echo "usage: $0 gs://PROJECT-beambert-text FILE…" >&2; exit 2; }
bucket=${1%/}
shift
manifest=$(mktemp)
trap 'rm -f "$manifest"' EXIT
separator='{"files": ['
for file in "$@"; do
  [ -f "$file" ] || { echo "$file: is no file; nothing was delivered" >&2; exit 2; }
  printf '%s{"path": "%s/%s", "bytes": %s}' "$separator" "$bucket" "$(basename "$file")" "$(wc -c <"$file")"
  separator=', '
done >"$manifest"
echo ']}' >>"$manifest"
# A file that is there already is not replaced: runs have taken it.
gcloud storage cp --no-clobber "$@" "$bucket/"
gcloud storage cp "$manifest" "$bucket/manifests/$(date -u +%Y-%m-%dT%H%M%S).manifest.json"
