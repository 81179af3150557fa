"""The memory that is free on this machine."""

import contextlib
import pathlib
import re
import resource


def free_bytes(root: str = "/") -> int | None:
    """Returns the memory that this process can still take; None if the system does not say.

    That is the least of what the machine has free and what the limits of control groups and of the
    process leave.

    Args:
      root: folder with `proc` and `sys`.
    """
    proc = pathlib.Path(root, "proc")
    found = [_number(proc / "meminfo", r"MemAvailable:\s+(\d+)", 1024)]
    groups = pathlib.Path(root, "sys/fs/cgroup")
    with contextlib.suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                folder = groups / controllers / path.lstrip("/")
                found += [_left_in(each) for each in (folder, *folder.parents)]
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY:
            used = _number(proc / "self/status", rf"{name}:\s+(\d+)", 1024)
            found.append(limit - (used or 0))
    return min((max(bytes_, 0) for bytes_ in found if bytes_ is not None), default=None)


def _left_in(group: pathlib.Path) -> int | None:
    """Returns the memory that a control group leaves, of version 2 or 1; None without a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        most, taken = (_number(group / name, r"^(\d+)$") for name in (limit, used))
        if most is not None and taken is not None:
            # The system gives back the cache of files before it refuses memory.
            cache = _number(group / "memory.stat", r"^(?:total_)?inactive_file (\d+)$") or 0
            return most - taken + cache
    return None


def _number(path: pathlib.Path, pattern: str, unit: int = 1) -> int | None:
    try:
        found = re.search(pattern, path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * unit if found else None
