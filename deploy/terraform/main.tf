# The resources of a project that the retraining needs; `make cloud` applies them.

terraform {
  required_version = ">= 1.5"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.0"
    }
  }
  # The state's bucket is made by `make cloud` before anything else.
  backend "gcs" {
    prefix = "beambert"
  }
}

provider "google" {
  project = var.project
  region  = var.region
  # This project's quota counts, whatever project the credentials are of.
  user_project_override = true
  billing_project       = var.project
  # The label tells the costs of these resources from others.
  default_labels = { app = "beambert" }
}

resource "google_project_service" "needed" {
  for_each = toset([
    "aiplatform.googleapis.com",
    "artifactregistry.googleapis.com",
    "cloudbilling.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "dataflow.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "storage.googleapis.com",
  ])
  service            = each.value
  disable_on_destroy = false
}

resource "google_artifact_registry_repository" "images" {
  repository_id = "beambert"
  location      = var.region
  format        = "DOCKER"
  description   = "Images of the Beam jobs and the trainers."
  depends_on    = [google_project_service.needed]
}
