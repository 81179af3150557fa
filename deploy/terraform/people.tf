# What people may do: deliverers add text, operators watch and cancel runs, approvers decide what
# runs and what is served. docs/cloud.md says it in words.

locals {
  people = {
    deliverer = var.deliverers
    operator  = var.operators
    approver  = var.approvers
  }
  people_project_roles = {
    deliverer = []
    operator = [
      google_project_iam_custom_role.operator.name,
      "roles/dataflow.developer",
      "roles/logging.viewer",
      "roles/monitoring.viewer",
    ]
    approver = [
      "roles/aiplatform.user",
      "roles/cloudbuild.builds.editor",
      "roles/compute.viewer", # Dataflow looks up machine types
      "roles/dataflow.developer",
      "roles/logging.viewer",
      "roles/serviceusage.serviceUsageConsumer", # builds are asked for in the project's name
    ]
  }
  # A deliverer can add an object and cannot replace or delete one.
  people_bucket_roles = {
    deliverer = { text = ["roles/storage.objectCreator", "roles/storage.objectViewer"] }
    operator = {
      text   = ["roles/storage.objectUser"]
      config = ["roles/storage.objectViewer"]
      work   = ["roles/storage.objectUser"]
    }
    approver = {
      text   = local.reads
      config = local.writes
      work   = local.writes # gcloud looks at the bucket that it stages a build's sources in
    }
  }
}

# roles/aiplatform.user could deploy any model, and run a job as an account of Vertex AI.
resource "google_project_iam_custom_role" "operator" {
  role_id     = "beambertOperator"
  title       = "BeamBERT operator"
  description = "Watches and cancels pipelines and training jobs."
  permissions = [
    "aiplatform.customJobs.cancel",
    "aiplatform.customJobs.get",
    "aiplatform.customJobs.list",
    "aiplatform.endpoints.get",
    "aiplatform.endpoints.list",
    "aiplatform.models.get",
    "aiplatform.models.list",
    "aiplatform.pipelineJobs.cancel",
    "aiplatform.pipelineJobs.get",
    "aiplatform.pipelineJobs.list",
    "aiplatform.schedules.get",
    "aiplatform.schedules.list",
  ]
}

resource "google_project_iam_member" "people" {
  for_each = merge(flatten([
    for kind, roles in local.people_project_roles : [
      for role in roles : { for who in local.people[kind] : "${who} ${role}" => [who, role] }
    ]
  ])...)
  project = var.project
  role    = each.value[1]
  member  = each.value[0]
}

resource "google_storage_bucket_iam_member" "people" {
  for_each = merge(flatten([
    for kind, buckets in local.people_bucket_roles : [
      for bucket, roles in buckets : [
        for role in roles : {
          for who in local.people[kind] : "${who} ${bucket} ${role}" => [who, bucket, role]
        }
      ]
    ]
  ])...)
  bucket = google_storage_bucket.of[each.value[1]].name
  role   = each.value[2]
  member = each.value[0]
}

# Whoever deploys, and learns a vocabulary on Dataflow, names the accounts that the jobs run as.
resource "google_service_account_iam_member" "approver" {
  for_each = {
    for pair in setproduct(
      ["beambert-build", "beambert-pipeline", "beambert-trainer", "beambert-worker"], var.approvers
    ) :
    "${pair[0]} ${pair[1]}" => pair
  }
  service_account_id = google_service_account.of[each.value[0]].name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value[1]
}
