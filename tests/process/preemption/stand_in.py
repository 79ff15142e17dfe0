# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a training script: steps of random length, in step with the other ranks or not, some long ones, evaluation on
rank 0. STEPPER is a local socket at which each rank waits for all others, as it would in a collective; without, ranks run free.
Writes into FOLDER what it saves, and when it has started and done its first step."""
import os
import random
import socket
import sys
import time

folder = sys.argv[1]
rank = int(os.environ["RANK"])
world_size = int(os.environ["WORLD_SIZE"])
stepper = os.environ.get("STEPPER")
stride = int(os.environ.get("STRIDE", "1"))
ends_at = int(os.environ.get("ENDS_AT", "0"))
fails_at = os.environ.get("FAILS_AT", "")
random.seed(f"{os.environ['SEED']} {rank}")
longest = float(os.environ.get("LONGEST_STEP", "0.01"))


def note(what, text=""):
    with open(os.path.join(folder, f"{what}.{rank}"), "a", encoding="ascii") as file:
        file.write(f"{text}\n")


note("started")
time.sleep(random.uniform(0, float(os.environ.get("SLOW_START", "0.1"))))
import ddprun  # noqa: E402

others = None
if stepper:
    others = socket.socket(socket.AF_UNIX)
    others.connect(stepper)


def all_ranks():
    if others:
        others.sendall(b".")
        if not others.recv(1):
            sys.exit(1)


step = 0
while not ends_at or step < ends_at:
    if step == 0:
        time.sleep(random.uniform(0, float(os.environ.get("SLOW_START", "0.1"))))
    if rank == world_size - 1 and step % 40 == 25:
        time.sleep(random.uniform(0, 0.4))  # a long step: the others wait in the collective
    time.sleep(random.uniform(0, longest))
    all_ranks()
    if rank == 0 and step % 30 == 29:
        with ddprun.phase("eval"):
            time.sleep(random.uniform(0, 0.3))
    if fails_at and f"{rank}:{step}" == fails_at and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        os._exit(7)
    if os.environ.get("ASKS", "1") != "0" and step % stride == 0 and ddprun.should_save(step):
        time.sleep(random.uniform(0, 0.05))
        note("saved", step)
        if os.environ.get("FORGETS") != str(rank):
            ddprun.saved(step)
        if os.environ.get("BREAKS"):
            sys.exit(0)
    step += 1
    if step == 1:
        note("stepped")
