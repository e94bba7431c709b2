"""How many processors this process may use: those of its affinity mask, and no more than its control group pays for.

A container that may use two processors of a machine with 64 sees all 64. Threads beyond its quota make the system stop
the whole process until the next period of, mostly, 100 ms.

And no more than OMP_NUM_THREADS. dask and torchrun, which start several processes on one machine, say by it what each
may take. They do not set NUMBA_NUM_THREADS.

Beside that, what the processor is called.
"""

import math
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS, MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def group_folders(groups: Path, membership: Path) -> Iterator[Path]:
    """Folders of the control groups that this process belongs to, each followed by those above it.

    A container mostly sees its own group as the root, whatever the path that `membership` names.
    """
    for line in membership.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2, alone or beside version 1
            roots = [groups, groups / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [groups / "cpu", groups / controllers]
        else:
            continue
        inner = Path(path.lstrip("/"))
        for root in roots:
            for folder in (inner, *inner.parents):
                yield root / folder


def quota_of(folder: Path) -> float:
    """Processors that a control group pays for; infinite if it sets no limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (folder / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    return math.inf


def quota(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> float:
    """Processors that this process' control groups pay for, such as 1.5; infinite where there is no limit."""
    try:
        return min(map(quota_of, group_folders(groups, membership)), default=math.inf)
    except (OSError, ValueError):  # no Linux, or no control groups
        return math.inf


def affinity() -> int:
    """Processors that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def allowed() -> float:
    """Threads that OMP_NUM_THREADS allows, whose first number is that of a loop; infinite if it is not set."""
    with suppress(ValueError):
        count = int(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0])
        return count if count > 0 else math.inf
    return math.inf


def model() -> str:
    """The name that its maker gave to the processor, where the system knows it."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def available() -> int:
    """Threads that can run at once. A part of a processor counts as a whole one, as it does for Java and .NET."""
    return max(1, math.ceil(min(affinity(), quota(), allowed())))
