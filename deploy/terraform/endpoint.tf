# Watches the versions that the endpoint serves, also after their trial (vertex/canary.py). Vertex AI
# counts for each deployed model, so a version with a small share is seen, too.

locals {
  endpoint = "resource.type=\"aiplatform.googleapis.com/Endpoint\" AND metric.type=\"aiplatform.googleapis.com/prediction/online"
  # The greatest share of a version's requests that may fail by its own fault within ten minutes, as in
  # its trial, and the greatest time in milliseconds of 95 % of them.
  failed_share   = 0.02
  slowest_answer = 1000
}

resource "google_monitoring_alert_policy" "served_version" {
  display_name = "A served version fails or is slow"
  combiner     = "OR"
  conditions {
    display_name = "more than 2 % of a version's requests fail"
    condition_threshold {
      # Wrong requests have 4xx, and are not the version's fault.
      filter             = "${local.endpoint}/response_count\" AND metric.label.response_code=monitoring.regex.full_match(\"5..\")"
      denominator_filter = "${local.endpoint}/response_count\""
      comparison         = "COMPARISON_GT"
      threshold_value    = local.failed_share
      duration           = "0s"
      aggregations {
        alignment_period     = "600s"
        per_series_aligner   = "ALIGN_SUM"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["metric.label.deployed_model_id"]
      }
      denominator_aggregations {
        alignment_period     = "600s"
        per_series_aligner   = "ALIGN_SUM"
        cross_series_reducer = "REDUCE_SUM"
        group_by_fields      = ["metric.label.deployed_model_id"]
      }
    }
  }
  conditions {
    display_name = "a version's answers take more than a second"
    condition_threshold {
      filter          = "${local.endpoint}/prediction_latencies\""
      comparison      = "COMPARISON_GT"
      threshold_value = local.slowest_answer
      duration        = "300s"
      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_PERCENTILE_95"
      }
    }
  }
  documentation {
    mime_type = "text/markdown"
    content   = <<-EOT
      Take the version from the endpoint, so that the others get its requests:
      `python -m beambert.deploy.vertex serve RUN --share=0`. The label deployed_model_id names it on
      the endpoint's page, and its name there ends with the number of its run. If the new files made
      it worse, `beambert retrain --config=CONFIG --rollback` lets the next run begin before it.
    EOT
  }
  notification_channels = [google_monitoring_notification_channel.team.id]
}
