# SPDX-License-Identifier: Apache-2.0
"""frameworks_test.py DDPRUN FRAMEWORK...: each trains to the same losses under torchrun and under ddprun, two workers.

DDPRUN_FRAMEWORKS_PYTHON is a Python that has them (scripts/lib.sh); without it one line says so and nothing is
tested, or, with DDPRUN_REQUIRE_TORCH=1, that is a failure."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SHIM = HERE.parents[2] / "worker_sdk" / "python"
DEADLINE_S = 240

ACCELERATE = ["accelerate", "launch", "--multi_gpu", "--num_machines=1", "--num_processes=2", "--mixed_precision=no", "--dynamo_backend=no"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def environment(python, ddprun):
    folders = [str(pathlib.Path(ddprun).parent), str(pathlib.Path(python).parent), os.environ["PATH"]]
    return {**os.environ, "PATH": ":".join(folders), "PYTHONPATH": str(SHIM), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu", "ACCELERATE_USE_CPU": "1"}


def run(words, around):
    result = subprocess.run([str(word) for word in words], env=around, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 0, f"{words}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    losses = re.findall(r"step \d+ losses .*", result.stdout)
    assert len(losses) >= 4, f"{words}: no losses\n{result.stdout}\n{result.stderr}"
    return losses


def commands(framework, python, ddprun):
    """The same training by torchrun, and by ddprun."""
    job = HERE / "jobs" / f"{framework}_job.py"
    if framework == "accelerate":
        # `accelerate launch` calls torch.distributed.run in its own process.
        accelerate = pathlib.Path(python).parent / ACCELERATE[0]
        return [accelerate, *ACCELERATE[1:], job], [python, "-m", "ddprun.shim", *ACCELERATE, job]
    return [python, *TORCHRUN, job], [ddprun, f"--python={python}", "--standalone", "--nproc-per-node=2", job]


def check_same_losses(framework, python, ddprun):
    around = environment(python, ddprun)
    by_torchrun, by_ddprun = commands(framework, python, ddprun)
    expected, losses = run(by_torchrun, around), run(by_ddprun, around)
    assert losses == expected, f"{framework}: {losses} under ddprun, {expected} under torchrun"
    print(f"{framework}: {len(losses)} steps, the same losses")


def main():
    ddprun, frameworks = sys.argv[1], sys.argv[2:]
    python = os.environ.get("DDPRUN_FRAMEWORKS_PYTHON")
    if not python:
        if os.environ.get("DDPRUN_REQUIRE_TORCH") == "1":
            sys.exit("DDPRUN_FRAMEWORKS_PYTHON names no Python with the frameworks")
        print("SKIP frameworks: DDPRUN_FRAMEWORKS_PYTHON names no Python with them")
        return
    for framework in frameworks:
        check_same_losses(framework, python, ddprun)


main()
