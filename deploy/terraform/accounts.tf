# Service accounts and their roles. Each has only the roles that it needs, and none has a key.

locals {
  accounts = {
    beambert-build    = "Builds images."
    beambert-pipeline = "Runs the retraining's components."
    beambert-worker   = "Dataflow's workers."
    beambert-trainer  = "Training jobs."
  }
  project_roles = {
    beambert-build = [
      "roles/logging.logWriter", # cloudbuild.builds.builder would write to every bucket
    ]
    beambert-pipeline = [
      "roles/aiplatform.user",
      "roles/compute.viewer", # Dataflow looks up machine types
      "roles/dataflow.developer",
      "roles/logging.logWriter",
    ]
    beambert-worker = [
      "roles/dataflow.worker",
      "roles/logging.logWriter",
    ]
    beambert-trainer = [
      "roles/logging.logWriter",
    ]
  }
  # TensorFlow reads the bucket itself, to make a folder at its top and to look for one, which the other
  # roles do not allow.
  reads  = ["roles/storage.objectViewer", "roles/storage.legacyBucketReader"]
  writes = ["roles/storage.objectUser", "roles/storage.legacyBucketReader"]
  bucket_roles = {
    text = {
      beambert-pipeline = local.reads
      beambert-worker   = local.reads
    }
    config = {
      beambert-build    = local.reads # gcloud lists a destination before it writes
      beambert-pipeline = local.reads
      beambert-worker   = local.reads
      beambert-trainer  = local.reads
    }
    work = {
      beambert-build    = local.reads # the sources of a build
      beambert-pipeline = local.writes
      beambert-worker   = local.writes
      beambert-trainer  = local.writes
    }
  }
  # Pairs of an account and another one under which it starts jobs.
  acts_as = {
    pipeline-worker  = ["beambert-pipeline", "beambert-worker"]
    pipeline-trainer = ["beambert-pipeline", "beambert-trainer"]
  }
  member = {
    for name, account in google_service_account.of : name => "serviceAccount:${account.email}"
  }
}

resource "google_service_account" "of" {
  for_each    = local.accounts
  account_id  = each.key
  description = each.value
  depends_on  = [google_project_service.needed]
}

resource "google_project_iam_member" "of" {
  for_each = merge([
    for name, roles in local.project_roles : {
      for role in roles : "${name} ${role}" => { name = name, role = role }
    }
  ]...)
  project = var.project
  role    = each.value.role
  member  = local.member[each.value.name]
}

resource "google_storage_bucket_iam_member" "of" {
  for_each = merge(flatten([
    for bucket, accounts in local.bucket_roles : [
      for name, roles in accounts : {
        for role in roles : "${bucket} ${name} ${role}" => { bucket = bucket, name = name, role = role }
      }
    ]
  ])...)
  bucket = google_storage_bucket.of[each.value.bucket].name
  role   = each.value.role
  member = local.member[each.value.name]
}

# The build writes the list of a release's images, and nothing else that decides a run.
resource "google_storage_bucket_iam_member" "build" {
  bucket = google_storage_bucket.of["config"].name
  role   = "roles/storage.objectUser"
  member = local.member["beambert-build"]
  condition {
    title      = "images"
    expression = "resource.name.startsWith('projects/_/buckets/${var.bucket}-config/objects/builds/')"
  }
}

resource "google_service_account_iam_member" "acts_as" {
  for_each           = local.acts_as
  service_account_id = google_service_account.of[each.value[1]].name
  role               = "roles/iam.serviceAccountUser"
  member             = local.member[each.value[0]]
}

resource "google_artifact_registry_repository_iam_member" "reader" {
  for_each   = toset(["beambert-pipeline", "beambert-worker", "beambert-trainer"])
  repository = google_artifact_registry_repository.images.name
  location   = var.region
  role       = "roles/artifactregistry.reader"
  member     = local.member[each.value]
}

resource "google_artifact_registry_repository_iam_member" "build" {
  repository = google_artifact_registry_repository.images.name
  location   = var.region
  role       = "roles/artifactregistry.writer"
  member     = local.member["beambert-build"]
}
