# Applies everything with stand-ins for the providers:
#   terraform init -backend=false && terraform test

mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012", billing_account = "012345-567890-ABCDEF" }
  }
  mock_data "google_storage_project_service_account" {
    defaults = { member = "serviceAccount:service-123456789012@gs-project-accounts.iam.gserviceaccount.com" }
  }
  mock_resource "google_service_account" {
    defaults = {
      name   = "projects/a-project/serviceAccounts/beambert@a-project.iam.gserviceaccount.com"
      member = "serviceAccount:beambert@a-project.iam.gserviceaccount.com"
    }
  }
}

mock_provider "google-beta" {
  mock_resource "google_project_service_identity" {
    defaults = { member = "serviceAccount:service-123456789012@gcp-sa-service.iam.gserviceaccount.com" }
  }
}

variables {
  project        = "a-project"
  alert_email    = "a@b.org"
  deliverers     = ["group:editors@example.com"]
  operators      = ["group:operators@example.com"]
  approvers      = ["group:approvers@example.com"]
  monthly_budget = 500
}

run "with_the_keys_of_google" {
  assert {
    condition     = alltrue([for bucket in google_storage_bucket.of : length(bucket.encryption) == 0])
    error_message = "No bucket has a key of its own."
  }
  assert {
    condition     = length(google_kms_crypto_key_iam_member.encrypting) == 0
    error_message = "Nobody needs a key."
  }
  assert {
    condition     = google_compute_subnetwork.beambert.private_ip_google_access
    error_message = "Machines without addresses reach Google's services."
  }
}

run "with_a_custom_key" {
  variables {
    kms_key = "projects/a-project/locations/us-central1/keyRings/ring/cryptoKeys/key"
  }
  assert {
    condition = alltrue([
      for bucket in google_storage_bucket.of : bucket.encryption[0].default_kms_key_name == var.kms_key
    ])
    error_message = "Every bucket has the key."
  }
  assert {
    condition     = length(google_kms_crypto_key_iam_member.encrypting) == 5
    error_message = "Each service that keeps data may use the key."
  }
}

run "with_an_invalid_key" {
  command = plan
  variables {
    kms_key = "my-key"
  }
  expect_failures = [var.kms_key]
}

run "with_untouched_settings" {
  command = plan
  variables {
    project     = "my-project"
    alert_email = "ml-platform@example.com"
  }
  expect_failures = [var.project, var.alert_email]
}
