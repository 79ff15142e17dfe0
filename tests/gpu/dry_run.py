#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dry_run.py BUILD: tries gpu_check.py where there is no GPU; FAKE_GPU_KERNELS names the kernels' libraries, and
DDPRUN_BUILT_WITH_NVCC is 1 where the SDK has kernels of its own. Over the fake one every check has to pass or say what it lacks;
without one, and with one whose collectives fail or hang, the script has to say so and to end as it promises."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

import jobs

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
LIMIT_S = 240
# Emulated kernels on a busy machine.
SLOW = "--limits=12"
# Of what is not built here these checks are left out, and no others.
IF_BUILT = {
    "trainer, 1 rank": "libmnist_cuda.so", "trainer, 2 ranks share the GPU": "libmnist_cuda.so",
    "trainer, 4 ranks share the GPU": "libmnist_cuda.so", "trainer beside the processor": "libmnist_cuda.so",
    "a killed rank becomes a restart": "libmnist_cuda.so", "speed of MNIST, batch 128": "libmnist_cuda.so",
    "speed of CIFAR": "libcifar_cuda.so", "NCCL without MPI": "nccl_hello", "an adopted NCCL program loses a peer": "nccl_adopted"}
# They need the SDK's own kernels.
IF_NVCC = {"kernels beside the host", "a Reducer's steps, 1 rank", "a Reducer's steps, 2 ranks share the GPU"}
HAS_NVCC = os.environ["DDPRUN_BUILT_WITH_NVCC"] == "1"


