"""Starts a worker of Beam as a process, as the boot program does in Beam's containers."""

import argparse
import os

import grpc
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    endpoints_pb2,
)
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import json_format, text_format

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("id", "logging", "artifact", "provision", "control"):
        parser.add_argument(f"--{name}" if name == "id" else f"--{name}_endpoint")
    flags, _ = parser.parse_known_args()
    with grpc.insecure_channel(flags.provision_endpoint) as channel:
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = service.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(), metadata=[("worker_id", flags.id)]
        ).info
    os.environ |= {
        "WORKER_ID": flags.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "SEMI_PERSISTENT_DIRECTORY": os.getcwd(),
    }
    endpoints = {"LOGGING": flags.logging_endpoint, "CONTROL": flags.control_endpoint}
    for name, url in endpoints.items():
        descriptor = text_format.MessageToString(
            endpoints_pb2.ApiServiceDescriptor(url=url), as_one_line=True
        )
        os.environ[f"{name}_API_SERVICE_DESCRIPTOR"] = descriptor
    sdk_worker_main.main([])
