# A bucket for each kind of file, because each kind has other writers:
#   -text    what is delivered
#   -config  what decides a run: vocabulary, task, configuration, pipeline
#   -work    what runs make: records, models, served versions, temporary files

locals {
  # Days for which overwritten and deleted objects can be restored. A run deletes many checkpoints.
  restorable_days = { text = 30, config = 365, work = 3 }
}

resource "google_storage_bucket" "of" {
  # checkov:skip=CKV_GCP_62:Cloud Audit Logs of the organisation tell who reads and writes.
  for_each                    = local.restorable_days
  name                        = "${local.bucket}-${each.key}"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning { enabled = true }
  soft_delete_policy { retention_duration_seconds = 0 }
  lifecycle_rule {
    condition {
      days_since_noncurrent_time = each.value
    }
    action { type = "Delete" }
  }
  # A run that is over needs its records and predictions no more: `--since` reads info.json next to them.
  dynamic "lifecycle_rule" {
    for_each = each.key == "work" ? [180] : []
    content {
      condition {
        age            = lifecycle_rule.value
        matches_prefix = ["retraining/runs/", "trial/runs/"]
        matches_suffix = [".tfrecord", ".tfrecord.gz"]
      }
      action { type = "Delete" }
    }
  }
  # Deletes files that Dataflow staged, temporary files of killed jobs, and files of old pipelines.
  dynamic "lifecycle_rule" {
    for_each = each.key == "work" ? { "tmp/" = 7, "pipeline/" = 90 } : {}
    content {
      condition {
        age            = lifecycle_rule.value
        matches_prefix = [lifecycle_rule.key]
      }
      action { type = "Delete" }
    }
  }
  depends_on = [google_project_service.needed]
}
