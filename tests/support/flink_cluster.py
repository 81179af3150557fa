"""A cluster of Flink on this machine: a JobManager and TaskManagers, each a process."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
# What Flink's own start scripts open to it on Java 17 (env.java.opts.all).
OPENED = "lang lang.reflect net io text time util util.concurrent util.concurrent.atomic nio"
# Flink's scripts work these out of one size; without the scripts each has to be given.
MEMORY = {
    "task.heap.size": "256m",
    "task.off-heap.size": "0m",
    "framework.heap.size": "128m",
    "framework.off-heap.size": "128m",
    "managed.size": "64m",
    "network.min": "1g",
    "network.max": "1g",
    "jvm-metaspace.size": "256m",
    "jvm-overhead.min": "192m",
    "jvm-overhead.max": "192m",
}
BOOT = pathlib.Path(__file__).with_name("flink_worker.py")
SECONDS_TO_START = 180
SECONDS_TO_END = 60


class Cluster:
    """The processes of a cluster.

    Attributes:
      flags: Beam's flags for a job on the cluster.
      task_managers: processes of the TaskManagers.
    """

    def __init__(self, folder: pathlib.Path, jars: pathlib.Path):
        """Writes the settings; `start` starts the processes."""
        self._folder, self._jars = folder, jars
        self._processes: list[subprocess.Popen] = []
        self.task_managers: list[subprocess.Popen] = []
        rpc, self._rest, self._jobs, self._artifacts = free_ports(4)
        settings = {
            "jobmanager.rpc.address": "localhost",
            "jobmanager.rpc.port": rpc,
            "rest.address": "localhost",
            "rest.port": self._rest,
            "taskmanager.host": "localhost",
            "taskmanager.numberOfTaskSlots": 2,
            "taskmanager.cpu.cores": 1,
            **{f"taskmanager.memory.{name}": size for name, size in MEMORY.items()},
            "io.tmp.dirs": folder,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 5,
            "restart-strategy.fixed-delay.delay": "2 s",
            "heartbeat.interval": 2000,
            "heartbeat.timeout": 20000,
        }
        lines = [f"{name}: {value}" for name, value in settings.items()]
        (folder / "flink-conf.yaml").write_text("\n".join(lines))
        boot = folder / "boot"
        boot.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(BOOT)])} "$@"\n')
        boot.chmod(0o755)
        self.flags = [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{self._jobs}",
            f"--artifact_endpoint=localhost:{self._artifacts}",
            "--environment_type=PROCESS",
            f"--environment_config={json.dumps({'command': str(boot)})}",
            "--parallelism=4",
        ]

    def start(self) -> None:
        """Starts the processes and waits until they answer."""
        self._java(JOB_MANAGER, f"--configDir={self._folder}")
        wait_for(self._rest)
        self.start_task_manager()
        self.start_task_manager()
        self._java(
            JOB_SERVER,
            f"--flink-master=localhost:{self._rest}",
            f"--job-port={self._jobs}",
            f"--artifact-port={self._artifacts}",
            "--expansion-port=0",
            f"--artifacts-dir={self._folder / 'artifacts'}",
        )
        wait_for(self._jobs)

    def start_task_manager(self) -> None:
        """Adds a machine to the cluster."""
        self.task_managers.append(self._java(TASK_MANAGER, f"--configDir={self._folder}"))

    def lose_machine(self) -> None:
        """Kills a TaskManager and, as the loss of a machine does, its workers."""
        machine = self.task_managers.pop(0)
        lost = [worker for worker in self.workers() if parent_of(worker) == machine.pid]
        for process in (machine.pid, *lost):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        machine.wait()

    def workers(self) -> list[int]:
        """Returns the process numbers of the workers in Python."""
        found = []
        for words in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                # The address of the control service tells clusters apart, but this one is alone.
                if str(BOOT).encode() in words.read_bytes():
                    found.append(int(words.parent.name))
        return found

    def end_workers(self) -> None:
        """Waits for the workers of a job that is over, and kills those that stay.

        When a stage begins anew on a machine that wasn't lost, Beam may forget a worker there.
        """
        deadline = time.monotonic() + SECONDS_TO_END
        while self.workers() and time.monotonic() < deadline:
            time.sleep(0.1)
        for worker in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    def busiest_worker(self) -> int:
        """Returns the process number of the worker that computes most in a moment."""
        before = {worker: ticks_of(worker) for worker in self.workers()}
        time.sleep(0.2)  # Ticks are hundredths of a second, and a stage may be over in one second.
        return max(before, key=lambda worker: ticks_of(worker) - before[worker])

    def restarts(self) -> int:
        """Returns how often the JobManager has restarted a job."""
        (log,) = self._folder.glob(f"*-{JOB_MANAGER.rpartition('.')[2]}.log")
        return log.read_text().count(" to RESTARTING")

    def running_jobs(self) -> list[str]:
        """Returns the identifiers of the jobs that have not ended."""
        with urllib.request.urlopen(f"http://localhost:{self._rest}/jobs/overview") as answer:
            return [job["jid"] for job in json.load(answer)["jobs"] if job["end-time"] < 0]

    def log(self) -> str:
        """Returns the end of what the processes have logged."""
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in logs)

    def stop(self) -> None:
        """Ends all processes."""
        for process in self._processes:
            process.kill()
            process.wait()
        for worker in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    def _java(self, main: str, *arguments: str) -> subprocess.Popen:
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED.split()]
        opened.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
        opened.append("-XX:MaxDirectMemorySize=1400m")  # the network's and Flink's own
        command = ["java", "-Xmx384m", *opened, "-cp", f"{self._jars}/*", main, *arguments]
        log = self._folder / f"{len(self._processes)}-{main.rpartition('.')[2]}.log"
        environment = os.environ | {"FLINK_CONF_DIR": str(self._folder)}
        with log.open("w") as file:
            # The workers have another current folder than the command.
            process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=file, stderr=file
            )
        self._processes.append(process)
        return process


@contextlib.contextmanager
def started(folder: pathlib.Path, jars: pathlib.Path) -> Iterator[Cluster]:
    """Starts a cluster, and ends its processes afterwards."""
    cluster = Cluster(folder, jars)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def ticks_of(process: int) -> int:
    """Returns a process's time on processors so far in ticks of the kernel; 0 if it is gone."""
    return sum(_numbers_of(process)[10:12])


def parent_of(process: int) -> int:
    """Returns the number of the process that started a process; 0 if it is gone."""
    return sum(_numbers_of(process)[:1])


def _numbers_of(process: int) -> list[int]:
    """Returns the numbers behind the state of a process, see proc(5); none if it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return []
    return [int(number) for number in stat.rpartition(")")[2].split()[1:]]


def free_ports(count: int) -> list[int]:
    """Returns ports that nobody uses."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


def wait_for(port: int) -> None:
    """Returns once somebody answers at a port of this machine."""
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
            return
        assert time.monotonic() < deadline, f"nobody answers at port {port}"
        time.sleep(0.1)
