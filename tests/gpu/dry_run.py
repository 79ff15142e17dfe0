#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dry_run.py BUILD: tries gpu_check.py where there is no GPU; FAKE_GPU_KERNELS names the kernels' libraries. Over the fake one every check has to pass or say what it lacks;
without one, and with one whose collectives fail, the script has to say so and to end as it promises."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import jobs

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
LIMIT_S = 240
# Of what is built here these checks may be left out, and no others.
MAY_BE_SKIPPED = {"compute-sanitizer"}
IF_BUILT = {
    "trainer, 1 rank": "libmnist_cuda.so", "trainer, 2 ranks share the GPU": "libmnist_cuda.so",
    "trainer, 4 ranks share the GPU": "libmnist_cuda.so", "trainer beside the processor": "libmnist_cuda.so",
    "a killed rank becomes a restart": "libmnist_cuda.so", "speed of MNIST, batch 128": "libmnist_cuda.so",
    "speed of CIFAR": "libcifar_cuda.so", "NCCL without MPI": "nccl_hello", "an adopted NCCL program loses a peer": "nccl_adopted"}


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


def results(output):
    """{check: result} of the table."""
    table = output[output.rindex("\ncheck "):].splitlines()[2:-1]
    at = output[output.rindex("\ncheck ") + 1:].index("result")
    return {line[:at].strip(): line[at:].split()[0] for line in table}


def is_built(module):
    return any((BUILD / folder / module).exists() for folder in ("bin", "lib"))


def check_terminated(fake, folder):
    """In mid check; what it had made must be gone."""
    script = subprocess.Popen(
        [sys.executable, HERE / "gpu_check.py", BUILD, "--only=SIGSTOP"], env={**os.environ, **fake, "TMPDIR": folder},
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
    with tempfile.TemporaryDirectory(prefix="ddprun-dry-") as folder:
        code, output = gpu_check({"LD_LIBRARY_PATH": folder}, BUILD)
        if not pathlib.Path("/dev/nvidiactl").exists():
            expect(code == 77 and len(output.splitlines()) == 1, "one line, and the code of a skip", output)
            expect("libcuda.so.1" in output, "it names the driver", output)
            expect(output.startswith("SKIP the checks that need a GPU: "), "the form that scripts/report.awk shows", output)

        fake = {
            "LD_LIBRARY_PATH": str(BUILD / "fake_gpu"), "FAKE_GPU_FOLDER": folder, "FAKE_GPU_COUNT": "1",
            "FAKE_NCCL_NOTICES_DEATHS": "1", "FAKE_NCCL_BLOCKING": "allowed"}
        code, output = gpu_check({**fake, "FAKE_GPU_COUNT": "0"}, "--probe")
        expect(code == 77 and "finds no GPU" in output, "a driver without a GPU", output)

        code, output = gpu_check(fake, BUILD, "--short")
        print(output)
        expect(code == 0, "exit code 0", "")
        for check, result in results(output).items():
            may_be_skipped = check in MAY_BE_SKIPPED or (check in IF_BUILT and not is_built(IF_BUILT[check]))
            expect(result in ("ok", "missed") or (result == "skipped" and may_be_skipped), f"{check}: {result}", "")

        code, output = gpu_check({**fake, "FAKE_NCCL_FAIL": "ncclAllReduce:3"}, BUILD, "--short", "--only=sums")
        expect(code == 1, "exit code 1 when checks fail", output)
        failed = [check for check, result in results(output).items() if result == "FAILED"]
        expect("sums, 1 rank" in failed and "sums, 4 ranks share the GPU" in failed, "the others had their turn", output)

        check_terminated(fake, folder)
        left = [entry for entry in os.listdir(folder) if not entry.startswith("fake_nccl_")]
        expect(not left, f"left behind: {left}", output)


main()
