#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_check.py [--probe] BUILD [--short] [--only=WORDS]: every check that needs a GPU, one after the other, and a table at the end. Each has
a time limit of its own, and one that fails does not keep the next from running. Exits 0, 1 when a check failed, 77 with one
line when the machine lacks a driver, a GPU or NCCL. --probe: only that. --short: little of everything, to try the script
itself. --only: the checks whose name has these words."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time

import jobs
from jobs import Failed, Job, Skipped

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = 77
# All checks together: one whose turn comes later is skipped, and what is started has no more than is left.
BUDGET_S = 570
MEBIBYTE = 1 << 20
SHOWN_LINES = 25


def probe():
    """What is missing, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no CUDA driver: {error}"
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or count.value == 0:
        return f"the CUDA driver finds no GPU (error {status})"
    if not os.environ.get("DDPRUN_NCCL") and not find_nccl():
        return "no NCCL (scripts/cuda_deps.sh nccl brings it, DDPRUN_NCCL=PATH names one)"
    return None


def find_nccl():
    """Where NCCL is, for DDPRUN_NCCL; one that the linker finds needs no name."""
    try:
        ctypes.CDLL("libnccl.so.2")
        return "libnccl.so.2"
    except OSError:
        pass
    places = (folder / "libnccl.so.2" for folder in library_folders())
    return next((str(place) for place in places if place.exists()), None)


def package_folders():
    """Of this Python and of the one that has PyTorch."""
    pythons = [sys.prefix]
    program = shutil.which(torch_python())
    if program:
        pythons.append(str(pathlib.Path(program).absolute().parents[1]))
    return [str(found) for prefix in pythons for found in pathlib.Path(prefix).glob("lib/python3*/*-packages")] + sys.path


def library_folders():
    """Where NVIDIA's libraries may be that the linker does not find."""
    folders = [ROOT / f"build/cuda-deps/{part}/lib" for part in ("nccl", "cublas", "cudnn")]
    return folders + [found for folder in package_folders() for found in pathlib.Path(folder).glob("nvidia/*/lib")]


def library_path():
    """For LD_LIBRARY_PATH: also programs that were built on another machine find them."""
    given = os.environ.get("LD_LIBRARY_PATH")
    return ":".join([*([given] if given else []), *(str(folder) for folder in library_folders() if folder.exists())])


def torch_python():
    return os.environ.get("DDPRUN_TORCH_PYTHON") or sys.executable


class Bench:
    """What all checks share."""

    def __init__(self, build, is_short, folder, until):
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.is_short = is_short
        self.folder = pathlib.Path(folder)
        self.count = 0
        self.last_log = None
        self.nccl = os.environ.get("DDPRUN_NCCL") or find_nccl()
        self.environment = {"DDPRUN_NCCL": self.nccl, "LD_LIBRARY_PATH": library_path()}
        self.until = until

    def pick(self, whole, short):
        return short if self.is_short else whole

    def program(self, name):
        path = self.bin / name
        if not path.exists():
            raise Skipped(f"{name} was not built")
        return path

    def start(self, command, limit_s, environment=None):
        self.count += 1
        self.last_log = self.folder / f"{self.count}.log"
        limit_s = min(limit_s, max(1, self.until - time.monotonic()))
        return Job(command, self.last_log, limit_s, self.environment if environment is None else environment)

    def launched(self, ranks, command, limit_s, options=()):
        """Under ddprun, on the one GPU."""
        share = ["--share-gpu"] if ranks > 1 else []
        return self.start(
            [self.program("ddprun"), "--standalone", f"--nproc-per-node={ranks}", *share, *options, "--no-python", *command], limit_s)

    def worker(self, ranks, limit_s, *part, code=0, options=()):
        """The output of gpu_worker on so many ranks."""
        with self.launched(ranks, [self.program("gpu_worker"), *part], limit_s, options) as job:
            return job.require(code)

    def fresh(self, name):
        self.count += 1
        folder = self.folder / f"{name}-{self.count}"
        folder.mkdir()
        return folder

    def digits(self):
        folder = self.folder / "digits"
        if not folder.exists():
            sizes = self.pick([], ["--train", "512", "--test", "128"])
            with self.start([self.program("make_digits"), "--out", folder, *sizes], 60) as job:
                job.require()
        return folder


