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
  notification_channels = [google_monitoring_notification_channel.team.id]
}

# The schedule itself may have stopped: every start says that it has planned.
resource "google_logging_metric" "plans" {
  name   = "beambert-plans"
  filter = "resource.type=\"ml_job\" AND \"outcome of the plan\""
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }
  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "no_plan" {
  display_name = "No retraining was planned for a day"
  combiner     = "OR"
  conditions {
    display_name = "no plan"
    condition_absent {
      filter   = "resource.type=\"ml_job\" AND metric.type=\"logging.googleapis.com/user/${google_logging_metric.plans.name}\""
      duration = "84600s" # Monitoring allows at most 23.5 hours
      aggregations {
        alignment_period   = "3600s"
        per_series_aligner = "ALIGN_COUNT"
      }
    }
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
