"""What a process has used, from /proc: for the measurements beside this file."""

import pathlib


def processor_s(process):
    """Processor time of all threads that the process has now, seconds."""
    tasks = pathlib.Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def memory_kib(process):
    """Resident memory, KiB."""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])
