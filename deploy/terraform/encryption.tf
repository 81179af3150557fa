# With kms_key, all data is encrypted with that key. Google's services use it under accounts of their
# own, which must exist and have its role before anything is made.

locals {
  # Services that make their account when they are asked to.
  identities = var.kms_key == "" ? [] : [
    "artifactregistry.googleapis.com",
    "dataflow.googleapis.com",
  ]
  kms_key = var.kms_key == "" ? null : var.kms_key
  # Dataflow's workers are machines of Compute Engine.
  compute = "serviceAccount:service-${data.google_project.this.number}@compute-system.iam.gserviceaccount.com"
  kms_users = var.kms_key == "" ? {} : merge(
    { for service, identity in google_project_service_identity.encrypting : service => identity.member },
    {
      "aiplatform.googleapis.com" = google_project_service_identity.vertex.member
      "storage.googleapis.com"    = data.google_storage_project_service_account.storage.member
      "compute.googleapis.com"    = local.compute
    },
  )
}

data "google_storage_project_service_account" "storage" {
  depends_on = [google_project_service.needed]
}

# Vertex AI's own account runs the components, also without a key.
resource "google_project_service_identity" "vertex" {
  provider   = google-beta
  project    = var.project
  service    = "aiplatform.googleapis.com"
  depends_on = [google_project_service.needed]
}

data "google_project" "this" {
  project_id = var.project
  depends_on = [google_project_service.needed]
}

resource "google_project_service_identity" "encrypting" {
  for_each   = toset(local.identities)
  provider   = google-beta
  project    = var.project
  service    = each.value
  depends_on = [google_project_service.needed]
}

resource "google_kms_crypto_key_iam_member" "encrypting" {
  for_each      = local.kms_users
  crypto_key_id = var.kms_key
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value
}
