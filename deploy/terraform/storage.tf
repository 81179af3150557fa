# One bucket: text/, vocab.txt, retrain.toml, retraining/ (runs and what is served), tmp/.

resource "google_storage_bucket" "all" {
  name                        = var.bucket
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  # What was overwritten or deleted by mistake can be had back for a month, and needs no other copy.
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
  # What Dataflow stages, and what is spilled of jobs that were killed.
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
