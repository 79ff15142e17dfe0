# SPDX-License-Identifier: Apache-2.0
"""goodput_test.py BUILD SOURCE [SECONDS [SEED]]: a job whose rank 1 is killed. Compares the phases of its time with
what the trainer itself has recorded, and with an outside clock. Also tests jobs whose rounds make
no progress. With SECONDS only this: a job whose ranks are killed at random moments for so long."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

BUILD, SOURCE = (pathlib.Path(path) for path in sys.argv[1:3])
DDPRUN = BUILD / "bin" / "ddprun"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE / "worker_sdk" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
HANG = 120  # seconds: only a hang takes that long
# Seconds. An agent reads the pages every 100 ms, and the machine also does other work.
TOLERANCE = 0.5
KILLED_AT, CHECKPOINT, SAVED_AT, LAST = 14, 4, 18, 22

# Both ranks do each step at about the same time, since a step is a sleep of the same length.
TRAINER = """
import os, signal, sys, time
REPORT
log = open(f"{sys.argv[1]}/rank-{os.environ['RANK']}", "a")
def note(what):
    log.write(f"{os.environ['TORCHELASTIC_RESTART_COUNT']} {what} {time.clock_gettime(time.CLOCK_BOOTTIME)}\\n")
    log.flush()
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
for step in range(1 if first else CHECKPOINT + 1, FINAL + 1):
    time.sleep(0.2)
    report(step)
    note(f"step-{step}")
    if step == KILLED_AT and first and os.environ["RANK"] == "1":
        time.sleep(0.1)
        note("death")
        os.kill(os.getpid(), signal.SIGKILL)
    if step == SAVED_AT:
        note("save-begin")
        with phase("save"):
            time.sleep(1)
        note("save-end")
