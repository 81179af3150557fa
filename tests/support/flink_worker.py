"""Starts a worker of Beam as a process, as the boot program does in Beam's containers."""

import argparse
import os

import grpc
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
)
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import json_format, text_format

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--id")
    parser.add_argument("--provision_endpoint")
    flags = parser.parse_args()
    with grpc.insecure_channel(flags.provision_endpoint) as channel:
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = service.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(), metadata=[("worker_id", flags.id)]
        ).info
    os.environ |= {
        "WORKER_ID": flags.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "SEMI_PERSISTENT_DIRECTORY": os.getcwd(),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    # A TaskManager names nothing but the provision service, which tells the other addresses.
    for name, each in {"LOGGING": info.logging_endpoint, "CONTROL": info.control_endpoint}.items():
        descriptor = text_format.MessageToString(each, as_one_line=True)
        os.environ[f"{name}_API_SERVICE_DESCRIPTOR"] = descriptor
    sdk_worker_main.main([])
