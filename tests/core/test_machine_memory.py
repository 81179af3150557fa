"""The memory that is free, by the files of a system."""

import resource

import pytest

from beambert.machine_memory import free_bytes


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with 9 GB free, and functions for its files and its process's limits."""
    limits = {}
    unlimited = resource.RLIM_INFINITY
    monkeypatch.setattr(
        resource, "getrlimit", lambda kind: (limits.get(kind, unlimited), unlimited)
    )

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable:   {9 << 20} kB\n")
    write("proc/self/status", f"VmSize: {2 << 20} kB\nVmData: {1 << 20} kB\n")
    return tmp_path, write, limits


def test_the_memory_of_the_machine(system):
    assert free_bytes(system[0]) == 9 << 30
    assert free_bytes(system[0] / "nothing") is None


def test_limits_of_control_groups(system):
    root, write, _ = system
    write("proc/self/cgroup", "0::/jobs/mine\n")
    write("sys/fs/cgroup/jobs/mine/memory.max", "max\n")
    write("sys/fs/cgroup/jobs/mine/memory.current", "1\n")
    assert free_bytes(root) == 9 << 30
    write("sys/fs/cgroup/jobs/memory.max", f"{6 << 30}\n")
    write("sys/fs/cgroup/jobs/memory.current", f"{3 << 30}\n")
    write("sys/fs/cgroup/jobs/memory.stat", f"anon 1\ninactive_file {1 << 30}\n")
    assert free_bytes(root) == 4 << 30
    # Version 1, as a container sees it: its own group is the root.
    write("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu:/docker/abc\n")
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 << 30}\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{3 << 30}\n")
    assert free_bytes(root) == 0


def test_limits_of_the_process(system):
    root, _, limits = system
    limits[resource.RLIMIT_AS] = 6 << 30
    assert free_bytes(root) == 4 << 30
    limits[resource.RLIMIT_DATA] = 3 << 30
    assert free_bytes(root) == 2 << 30