# The end of the interpreter is no part of the training.
os._exit(0)
"""
BY_MODULE = "from ddprun import phase, report"


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def is_near(counted, written, what):
    print(f"{what}: counted {counted:.3f} s, by the trainer's log {written:.3f} s")
    check(abs(counted - written) < TOLERANCE, f"{what}: {counted} and not {written}")


def run(folder, report, *options):
    """The JSON report, standard error, and how long all of it took."""
    names = {"KILLED_AT": KILLED_AT, "CHECKPOINT": CHECKPOINT, "SAVED_AT": SAVED_AT, "FINAL": LAST}
    script = TRAINER.replace("REPORT", report)
    for name, value in names.items():
        script = script.replace(name, str(value))
    (folder / "train.py").write_text(script)
    command = [DDPRUN, "--standalone", "--nproc-per-node=2", "--max-restarts=1", f"--report-file={folder}/report.json",
               f"--python={sys.executable}", *options, folder / "train.py", folder]
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    done = subprocess.run(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANG,
                          check=False)
    took = time.clock_gettime(time.CLOCK_BOOTTIME) - began
    check(done.returncode == 0, done.stderr)
    return json.loads((folder / "report.json").read_text()), done, took


def log_of(folder):
    """By round and event: when the first and the last rank had it."""
    moments = {}
    for rank in (0, 1):
        for line in (folder / f"rank-{rank}").read_text().splitlines():
            number, what, at = line.split()
            moments.setdefault((int(number), what), []).append(float(at))
    return {key: (min(values), max(values)) for key, values in moments.items()}


def a_killed_rank_and_its_repeated_steps():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report, done, took = run(folder, BY_MODULE)
        log = log_of(folder)
        goodput = report["goodput"]
        seconds = goodput["seconds"]

        check(abs(sum(seconds.values()) - goodput["wall_s"]) < 1e-6, "the phases sum to the wall time")
        check(goodput["wall_s"] < took, f"{goodput} of {took} s")
        trained = log[1, f"step-{LAST}"][1] - log[0, "step-1"][0]
        check(goodput["wall_s"] > trained, f"{goodput}, and training alone took {trained} s")

        redone = log[1, f"step-{KILLED_AT + 1}"][1] - log[1, f"step-{CHECKPOINT + 1}"][0]
        is_near(seconds["redone"], redone, "redone")
        saving = log[1, "save-end"][1] - log[1, "save-begin"][0]
        is_near(seconds["saving"], saving, "saving")
        first_round = log[0, "death"][1] - log[0, "step-1"][0]
        second_round = log[1, f"step-{LAST}"][1] - log[1, f"step-{KILLED_AT + 1}"][1]
        is_near(seconds["productive"], first_round + second_round - saving, "productive")
        check(seconds["unmeasured"] == 0, str(seconds))
        lines = [line for line in done.stderr.splitlines() if line.startswith("ddprun: time ")]
        check(len(lines) == 1 and ": productive " in lines[0] and ", redone " in lines[0], done.stderr)
        print(lines[0])


def a_script_without_steps_ends_as_before():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report, done, _ = run(folder, "from contextlib import nullcontext as phase\ndef report(step): pass")
        check("ddprun: time" not in done.stderr, done.stderr)
        seconds = report["goodput"]["seconds"]
        check(seconds["productive"] == 0 and seconds["unmeasured"] > 0, str(seconds))


def steps_that_are_printed_count_as_reported_ones():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        printing = ("from contextlib import nullcontext as phase\n"
                    "def report(step):\n"
                    "    if os.environ['RANK'] == '0': sys.stdout.write(f'epoch 3 step={step} \\x1b[1mloss\\n')")
        report, done, _ = run(folder, printing, "--progress-regex=step[ =](\\d+)")
        log = log_of(folder)
        redone = log[1, f"step-{KILLED_AT + 1}"][1] - log[1, f"step-{CHECKPOINT + 1}"][0]
        is_near(report["goodput"]["seconds"]["redone"], redone, "redone")
        # When it is stopped rank 0 may be ahead of the killed one or behind it, and its log behind what it has printed.
        noted = sum(line.startswith("0 step-") for line in (folder / "rank-0").read_text().splitlines())
        printed = [
            "".join(f"epoch 3 step={step} \x1b[1mloss\n" for step in [*range(1, last + 1), *range(CHECKPOINT + 1, LAST + 1)])
            for last in (noted, noted + 1)]
        check(done.stdout in printed, f"not byte for byte: {done.stdout}")


def a_pattern_without_a_group_is_a_usage_error():
    for pattern in ("step", "step ([0-9]+", "(a)\\1"):
        done = subprocess.run([DDPRUN, f"--progress-regex={pattern}", "train.py"], text=True, stderr=subprocess.PIPE,
                              timeout=HANG, check=False)
        check(done.returncode == 2 and "--progress-regex" in done.stderr, f"{done.returncode}: {done.stderr}")


def rounds_of(folder, first_step):
    """Runs a job whose rounds each do ten steps and fail. Returns its exit code, its last lines,
    and the number of rounds."""
    (folder / "train.py").write_text(
        "import os, sys\nfrom ddprun import report\nrestart = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        f"open(sys.argv[1], 'a').write('x')\nbegin = {first_step}\n"
        "for step in range(begin, begin + 10): report(step)\nraise ValueError('batch 7 cannot be read')\n")
    done = subprocess.run([DDPRUN, "--standalone", "--max-restarts=5", "--stop-without-progress=2",
                           f"--python={sys.executable}", folder / "train.py", folder / "rounds"], env=ENVIRONMENT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANG, check=False)
    # Long lines of the report are folded.
    return done.returncode, " ".join(done.stderr.split()), len((folder / "rounds").read_text())


def rounds_without_a_new_step_end_the_job():
    with tempfile.TemporaryDirectory() as name:
        code, text, rounds = rounds_of(pathlib.Path(name), "1")
        # The first one does ten new steps.
        check((code, rounds) == (87, 3), f"{code} after {rounds} rounds: {text}")
        check("no restart after 2 failed rounds without a new step (--stop-without-progress)" in text, text)
        check("ValueError: batch 7 cannot be read" in text, text)


def rounds_with_new_steps_spend_the_budget():
    with tempfile.TemporaryDirectory() as name:
        code, text, rounds = rounds_of(pathlib.Path(name), "1 + 5 * restart")
        check((code, rounds) == (1, 6), f"{code} after {rounds} rounds: {text}")
        check("without a new step" not in text, text)


# Continues from the last step that is a multiple of CHECKPOINT, until the file `end` is there.
ENDLESS = """
import os, sys, time
from ddprun import report
folder, rank, number = sys.argv[1], os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
log = open(f"{folder}/rank-{rank}", "a")
def note(what):
    log.write(f"{number} {what} {time.clock_gettime(time.CLOCK_BOOTTIME)}\\n")
    log.flush()
note(f"pid-{os.getpid()}")
done = [int(line.split()[1][5:]) for line in open(f"{folder}/rank-0") if " step-" in line]
step = max(done, default=0) // CHECKPOINT * CHECKPOINT
while not os.path.exists(f"{folder}/end"):
    step += 1
    time.sleep(0.2)
    report(step)
    note(f"step-{step}")
