# One page with what the retraining does, costs and says.

locals {
  # Title of a chart -> its metric, with the label that divides it.
  charts = {
    "Starts that planned, by day" = {
      filter = "resource.type=\"ml_job\" AND metric.type=\"logging.googleapis.com/user/${google_logging_metric.of["beambert-plans"].name}\""
      period = "86400s", aligner = "ALIGN_SUM", by = []
    }
    "Runs that ended, by day" = {
      filter = "resource.type=\"ml_job\" AND metric.type=\"logging.googleapis.com/user/${google_logging_metric.of["beambert-ends"].name}\""
      period = "86400s", aligner = "ALIGN_SUM", by = []
    }
    "Arrivals, by result" = {
      filter = "resource.type=\"workflows.googleapis.com/Workflow\" AND metric.type=\"workflows.googleapis.com/finished_execution_count\""
      period = "3600s", aligner = "ALIGN_SUM", by = ["metric.label.status"]
    }
    "vCPUs of Dataflow jobs" = {
      filter = "resource.type=\"dataflow_job\" AND metric.type=\"dataflow.googleapis.com/job/current_num_vcpus\""
      period = "300s", aligner = "ALIGN_MAX", by = ["resource.label.job_name"]
    }
    "Requests to the endpoint" = {
      filter = "resource.type=\"aiplatform.googleapis.com/Endpoint\" AND metric.type=\"aiplatform.googleapis.com/prediction/online/prediction_count\""
      period = "300s", aligner = "ALIGN_RATE", by = ["metric.label.deployed_model_id"]
    }
    "Bytes in the buckets" = {
      filter = "resource.type=\"gcs_bucket\" AND metric.type=\"storage.googleapis.com/storage/v2/total_bytes\""
      period = "86400s", aligner = "ALIGN_MEAN", by = ["resource.label.bucket_name"]
    }
  }
}

resource "google_monitoring_dashboard" "retraining" {
  dashboard_json = jsonencode({
    displayName = "BeamBERT"
    gridLayout = {
      columns = "2"
      widgets = concat(
        [for title, chart in local.charts : {
          title = title
          xyChart = {
            dataSets = [{
              plotType = "LINE"
              timeSeriesQuery = {
                timeSeriesFilter = {
                  filter = chart.filter
                  aggregation = {
                    alignmentPeriod    = chart.period
                    perSeriesAligner   = chart.aligner
                    crossSeriesReducer = "REDUCE_SUM"
                    groupByFields      = chart.by
                  }
                }
              }
            }]
          }
        }],
        [{
          title     = "What the steps say"
          logsPanel = { filter = "resource.type=\"ml_job\" AND (severity>=WARNING OR \"beambert\")" }
        }],
      )
    }
  })
}
