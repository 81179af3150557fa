# Tells the team what it must look at. A run whose model was refused has not failed.

resource "google_monitoring_notification_channel" "team" {
  display_name = "BeamBERT"
  type         = "email"
  labels = {
    email_address = var.alert_email
  }
  depends_on = [google_project_service.needed]
}

locals {
  # The texts are those that `beambert retrain` and `beambert.deploy.vertex` print.
  alerts = {
    "A retraining has failed"                 = "resource.type=\"aiplatform.googleapis.com/PipelineJob\" AND severity>=ERROR"
    "A training job waits for its machine"    = "resource.type=\"ml_job\" AND \"has been queued for\""
    "A delivery was left out"                 = "resource.type=\"ml_job\" AND \"was left out\""
    "No retraining has ended for a long time" = "resource.type=\"ml_job\" AND \"no run has ended since\""
  }
}

# What the mail says beside its name.
locals {
  advice = {
    "A retraining has failed"                    = "What is served stays. The log of the pipeline's step that failed ends with a sentence that names the cause and the remedy. Mend it, and start: the run goes on where it stopped. If the step `release` failed, a training job may still be at work: cancel it on Vertex's page of custom jobs."
    "A training job waits for its machine"       = "Look at the quota of `trainer` in terraform.tfvars, or name other `training_regions` there. The job takes the machine as soon as one is free."
    "A delivery was left out"                    = "The log names the manifest and what is wrong. Have the files delivered again under new names, and delete the wrong manifest: each start reports it until it is gone."
    "No retraining has ended for a long time"    = "Either nothing was delivered, or each run fails: look at the newest files in the bucket of text, and at the newest run of the pipeline."
    "An arrival could not start the retraining"  = "Look at the execution of the workflow beambert-arrival that failed. The next start by schedule takes the delivery."
    "An arrival was not delivered"               = "`gcloud pubsub subscriptions pull beambert-dead-letters` shows it. The next start by schedule takes the delivery."
    "A Dataflow job runs for more than 13 hours" = "The configuration ends a job after twelve hours, so this one is of other origin or stands still. Cancel it on Dataflow's page, and start: the run makes its records again."
    "No retraining was planned for a day"        = "Look at the schedule beambert on Vertex's page of schedules. `python -m beambert.deploy.vertex --release=COMMIT deploy` makes it again."
  }
}

resource "google_monitoring_alert_policy" "log" {
  for_each     = local.alerts
  display_name = each.key
  combiner     = "OR"
  conditions {
    display_name = each.key
    condition_matched_log {
      filter = each.value
    }
  }
  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }
  documentation {
    mime_type = "text/markdown"
    content   = local.advice[each.key]
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}

# Conditions on metrics that must not be above a limit.
locals {
  limits = {
    "An arrival could not start the retraining" = {
      filter = "resource.type=\"workflows.googleapis.com/Workflow\" AND metric.type=\"workflows.googleapis.com/finished_execution_count\" AND metric.label.status=\"FAILED\""
      above  = 0, period = "300s", aligner = "ALIGN_SUM"
    }
    "An arrival was not delivered" = {
      filter = "resource.type=\"pubsub_subscription\" AND metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.label.subscription_id=\"${google_pubsub_subscription.dead_letters.name}\""
      above  = 0, period = "300s", aligner = "ALIGN_MAX"
    }
    # The configuration ends a job after twelve hours.
    "A Dataflow job runs for more than 13 hours" = {
      filter = "resource.type=\"dataflow_job\" AND metric.type=\"dataflow.googleapis.com/job/elapsed_time\""
      above  = 46800, period = "300s", aligner = "ALIGN_MAX"
    }
  }
}

resource "google_monitoring_alert_policy" "limit" {
  for_each     = local.limits
  display_name = each.key
  combiner     = "OR"
  conditions {
    display_name = each.key
    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.above
      duration        = "0s"
      aggregations {
        alignment_period   = each.value.period
        per_series_aligner = each.value.aligner
      }
    }
  }
  documentation {
    mime_type = "text/markdown"
    content   = local.advice[each.key]
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}

resource "google_logging_metric" "of" {
  for_each = {
    # Every start says that it has planned, and every run how it ended.
    beambert-plans = "\"outcome of the plan\""
    beambert-ends  = "(\": published: \" OR \": refused: \")"
  }
  name   = each.key
  filter = "resource.type=\"ml_job\" AND ${each.value}"
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }
  depends_on = [google_project_service.needed]
}

# The schedule itself may have stopped.

resource "google_monitoring_alert_policy" "no_plan" {
  display_name = "No retraining was planned for a day"
  combiner     = "OR"
  conditions {
    display_name = "no plan"
    condition_absent {
      filter   = "resource.type=\"ml_job\" AND metric.type=\"logging.googleapis.com/user/${google_logging_metric.of["beambert-plans"].name}\""
      duration = "84600s" # Monitoring allows at most 23.5 hours
      aggregations {
        alignment_period   = "3600s"
        per_series_aligner = "ALIGN_COUNT"
      }
    }
  }
  documentation {
    mime_type = "text/markdown"
    content   = local.advice["No retraining was planned for a day"]
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}

resource "google_billing_budget" "month" {
  count           = var.billing_account == "" ? 0 : 1
  billing_account = var.billing_account
  display_name    = "BeamBERT"
  budget_filter {
    projects = ["projects/${var.project}"]
    labels   = { app = "beambert" }
  }
  amount {
    specified_amount {
      units = tostring(var.monthly_budget)
    }
  }
  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1.0]
    content {
      threshold_percent = threshold_rules.value
    }
  }
  all_updates_rule {
    monitoring_notification_channels = [google_monitoring_notification_channel.team.id]
  }
}
