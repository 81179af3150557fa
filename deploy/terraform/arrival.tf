# Starts the pipeline after a manifest has arrived; see arrival.yaml.

data "google_storage_project_service_account" "storage" {
  depends_on = [google_project_service.needed]
}

# Eventarc's own account must be there before the first trigger.
resource "google_project_service_identity" "eventarc" {
  provider   = google-beta
  project    = var.project
  service    = "eventarc.googleapis.com"
  depends_on = [google_project_service.needed]
}

resource "google_project_iam_member" "eventarc" {
  project = var.project
  role    = "roles/eventarc.serviceAgent"
  member  = google_project_service_identity.eventarc.member
}

# New roles take some minutes to hold; a trigger that is made before is refused.
resource "time_sleep" "roles_hold" {
  create_duration = "120s"
  depends_on = [
    google_project_iam_member.eventarc,
    google_project_iam_member.events,
    google_project_iam_member.of,
  ]
}

# Pub/Sub carries the events of the bucket.
resource "google_project_iam_member" "events" {
  project = var.project
  role    = "roles/pubsub.publisher"
  member  = "serviceAccount:${data.google_storage_project_service_account.storage.email_address}"
}

resource "google_workflows_workflow" "arrival" {
  name                = "beambert-arrival"
  region              = var.region
  description         = "Starts the retraining some time after a manifest has arrived."
  service_account     = google_service_account.of["beambert-arrival"].email
  source_contents     = file("${path.module}/arrival.yaml")
  deletion_protection = false
  user_env_vars = {
    PROJECT = var.project
    REGION  = var.region
    BUCKET  = google_storage_bucket.of["config"].name
  }
  depends_on = [google_project_service.needed]
}

resource "google_eventarc_trigger" "arrival" {
  name            = "beambert-arrival"
  location        = var.region
  service_account = google_service_account.of["beambert-arrival"].email
  matching_criteria {
    attribute = "type"
    value     = "google.cloud.storage.object.v1.finalized"
  }
  matching_criteria {
    attribute = "bucket"
    value     = google_storage_bucket.of["text"].name
  }
  destination {
    workflow = google_workflows_workflow.arrival.id
  }
  depends_on = [time_sleep.roles_hold]
}
