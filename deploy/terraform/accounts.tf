# Accounts and people, and their roles, by the table in roles.yaml.

locals {
  roles  = yamldecode(file("${path.module}/roles.yaml"))
  people = { deliverers = var.deliverers, operators = var.operators, approvers = var.approvers }
  # Account -> itself, kind of people -> who they are.
  holders = merge({ for name in keys(local.roles.accounts) : name => [name] }, local.people)
  # All roles as triples of where, whose and which.
  grants = {
    for grant in flatten([
      for kind, places in merge(local.roles.accounts, local.roles.people) : [
        for place, roles in places : [
          for pair in setproduct(local.holders[kind], roles) : { place = place, who = pair[0], role = pair[1] }
        ]
      ]
    ]) : "${grant.place} ${grant.who} ${grant.role}" => grant
  }
  members = { for name, account in google_service_account.of : name => account.member }
}

resource "google_service_account" "of" {
  for_each   = local.roles.accounts
  account_id = each.key
  depends_on = [google_project_service.needed]
}

resource "google_project_iam_custom_role" "operator" {
  role_id     = "beambertOperator"
  title       = "BeamBERT operator"
  description = "Watches and cancels pipelines and training jobs."
  permissions = local.roles.operator
  depends_on  = [google_project_service.needed]
}

resource "google_project_iam_member" "of" {
  for_each = { for key, grant in local.grants : key => grant if grant.place == "project" }
  project  = var.project
  role     = startswith(each.value.role, "roles/") ? each.value.role : google_project_iam_custom_role.operator.name
  member   = lookup(local.members, each.value.who, each.value.who)
}

resource "google_storage_bucket_iam_member" "of" {
  for_each = { for key, grant in local.grants : key => grant if contains(keys(local.restorable_days), grant.place) }
  bucket   = google_storage_bucket.of[each.value.place].name
  role     = each.value.role
  member   = lookup(local.members, each.value.who, each.value.who)
}

resource "google_artifact_registry_repository_iam_member" "of" {
  for_each   = { for key, grant in local.grants : key => grant if grant.place == "images" }
  repository = google_artifact_registry_repository.images.name
  location   = var.region
  role       = each.value.role
  member     = lookup(local.members, each.value.who, each.value.who)
}

resource "google_service_account_iam_member" "of" {
  for_each           = { for key, grant in local.grants : key => grant if grant.place == "acts_as" }
  service_account_id = google_service_account.of[each.value.role].name
  role               = "roles/iam.serviceAccountUser"
  member             = lookup(local.members, each.value.who, each.value.who)
}

# The build writes the list of a release's images, and nothing else that decides a run.
resource "google_storage_bucket_iam_member" "build" {
  bucket = google_storage_bucket.of["config"].name
  role   = "roles/storage.objectUser"
  member = local.members["beambert-build"]
  condition {
    title      = "images"
    expression = "resource.name.startsWith('projects/_/buckets/${local.bucket}-config/objects/builds/')"
  }
}