def workers_of(job, name):
    """Pids of the job's running processes of that name."""
    return [pid for pid in jobs.descendants(job.process.pid) if jobs.name_of(pid) == name and not jobs.is_zombie(pid)]


def figures(text, name):
    """The numbers of the line that begins with `name`, also behind a launcher's prefix."""
    for line in text.splitlines():
        words = line.split()
        if name in words:
            return words[words.index(name) + 1:]
    raise Failed(f"no figure {name} in the output")


def figure(text, name):
    return float(figures(text, name)[0])


# ---- collectives --------------------------------------------------------------------------------

def check_life(bench):
    text = bench.worker(1, 60, "life")
    return f"group after {figure(text, 'created_ms'):.0f} ms, whole life {figure(text, 'whole_life_ms'):.0f} ms"


def check_sums(ranks):
    def check(bench):
        most = bench.pick(64 * MEBIBYTE, MEBIBYTE // 4)
        start = time.monotonic()
        text = bench.worker(ranks, 90, "sums", most)
        return f"{figure(text, 'sizes'):.0f} sizes, 4 B to {most // 1024} KiB, in {time.monotonic() - start:.1f} s"
    return check


def check_kill(bench):
    folder = bench.fresh("kill")
    size = bench.pick(16 * MEBIBYTE, MEBIBYTE // 4)
    text = bench.worker(3, 60, "kill", size, folder, code=128 + signal.SIGKILL, options=["--shutdown-timeout=40"])
    known = figure(text, "known_ms")
    if known > bench.pick(2000, 30000):
        raise Failed(f"PeerLost only after {known:.0f} ms")
    return f"PeerLost with its rank after {known:.0f} ms (abort included), new group of two in {figure(text, 'again_ms'):.0f} ms"


def check_kill_by_hand(bench):
    folder = bench.fresh("by_hand")
    size = bench.pick(16 * MEBIBYTE, MEBIBYTE // 4)
    text = bench.worker(3, 80, "kill_by_hand", size, folder, code=128 + signal.SIGKILL, options=["--shutdown-timeout=60"])
    noticed = figures(text, "noticed_ms")[0]
    when = "never noticed it" if noticed == "never" else f"noticed after {float(noticed):.0f} ms"
    return f"NCCL {when}, its abort took {figure(text, 'abort_ms'):.0f} ms"


def check_stop(bench):
    folder = bench.fresh("stop")
    size = bench.pick(16 * MEBIBYTE, MEBIBYTE // 4)
    timeout_s = 10  # within which the group also has to be made
    # The others have their figures and end well; only then the launcher has to end the stopped one.
    with bench.launched(3, [bench.program("gpu_worker"), "stop", size, folder, timeout_s], 60, ["--shutdown-timeout=2"]) as job:
        job.await_fact("the survivors' new group", lambda: "again_ms" in job.text())
        text = job.text()
        job.process.terminate()
        job.code()
    known = figure(text, "known_ms")
    if not timeout_s - 2 <= known / 1000 <= timeout_s + 6:  # the others may have begun to wait a little before the strike
        raise Failed(f"a group with a timeout of {timeout_s} s ended after {known:.0f} ms")
    named = "its rank named" if re.search(r"nothing was heard of ranks? (\d(,| and) )*2", text) else "its rank not named"
    return f"Timeout after {known:.0f} ms ({timeout_s} s are the group's; abort included), {named}, new group in {figure(text, 'again_ms'):.0f} ms"


def check_cycles(ranks, whole, limit_s):
    def check(bench):
        count = bench.pick(whole, 8)
        text = bench.worker(ranks, limit_s, "cycles", count)
        for name, slack in (("descriptors", 0), ("threads", 0), ("gpu_mib", 16)):
            before, after = (int(number) for number in figures(text, name)[:2])
            if after > before + slack:
                raise Failed(f"{name} grew from {before} to {after} in {count} groups")
        return f"{count} groups, half of them aborted: {figure(text, 'each_ms'):.0f} ms each, at most {figure(text, 'longest_ms'):.0f}; nothing grew"
    return check


def check_bench(ranks):
    def check(bench):
        most = bench.pick(64 * MEBIBYTE, 4096)
        text = bench.worker(ranks, 100, "bench", most, bench.pick(2, 0.05))
        print(f"\nall_reduce, {ranks} rank{'s' if ranks > 1 else ''}, microseconds (medians; by hand: the same calls on a "
              "non-blocking communicator; 8 in flight: each)")
        print(f"{'bytes':>10} {'SDK':>10} {'by hand':>10} {'ratio':>6} {'blocking':>10} {'SDK, 8':>10} {'by hand, 8':>10} {'ratio':>6}")
        ratios, flying = [], []
        for line in text.splitlines():
            if "hand_flying" not in line:
                continue
            words = line[line.index("bytes "):].split()
            row = dict(zip(words[::2], map(float, words[1::2])))
            ratios.append(row["sdk"] / row["hand"])
            flying.append(row["sdk_flying"] / row["hand_flying"])
            print(f"{row['bytes']:10.0f} {row['sdk']:10.1f} {row['hand']:10.1f} {ratios[-1]:6.3f} {row['blocking']:10.1f} "
                  f"{row['sdk_flying']:10.1f} {row['hand_flying']:10.1f} {flying[-1]:6.3f}")
        return Target(
            f"SDK / by hand: {statistics.median(ratios):.3f}, worst {max(ratios):.3f}; 8 in flight {statistics.median(flying):.3f}, worst "
            f"{max(flying):.3f} (target 1.01)", max(ratios) <= 1.01)
    return check


# ---- programs that call NCCL themselves ---------------------------------------------------------

def check_hello(bench):
    start = time.monotonic()
    with bench.launched(2, [bench.program("nccl_hello")], 60) as job:
        text = job.require()
    if text.count("the sum is 3") != 2:
        raise Failed("a sum is wrong")
    return f"both say 3, after {time.monotonic() - start:.1f} s"


def check_adopted(bench):
    """A program that asks NCCL itself whether it failed."""
    with bench.launched(3, [bench.program("nccl_adopted"), "1000000000"], 60, ["--shutdown-timeout=30"]) as job:
        job.await_fact("the first step of all", lambda: job.text().count("the first step is done") == 3)
        os.kill(workers_of(job, "nccl_adopted")[-1], signal.SIGKILL)
        struck = time.monotonic()
        # An agent that was stopped finds all of them dead at once, and cannot know which was first.
        code = job.code()
        text = job.text()
    if code not in (128 + signal.SIGKILL, 1):
        raise Failed(f"exit code {code}")
    over = time.monotonic() - struck
    if text.count(": aborted: ") < 2:
        raise Failed("the others did not abort by themselves")
    if over > bench.pick(5, 30):
        raise Failed(f"the job was over only after {over:.1f} s")
    return f"the others aborted and the job was over {over:.2f} s after the kill"


# ---- the trainer --------------------------------------------------------------------------------

def train(bench, ranks, batch, epochs, limit_s, more=(), options=(), device="cuda"):
    """A training that has been started."""
    bench.program("libmnist_cuda.so")
    command = [
        bench.program("train_mnist"), "--data", bench.digits(), "--device", device, "--batch-size", batch, "--epochs", epochs, *more]
    return bench.launched(ranks, command, limit_s, options)


def epochs_of(text):
    """[(loss, accuracy, samples/s)] of the lines "epoch 1/10 loss 0.5021 accuracy 84.28 % 28821 samples/s, ..."."""
    rows = []
    for line in text.splitlines():
        words = line.replace(",", "").split()
        if "loss" in words and "samples/s" in words:
            number = {word: words[i + 1] for i, word in enumerate(words[:-1])}
            rows.append((float(number["loss"]), float(number["accuracy"]), float(words[words.index("samples/s") - 1])))
    if not rows:
        raise Failed("no epoch was reported")
    return rows


LOSSES = {}


def check_train(ranks):
    def check(bench):
        epochs = bench.pick(3, 1)
        with train(bench, ranks, 256 // ranks, epochs, 150) as job:
            text = job.require()
        rows = epochs_of(text)
        LOSSES[ranks] = [row[0] for row in rows]
        accuracy = figure(text.split("test ")[-1], "accuracy")
        if not bench.is_short and accuracy < 90:
            raise Failed(f"test accuracy {accuracy} %")
        alone = LOSSES.get(1)
        for epoch, (ours, theirs) in enumerate(zip(LOSSES[ranks], alone or [])):
            if abs(ours - theirs) > 0.02 + 0.1 * theirs:
                raise Failed(f"loss of epoch {epoch + 1} is {ours}, with one rank {theirs}")
        return f"loss {rows[-1][0]:.4f} after {epochs} epochs, test accuracy {accuracy:.2f} %, {rows[-1][2]:.0f} samples/s"
    return check


def check_cpu_parity(bench):
    """The same training on the processor: the same curve within what summation orders and dropout allow."""
    curves = {}
    for device in ("cpu", "cuda"):
        with train(bench, 1, 256, 1, 90, device=device) as job:
            curves[device] = epochs_of(job.require())[-1]
    cpu, cuda = curves["cpu"], curves["cuda"]
    if abs(cpu[0] - cuda[0]) > 0.01 + 0.02 * cpu[0]:
        raise Failed(f"loss {cuda[0]}, on the processor {cpu[0]}")
    return f"loss of the first epoch {cuda[0]:.4f}, on the processor {cpu[0]:.4f}"


def check_restart(bench):
    """A rank is killed in its second epoch: new workers within two seconds, and the parameters of an undisturbed run."""
    epochs = bench.pick(4, 24)
    saved = {}
    for way in ("undisturbed", "disturbed"):
        saved[way] = bench.fresh(way)
        with train(bench, 2, 128, epochs, 90, ["--checkpoint-dir", saved[way], "--checkpoint-every", "50"], ["--max-restarts=3"]) as job:
            if way == "disturbed":
                job.await_fact("the first epoch's end", lambda: "epoch 1/" in job.text())
                before = workers_of(job, "train_mnist")
                if len(before) != 2:
                    raise Failed(f"{len(before)} workers, not 2")
                os.kill(before[-1], signal.SIGKILL)
                struck = time.monotonic()
                job.await_fact("new workers", lambda: [pid for pid in workers_of(job, "train_mnist") if pid not in before])
                restarted = time.monotonic() - struck
                job.await_fact("the training's next beginning", lambda: job.text().count("rank 0 of 2:") == 2)
                trains = time.monotonic() - struck
            job.require()
    with bench.start([bench.program("compare_checkpoints"), saved["undisturbed"], saved["disturbed"]], 20) as job:
        same = job.code() == 0
    if not same:
        raise Failed("the parameters differ from those of an undisturbed run")
    if restarted > bench.pick(2, 30):
        raise Failed(f"new workers only after {restarted:.1f} s")
    return f"new workers {restarted:.2f} s after the kill, training again after {trains:.2f} s; the same parameters, bit for bit"


def check_sanitizer(bench):
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(program).exists():
        raise Skipped("there is no compute-sanitizer")
    folder = bench.folder / "few_digits"
    with bench.start([bench.program("make_digits"), "--out", folder, "--train", "512", "--test", "128"], 60) as job:
        job.require()
    # NVIDIA's own libraries ask for functions that a driver lacks, and have kernels that only they can judge.
    options = ["--error-exitcode", "9", "--report-api-errors", "no", "--kernel-name", "kns=mnist_", "--kernel-name", "kns=ddprun_"]
    for tool in ("memcheck", "racecheck"):
        command = [program, "--tool", tool, *options, bench.program("train_mnist"), "--data", folder, "--device", "cuda", "--epochs", "1",
                   "--batch-size", "128"]
        with bench.start(command, 120) as job:
            if job.code() != 0 and "Device not supported" in job.text():
                raise Skipped("compute-sanitizer does not support this device")
            job.require()
    return "memcheck and racecheck find nothing"


# ---- speed --------------------------------------------------------------------------------------

def torch_figure(bench, script, *arguments):
    """What a PyTorch script says in its line "figure NUMBER [WORDS]": the number, and the words."""
    with bench.start([torch_python(), ROOT / "tests/gpu" / script, *map(str, arguments)], 110, environment={}) as job:
        code = job.code()
        if code == SKIP:
            raise Skipped("PyTorch beside it: " + (job.text().strip().splitlines() or ["no CUDA"])[-1])
        if code != 0:
            raise Failed(f"{script} returned {code}")
        number, *words = figures(job.text(), "figure")
        return float(number), " ".join(words)


def check_mnist_speed(bench):
    samples, epochs = bench.pick((60000, 12), (512, 2))
    with train(bench, 1, 128, epochs, 60) as job:
        ours = [samples / row[2] * 1e3 for row in epochs_of(job.require())[1:]]
    ours = statistics.median(ours)
    try:
        peer, _ = torch_figure(bench, "torch_mnist.py", bench.pick(60000, 512), 128, bench.pick(3, 1))
    except Skipped as reason:
        return Target(f"{ours:.2f} ms per epoch (target 16); {reason}", ours <= 16)
    return Target(
        f"{ours:.2f} ms per epoch (target 16), PyTorch DDP eager {peer:.0f} ms: {peer / ours:.1f} times (target 20)",
        ours <= 16 and peer / ours >= 20)


def check_cifar_speed(bench):
    program = bench.program("train_cifar")
    bench.program("libcifar_cuda.so")
    folder = bench.folder / "images"
    sizes = bench.pick([], ["--train", "80", "--test", "10"])
    with bench.start([bench.program("make_images"), "--out", folder, *sizes], 90) as job:
        job.require()
    command = [program, "--data", folder, "--batch-size", bench.pick(512, 16), "--epochs", bench.pick(3, 1),
               *bench.pick([], ["--width", "8"])]
    with bench.launched(1, command, 100) as job:
        text = job.require()
    rates = [float(words[words.index("images/s") - 1]) for words in map(str.split, text.splitlines()) if "images/s" in words]
    if not rates:
        raise Failed("no epoch was reported")
    try:
        peer, how = torch_figure(bench, "torch_cifar.py", bench.pick(512, 16), bench.pick(100, 2))
    except Skipped as reason:
        return f"{rates[-1]:.0f} images/s; {reason}"
    return Target(f"{rates[-1]:.0f} images/s, PyTorch {how} {peer:.0f}: {rates[-1] / peer:.2f} times (target 1)", rates[-1] >= peer)


# ---- the table ----------------------------------------------------------------------------------

class Target:
    """A figure with a target; a missed one is shown, and fails nothing."""

    def __init__(self, text, is_met):
        self.text = text
        self.is_met = is_met


CHECKS = [
    ("one rank: init, all_reduce, finalize", check_life),
    ("sums, 1 rank", check_sums(1)),
    ("sums, 2 ranks share the GPU", check_sums(2)),
    ("sums, 4 ranks share the GPU", check_sums(4)),
    ("speed of all_reduce, 1 rank", check_bench(1)),
    ("speed of all_reduce, 2 ranks", check_bench(2)),
    ("SIGKILL one of 3 in mid all_reduce", check_kill),
    ("the same with NCCL by hand", check_kill_by_hand),
    ("SIGSTOP one of 3 in mid all_reduce", check_stop),
    ("groups made and aborted, 1 rank", check_cycles(1, 100, 120)),
    ("groups made and aborted, 2 ranks", check_cycles(2, 30, 90)),
    ("NCCL without MPI", check_hello),
    ("an adopted NCCL program loses a peer", check_adopted),
    ("trainer, 1 rank", check_train(1)),
    ("trainer, 2 ranks share the GPU", check_train(2)),
    ("trainer, 4 ranks share the GPU", check_train(4)),
    ("trainer beside the processor", check_cpu_parity),
    ("a killed rank becomes a restart", check_restart),
    ("compute-sanitizer", check_sanitizer),
    ("speed of MNIST, batch 128", check_mnist_speed),
    ("speed of CIFAR", check_cifar_speed),
]


def make(bench, name, check):
    """(name, result, seconds, figure)"""
    start = time.monotonic()
    bench.last_log = None
    try:
        if start > bench.until:
            raise Skipped("no time was left for it")
        figure_of = check(bench)
        is_target = isinstance(figure_of, Target)
        result = "ok" if not is_target or figure_of.is_met else "missed"
        text = figure_of.text if is_target else figure_of
    except Skipped as reason:
        result, text = "skipped", str(reason)
    except Exception as error:  # whatever it is, the next check has its turn
        result, text = "FAILED", str(error) or type(error).__name__
        if bench.last_log and bench.last_log.exists():
            lines = bench.last_log.read_text(encoding="utf-8", errors="replace").splitlines()
            print(f"--- {name}: the end of its output\n" + "\n".join(lines[-SHOWN_LINES:]) + "\n---")
    left = jobs.end_all()
    if left and result != "FAILED":
        result, text = "FAILED", "left behind: " + ", ".join(left)
    return name, result, time.monotonic() - start, text


def leave(*_):
    """On SIGTERM: once, so that what is left can be ended in peace."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def run(build, is_short, chosen):
    """The rows of the table. Whatever ends it, no job and no file is left."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="ddprun-gpu-") as folder:
        bench = Bench(build, is_short, folder, time.monotonic() + BUDGET_S)
        # Where it is small, NCCL may not find room for many ranks.
        print(f"NCCL: {bench.nccl}; /dev/shm has {shutil.disk_usage('/dev/shm').free // MEBIBYTE} MiB", flush=True)
        try:
            for name, check in chosen:
                rows.append(make(bench, name, check))
                print(f"{rows[-1][1]:8} {rows[-1][2]:6.1f} s  {name}: {rows[-1][3]}", flush=True)
        finally:
            jobs.end_all(0)
    return rows


def main():
    arguments = sys.argv[1:]
    missing = probe()
    if missing:
        print(f"SKIP the checks that need a GPU: {missing}")
        return SKIP
    if arguments[:1] == ["--probe"]:
        return 0
    is_short = "--short" in arguments
    builds = [argument for argument in arguments if not argument.startswith("--")]
    only = next((argument.split("=", 1)[1] for argument in arguments if argument.startswith("--only=")), "")
    chosen = [(name, check) for name, check in CHECKS if only in name]
    if len(builds) != 1 or not chosen:
        print("usage: gpu_check.py [--probe] BUILD [--short] [--only=WORDS]; checks: " + "; ".join(name for name, _ in CHECKS))
        return 2
    jobs.adopt_orphans()
    signal.signal(signal.SIGTERM, leave)
    rows = run(builds[0], is_short, chosen)
    width = max(len(row[0]) for row in rows)
    print(f"\n{'check':{width}}  {'result':8} {'time':>8}  figure")
    for name, result, seconds, text in rows:
        print(f"{name:{width}}  {result:8} {seconds:6.1f} s  {text}")
    failed = [row[0] for row in rows if row[1] == "FAILED"]
    print(f"{sum(row[1] == 'ok' for row in rows)} ok, {len(failed)} failed, {sum(row[1] == 'missed' for row in rows)} targets missed, "
          f"{sum(row[1] == 'skipped' for row in rows)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
