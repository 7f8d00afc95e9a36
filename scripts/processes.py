"""Processes of this machine, as /proc has them: their parents, and the stacks of their threads."""

import os
import shutil
import subprocess
from pathlib import Path


def kill(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def parent_of(process):
    """Its parent; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def is_launcher(process):
    """Whether it is a launcher of Open MPI."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return False
    return command.rpartition("/")[2] in ("mpirun.openmpi", "orterun")


def family(leader):
    """The leader, all its descendants, and what else is in its session."""
    children, session = {}, []
    for entry in Path("/proc").iterdir():
        try:
            # Behind the name, which may hold spaces: state, parent, group, session.
            state = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, NotADirectoryError):
            continue
        if entry.name.isdigit() and state[0] != "Z":
            children.setdefault(int(state[1]), []).append(int(entry.name))
            if int(state[3]) == leader:
                session.append(int(entry.name))
    found, open_ = [], [leader, *session]
    while open_:
        process = open_.pop(0)
        if process not in found:
            found.append(process)
            open_ += children.get(process, [])
    return found


def print_stacks(processes, out):
    """Prints the stacks of all threads of these processes, by gdb or eu-stack if there is one."""
    tools = [["gdb", "-nx", "-batch", "-ex", "set print frame-arguments none", "-ex", "thread apply all -q bt 30", "-p"],
             ["eu-stack", "-p"]]
    tool = next((tool for tool in tools if shutil.which(tool[0])), None)
    if tool is None:
        print("(no gdb and no eu-stack: install one of them to see stacks)", file=out)
    # A machine full of ranks: the first ones tell enough.
    for process in processes[:24]:
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        print(f"\n--- process {process}: {command[:300]}", file=out, flush=True)
        if tool is not None:
            try:
                found = subprocess.run([*tool, str(process)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, text=True,
                                       errors="replace")
                lines = (found.stdout or found.stderr).splitlines()
                print("\n".join(line for line in lines if line.startswith(("#", "Thread", "TID")) or line[:1] == " "), file=out,
                      flush=True)
            except subprocess.TimeoutExpired:
                print("(no stacks within 60 s)", file=out)
