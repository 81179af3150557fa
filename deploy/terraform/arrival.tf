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
  # checkov:skip=CKV_GCP_49:The member is Google's own account for Eventarc.
  project = var.project
  role    = "roles/eventarc.serviceAgent"
  member  = google_project_service_identity.eventarc.member
}

# New roles take some minutes to hold; a trigger that is made before is refused.
resource "time_sleep" "roles_hold" {
  create_duration = "120s"
  depends_on = [
    google_project_iam_member.eventarc,
    google_project_iam_member.of,
  ]
}

# The bucket tells of manifests only. What else is delivered starts nothing.
resource "google_pubsub_topic" "manifests" {
  name         = "beambert-manifests"
  kms_key_name = local.kms_key
  depends_on   = [google_kms_crypto_key_iam_member.encrypting, google_project_service.needed]
}

resource "google_pubsub_topic_iam_member" "storage" {
  topic  = google_pubsub_topic.manifests.name
  role   = "roles/pubsub.publisher"
  member = data.google_storage_project_service_account.storage.member
}

resource "google_storage_notification" "manifests" {
  bucket             = google_storage_bucket.of["text"].name
  topic              = google_pubsub_topic.manifests.id
  payload_format     = "NONE"
  event_types        = ["OBJECT_FINALIZE"]
  object_name_prefix = "manifests/"
  depends_on         = [google_pubsub_topic_iam_member.storage]
}

resource "google_workflows_workflow" "arrival" {
  name                = "beambert-arrival"
  region              = var.region
  description         = "Starts the retraining some time after a manifest has arrived."
  service_account     = google_service_account.of["beambert-arrival"].email
  source_contents     = file("${path.module}/arrival.yaml")
  deletion_protection = false
  crypto_key_name     = local.kms_key
  user_env_vars = {
    PROJECT = var.project
    REGION  = var.region
    BUCKET  = google_storage_bucket.of["config"].name
  }
  depends_on = [google_kms_crypto_key_iam_member.encrypting, google_project_service.needed]
}

resource "google_eventarc_trigger" "arrival" {
  name            = "beambert-arrival"
  location        = var.region
  service_account = google_service_account.of["beambert-arrival"].email
  matching_criteria {
    attribute = "type"
    value     = "google.cloud.pubsub.topic.v1.messagePublished"
  }
  transport {
    pubsub {
      topic = google_pubsub_topic.manifests.id
    }
  }
  destination {
    workflow = google_workflows_workflow.arrival.id
  }
  depends_on = [time_sleep.roles_hold]
}

# A message that could not start the workflow ten times stays here for a month, and an alert tells of
# it. Eventarc makes the trigger's subscription itself, so a command in ../README.md names this topic
# to it. The schedule takes what was delivered in any case.
resource "google_pubsub_topic" "dead_letters" {
  name         = "beambert-dead-letters"
  kms_key_name = local.kms_key
  depends_on   = [google_kms_crypto_key_iam_member.encrypting, google_project_service.needed]
}

resource "google_pubsub_subscription" "dead_letters" {
  name                       = "beambert-dead-letters"
  topic                      = google_pubsub_topic.dead_letters.id
  message_retention_duration = "2678400s"
  expiration_policy {
    ttl = "" # never
  }
}

locals {
  arrivals = google_eventarc_trigger.arrival.transport[0].pubsub[0].subscription
  pubsub   = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

resource "google_pubsub_topic_iam_member" "dead_letters" {
  topic  = google_pubsub_topic.dead_letters.name
  role   = "roles/pubsub.publisher"
  member = local.pubsub
}

resource "google_pubsub_subscription_iam_member" "arrivals" {
  subscription = local.arrivals
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub
}

output "arrivals" {
  description = "Subscription of the trigger."
  value       = local.arrivals
}
