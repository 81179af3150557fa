# One bucket for text/, vocab.txt, retrain.toml, retraining/ (runs and served versions) and tmp/.

resource "google_storage_bucket" "all" {
  name                        = var.bucket
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  # Overwritten and deleted objects can be restored for a month, so no other backup is needed.
  versioning {
    enabled = true
  }
  soft_delete_policy {
    retention_duration_seconds = 0
  }
  lifecycle_rule {
    condition {
      days_since_noncurrent_time = 30
    }
    action {
      type = "Delete"
    }
  }
  # Deletes files that Dataflow staged and temporary files of killed jobs.
  lifecycle_rule {
    condition {
      age            = 7
      matches_prefix = ["tmp/"]
    }
    action {
      type = "Delete"
    }
  }
  lifecycle_rule {
    condition {
      age            = 90
      matches_prefix = ["pipeline/"]
    }
    action {
      type = "Delete"
    }
  }
}