"""


def redone_by(log):
    """Seconds in which steps of earlier rounds were repeated, by what the ranks have written; and how many rounds."""
    rounds = {}
    for (number, what), moments in log.items():
        if what.startswith("step-"):
            rounds.setdefault(number, {})[int(what[5:])] = moments
    redone, known = 0, 0
    for _, steps in sorted(rounds.items()):
        repeated = [step for step in steps if step <= known]
        if repeated:
            new = [moments[1] for step, moments in steps.items() if step > known]
            last = min(new) if new else max(moments[1] for moments in steps.values())
            redone += last - min(moments[0] for moments in steps.values())
        known = max([known, *steps])
    return redone, len(rounds)


def ranks_of_newest_round(folder):
    """The number of the newest round whose ranks have both done a step, and their process ids; none yet: -1."""
    pids, steps = {}, {}
    for rank in (0, 1):
        for line in (folder / f"rank-{rank}").read_text().splitlines():
            number, what, _ = line.split()
            if what.startswith("pid-"):
                pids[int(number), rank] = int(what[4:])
            else:
                steps.setdefault(int(number), set()).add(rank)
    newest = max((number for number, ranks in steps.items() if len(ranks) == 2), default=-1)
    return newest, [pids[newest, rank] for rank in (0, 1) if newest >= 0]


def next_round(job, folder, last):
    until = time.monotonic() + HANG
    while (found := ranks_of_newest_round(folder))[0] <= last:
        check(job.poll() is None, f"ddprun ended with {job.returncode}")
        check(time.monotonic() < until, f"no round after round {last} in {HANG} s")
        time.sleep(0.05)
    return found


def kill_ranks_for(seconds, seed):
    print(f"{seconds} s, seed {seed}", flush=True)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for rank in (0, 1):
            (folder / f"rank-{rank}").touch()
        (folder / "train.py").write_text(ENDLESS.replace("CHECKPOINT", str(CHECKPOINT)))
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        job = subprocess.Popen([DDPRUN, "--standalone", "--nproc-per-node=2", "--max-restarts=100000",
                                f"--report-file={folder}/report.json", f"--python={sys.executable}", folder / "train.py", folder],
                               env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            kills, (number, pids) = 0, next_round(job, folder, -1)
            while time.clock_gettime(time.CLOCK_BOOTTIME) < began + seconds:
                time.sleep(chance.uniform(0, 4))
                os.kill(chance.choice(pids), signal.SIGKILL)
                kills += 1
                number, pids = next_round(job, folder, number)
            (folder / "end").touch()
            check(job.wait(HANG) == 0, f"ddprun ended with {job.returncode}")
        finally:
            if job.poll() is None:
                job.send_signal(signal.SIGTERM)
                job.wait(HANG)
        took = time.clock_gettime(time.CLOCK_BOOTTIME) - began
        goodput = json.loads((folder / "report.json").read_text())["goodput"]
        redone, rounds = redone_by(log_of(folder))
        off = abs(sum(goodput["seconds"].values()) - goodput["wall_s"])
        print(f"{kills} kills: wall time {goodput['wall_s']:.3f} of {took:.3f} s, its phases differ by {off * 1000:.6f} ms")
        print({name: round(each, 3) for name, each in goodput["seconds"].items()})
        print(f"redone: counted {goodput['seconds']['redone']:.3f} s, by the trainer's log {redone:.3f} s in {rounds} rounds")
        check(off < 0.01, "the phases sum to the wall time")
        check(goodput["wall_s"] < took, "the wall time is part of the time that passed outside")
        # Each round may differ by the 100 ms between two looks at the pages.
        check(abs(goodput["seconds"]["redone"] - redone) < 0.1 * (kills + 1), "redone")


TESTS = [
    rounds_without_a_new_step_end_the_job,
    rounds_with_new_steps_spend_the_budget,
    steps_that_are_printed_count_as_reported_ones,
    a_pattern_without_a_group_is_a_usage_error,
    a_killed_rank_and_its_repeated_steps,
    a_script_without_steps_ends_as_before,
]

if __name__ == "__main__":
    if len(sys.argv) > 3:
        kill_ranks_for(float(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10 ** 9))
        sys.exit()
    for test in TESTS:
        print(test.__name__, flush=True)
        test()
