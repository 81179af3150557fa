"""The memory that is free, by the files of a system."""

import pytest

from beambert.process import free_bytes


@pytest.fixture
def system(tmp_path):
    """A system with 9 GB free, and a function that writes its files."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable:   {9 << 20} kB\n")
    return tmp_path, write


def test_the_memory_of_the_machine(system):
    assert free_bytes(system[0]) == 9 << 30
    assert free_bytes(system[0] / "nothing") is None


def test_limits_of_control_groups(system):
    """Of a container, whose own group is the root."""
    root, write = system
    write("sys/fs/cgroup/memory.max", "max\n")
    write("sys/fs/cgroup/memory.current", "1\n")
    assert free_bytes(root) == 9 << 30
    write("sys/fs/cgroup/memory.max", f"{6 << 30}\n")
    write("sys/fs/cgroup/memory.current", f"{3 << 30}\n")
    write("sys/fs/cgroup/memory.stat", f"anon 1\ninactive_file {1 << 30}\n")
    assert free_bytes(root) == 4 << 30
    # Version 1.
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 << 30}\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{3 << 30}\n")
    assert free_bytes(root) == 0