def gpu_check(variables, *arguments):
    """(exit code, output)"""
    environment = {name: value for name, value in os.environ.items() if name not in ("DDPRUN_NCCL", "CUDA_VISIBLE_DEVICES")}
    done = subprocess.run(
        [sys.executable, HERE / "gpu_check.py", *arguments], env={**environment, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S)
    return done.returncode, done.stdout.decode(errors="replace")


def expect(holds, what, output):
    if not holds:
        sys.exit(f"{output}\nnot as expected: {what}")


def rows_in(out):
    """{check: row} of the last pass of each."""
    return {row["name"]: row for row in json.loads((pathlib.Path(out) / "results.json").read_text(encoding="utf-8"))}


def logs_in(out):
    """{name: text}"""
    with zipfile.ZipFile(pathlib.Path(out) / "logs.zip") as logs:
        return {name: logs.read(name).decode(errors="replace") for name in logs.namelist()}


def is_built(module):
    return any((BUILD / folder / module).exists() for folder in ("bin", "lib"))


def check_missing(folder, fake, out):
    code, output = gpu_check({"LD_LIBRARY_PATH": folder}, BUILD, out)
    if not pathlib.Path("/dev/nvidiactl").exists():
        expect(code == 77 and len(output.splitlines()) == 1, "one line, and the code of a skip", output)
        expect("libcuda.so.1" in output, "it names the driver", output)
        expect(output.startswith("SKIP the checks that need a GPU: "), "the form that scripts/report.awk shows", output)
    code, output = gpu_check({**fake, "FAKE_GPU_COUNT": "0"}, "--probe")
    expect(code == 77 and "finds no GPU" in output, "a driver without a GPU", output)
    code, output = gpu_check(fake, BUILD, out, "--sort")
    expect(code == 2 and "usage: " in output, "an option that there is not", output)


def check_all(fake, folder, out):
    code, output = gpu_check(fake, BUILD, out, "--short", SLOW)
    print(output)
    expect(code == 0, "exit code 0", "")
    for name, row in rows_in(folder).items():
        may_be_skipped = (name in IF_BUILT and not is_built(IF_BUILT[name])) or (name in IF_NVCC and not HAS_NVCC)
        result = row["result"]
        expect(result == "ok" or (result == "skipped" and may_be_skipped), f"{name}: {result}", "")
    expect("by_hand non_blocking" in "".join(logs_in(folder).values()), "logs of checks that went well are kept", "")


def seen_in(folder):
    rows = json.loads((pathlib.Path(folder) / "results.json").read_text(encoding="utf-8"))
    return [(row["a_pass"], row["name"], row["result"]) for row in rows]


def check_passes(fake, folder, out):
    """Every check short first; and in a second call from one on, without ways of NCCL's."""
    one, two = "groups made and aborted, 1 rank", "groups made and aborted, 2 ranks"
    code, output = gpu_check(fake, BUILD, out, SLOW, "--only=groups made")
    expect(code == 0, "exit code 0", output)
    seen = seen_in(folder)
    expect(seen == [("short", one, "ok"), ("short", two, "ok"), ("full", one, "ok"), ("full", two, "ok")], f"not {seen}", output)
    code, output = gpu_check(fake, BUILD, out, SLOW, "--only=groups made", "--from=sums, 2", "--full", "--without=mem_alloc,nvls")
    expect(code == 0 and "; without mem_alloc; without nvls" in output, "exit code 0", output)
    seen = seen_in(folder)
    expect(seen == [("full", two, "ok")], f"only what is left, not {seen}", output)


def check_failures(fake, folder, out):
    code, output = gpu_check({**fake, "FAKE_NCCL_FAIL": "ncclAllReduce:3"}, BUILD, out, SLOW, "--short", "--only=sums")
    expect(code == 1, "exit code 1 when checks fail", output)
    rows = rows_in(folder)
    expect(rows["sums, 1 rank"]["result"] == "FAILED", "one rank fails", output)
    expect(rows["sums, 2 ranks share the GPU"]["result"] == "FAILED", "the others had their turn", output)
    row = rows["sums, 4 ranks share the GPU"]
    expect(row["result"] == "skipped" and "2 ranks cannot share the GPU" in row["text"], "more ranks are not tried", output)


def check_hung(fake, folder, out):
    """Each for its own time, with the places where it hung; and in the second pass not again."""
    begin = time.monotonic()
    code, output = gpu_check({**fake, "FAKE_NCCL_STUCK": "ncclAllReduce"}, BUILD, out, "--limits=0.7", "--only=sums, 1 rank")
    rows = rows_in(folder)
    expect(code == 1 and "not within" in rows["sums, 1 rank"]["text"], "it hangs", output)
    code, output = gpu_check({**fake, "FAKE_NCCL_STUCK": "ncclAllReduce"}, BUILD, out, "--limits=0.7", "--only=sums, 2 ranks")
    results = [row[2] for row in seen_in(folder)]
    expect(results == ["FAILED", "skipped"], f"not twice: {results}", output)
    expect(time.monotonic() - begin < 90, "hung checks are over soon", output)
    logs = logs_in(folder)
    seen = "".join(text for name, text in logs.items() if ".backtraces" in name)
    expect("gpu_worker" in seen and "system call" in seen, f"where it hung: {list(logs)}", output)
    if shutil.which("gdb"):
        # Without symbols of a release build: the library.
        expect("injected_fault" in seen or "/libnccl.so" in seen, f"the calls of its threads: {seen}", output)


def check_terminated(fake, folder, out):
    """In mid check; what it had made must be gone."""
    script = subprocess.Popen(
        [sys.executable, HERE / "gpu_check.py", BUILD, out, "--only=SIGSTOP", SLOW], env={**os.environ, **fake, "TMPDIR": folder},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until = time.monotonic() + LIMIT_S
    workers = []
    while len(workers) < 3 and script.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
        workers = [pid for pid in jobs.descendants(script.pid) if jobs.name_of(pid) == "gpu_worker"]
    script.terminate()
    output = script.communicate(timeout=LIMIT_S)[0].decode(errors="replace")
    expect(script.returncode == 128 + signal.SIGTERM, f"after SIGTERM it has to end with 143, not {script.returncode}", output)
    expect(len(workers) == 3 and all(map(jobs.is_zombie, workers)), "its jobs are gone", output)
    expect(not list(pathlib.Path(folder).glob("ddprun-gpu-*")), "its folder is gone", output)


def main():
    with tempfile.TemporaryDirectory(prefix="ddprun-dry-") as folder, tempfile.TemporaryDirectory(prefix="ddprun-dry-out-") as kept:
        fake = {
            "LD_LIBRARY_PATH": str(BUILD / "fake_gpu"), "FAKE_GPU_FOLDER": folder, "FAKE_GPU_COUNT": "1",
            "FAKE_NCCL_NOTICES_DEATHS": "1", "FAKE_NCCL_BLOCKING": "allowed"}
        out = f"--out={kept}"
        check_missing(folder, fake, out)
        check_all(fake, kept, out)
        check_passes(fake, kept, out)
        check_failures(fake, kept, out)
        check_hung(fake, kept, out)
        check_terminated(fake, folder, out)
        left = [entry for entry in os.listdir(folder) if not entry.startswith("fake_nccl_")]
        expect(not left, f"left behind: {left}", "")


main()
