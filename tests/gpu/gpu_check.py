#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_check.py [--probe] BUILD [OPTION...]: every check that needs a GPU, first all of them short, then those that have more to
show in full, and a table at the end. Each check has a time limit of its own. One that fails, or hangs, does not keep the next
from running: the backtraces of hung processes are taken before they are killed. When ranks cannot share the GPU, checks with
as many ranks are skipped, and those with fewer still run. Exits 0, 1 when a check failed, 77 with one line when the machine
lacks a driver, a GPU or NCCL.
  --probe         only that
  --plan          the checks and their limits
  --short         only the first pass; --full only the second
  --only=WORDS    the checks whose name has these words; --from=WORDS: all from the first of those on
  --out=FOLDER    for output.txt, results.json (a row after each check) and logs.zip; else gpu-check in BUILD
  --without=WAYS  of NCCL's, with ',' between: registration, mem_alloc, p2p, nvls, shm: to find out what a failure is due to
  --limits=N      multiplies all time limits: for a GPU that is simulated"""
import ctypes
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import jobs
from jobs import Failed, Job, Overdue, Skipped
from results import Results

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIP = 77
# What a Reducer on GPUs says where there was no CUDA compiler: as for a program that was not built.
NO_KERNELS = "this ddprun was built without nvcc"
# All checks together: one whose turn comes later is skipped, and what is started has no more than is left.
BUDGET_S = 570
# Of it, for what comes when a check is over its limit: backtraces, and processes that are slow to end.
RESERVE_S = 30
PROBE_S = 30
MEBIBYTE = 1 << 20
SHOWN_LINES = 25
# NCCL's own variables.
WITHOUT = {
    "registration": {"NCCL_LOCAL_REGISTER": "0", "NCCL_GRAPH_REGISTER": "0"},
    "mem_alloc": {"NCCL_CUMEM_ENABLE": "0"},
    "p2p": {"NCCL_P2P_DISABLE": "1"},
    "nvls": {"NCCL_NVLS_ENABLE": "0"},
    "shm": {"NCCL_SHM_DISABLE": "1"},
}


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


def probe_elsewhere(limit_s):
    """(exit code, line) of a process of its own: a driver that is stuck does not answer."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([sys.executable, __file__, "--probe"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return 1, f"the CUDA driver does not answer within {limit_s} s"
        out.seek(0)
        return code, out.read().decode(errors="replace").strip()


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

    def __init__(self, choice, folder, results):
        self.bin = pathlib.Path(choice.build).resolve() / "bin"
        self.limits = choice.limits
        self.is_simulated = choice.limits > 1
        self.folder = pathlib.Path(folder)
        self.results = results
        self.count = 0
        self.nccl = os.environ.get("DDPRUN_NCCL") or find_nccl()
        self.variables = {"DDPRUN_NCCL": self.nccl, "LD_LIBRARY_PATH": library_path()}
        for way in choice.without:
            self.variables.update(WITHOUT[way])
        self.end = time.monotonic() + BUDGET_S * choice.limits

    def turn_to(self, a_pass, number, check):
        """What follows is of this check: its limit, its logs."""
        self.is_short = a_pass == "short"
        self.until = min(self.end, time.monotonic() + check.limit_s(a_pass) * self.limits)
        self.logs = self.folder / f"{a_pass}-{number:02}-{re.sub('[^a-zA-Z0-9]+', '_', check.name)}"
        self.logs.mkdir()
        self.last_log = None
        debug = {"NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "INFO"), "NCCL_DEBUG_FILE": f"{self.logs}/nccl.%h.%p"}
        self.environment = {**debug, **self.variables}

    def pick(self, whole, short):
        return short if self.is_short else whole

    def program(self, name):
        path = self.bin / name
        if not path.exists():
            raise Skipped(f"{name} was not built")
        return path

    def start(self, command, environment=None):
        self.count += 1
        self.last_log = self.logs / f"{self.count}.log"
        return Job(command, self.last_log, self.until, self.environment if environment is None else environment)

    def launched(self, ranks, command, options=()):
        """Under ddprun, on the one GPU."""
        share = ["--share-gpu"] if ranks > 1 else []
        return self.start(
            [self.program("ddprun"), "--standalone", f"--nproc-per-node={ranks}", *share, *options, "--no-python", *command])

    def worker(self, ranks, *part, code=0, options=()):
        """The output of gpu_worker on so many ranks."""
        with self.launched(ranks, [self.program("gpu_worker"), *part], options) as job:
            return job.require(code)

    def fresh(self, name):
        self.count += 1
        folder = self.folder / f"{name}-{self.count}"
        folder.mkdir()
        return folder

    def digits(self):
        folder = self.folder / self.pick("digits", "few_digits")
        if not folder.exists():
            sizes = self.pick([], ["--train", "512", "--test", "128"])
            with self.start([self.program("make_digits"), "--out", folder, *sizes]) as job:
                job.require()
        return folder


def workers_of(job, name):
    """Pids of the job's running processes of that name."""
    return [pid for pid in jobs.descendants(job.process.pid) if jobs.name_of(pid) == name and not jobs.is_zombie(pid)]


def figures(text, name):
    """The numbers of the last line that begins with `name`, also behind a launcher's prefix."""
    for line in reversed(text.splitlines()):
        words = line.split()
        if name in words:
            return words[words.index(name) + 1:]
    raise Failed(f"no figure {name} in the output")


def figure(text, name):
    return float(figures(text, name)[0])


# ---- the machine --------------------------------------------------------------------------------

def check_facts(bench):
    libraries = [bench.nccl, *(str(found) for folder in library_folders() for found in sorted(pathlib.Path(folder).glob("lib*.so.*"))
                               if found.name.startswith(("libcublasLt.", "libcudnn.")))]
    with bench.start([sys.executable, HERE / "facts.py", *libraries], {**bench.variables, "NCCL_DEBUG": "WARN"}) as job:
        text = job.require()
    for line in text.splitlines():
        bench.results.say(f"    {line}")
    return f"{' '.join(figures(text, 'GPU'))}, driver for CUDA {figures(text, 'CUDA')[0]}, NCCL {figures(text, 'NCCL')[0]}"


# ---- collectives --------------------------------------------------------------------------------

def check_kernels(bench):
    text = bench.worker(1, "kernels", 5000 if bench.is_simulated else MEBIBYTE)
    return f"compression and clipping of {figure(text, 'elements'):.0f} elements as on the host"


def check_life(bench):
    text = bench.worker(1, "life")
    return f"group after {figure(text, 'created_ms'):.0f} ms, whole life {figure(text, 'whole_life_ms'):.0f} ms"


def check_by_hand(ranks):
    def check(bench):
        text = bench.worker(ranks, "sums_by_hand", bench.pick(MEBIBYTE, 1000))
        if text.count("by_hand ") != 2:
            raise Failed("not both kinds of communicators")
        return "a sum on a blocking communicator, and on one that is not"
    return check


def check_sums(ranks):
    def check(bench):
        most = bench.pick(64 * MEBIBYTE, MEBIBYTE // 4)
        start = time.monotonic()
        text = bench.worker(ranks, "sums", most)
        return f"{figure(text, 'sizes'):.0f} sizes, 4 B to {most // 1024} KiB, in {time.monotonic() - start:.1f} s"
    return check


def check_calls(ranks):
    def check(bench):
        most = bench.pick(100_000, 1000)
        bench.worker(ranks, "calls", most)
        return f"every collective, type and operation, messages and use_stream, up to {most} elements"
    return check


def check_steps(ranks):
    def check(bench):
        text = bench.worker(ranks, "steps")
        if text.count("steps ") != 3:
            raise Failed("not all ways")
        return "a Reducer's steps, plain, as bfloat16 and float16, clipped and captured"
    return check


def check_kill(bench):
    folder = bench.fresh("kill")
    size = bench.pick(16 * MEBIBYTE, MEBIBYTE // 4)
    text = bench.worker(3, "kill", size, folder, code=128 + signal.SIGKILL, options=["--shutdown-timeout=40"])
    known = figure(text, "known_ms")
    # The kernel ends what the process had on the GPU before its end is visible, however long that takes.
    visible = figure(text, "end_visible_ms") if "end_visible_ms" in text else 0
    if known - visible > bench.pick(2000, 30000):
        raise Failed(f"PeerLost only {known - visible:.0f} ms after the peer's end was visible")
    return Target(
        f"PeerLost with its rank after {known:.0f} ms (abort included; its end was visible after {visible:.0f} ms), new group of two in "
        f"{figure(text, 'again_ms'):.0f} ms (target 2000)", known <= 2000)


def check_kill_by_hand(bench):
    folder = bench.fresh("by_hand")
    size = bench.pick(16 * MEBIBYTE, MEBIBYTE // 4)
    text = bench.worker(3, "kill_by_hand", size, folder, 4, code=128 + signal.SIGKILL, options=["--shutdown-timeout=60"])
    noticed = figures(text, "noticed_ms")[0]
    when = "noticed nothing within 4 s" if noticed == "never" else f"noticed it after {float(noticed):.0f} ms"
    return f"NCCL {when}, its abort took {figure(text, 'abort_ms'):.0f} ms"


def check_stop(bench):
    folder = bench.fresh("stop")
    size = bench.pick(16 * MEBIBYTE, MEBIBYTE // 4)
    timeout_s = 10 if bench.is_simulated else 5  # within which the group also has to be made
    # The others have their figures and end well; only then the launcher has to end the stopped one.
    with bench.launched(3, [bench.program("gpu_worker"), "stop", size, folder, timeout_s], ["--shutdown-timeout=2"]) as job:
        job.await_fact("the survivors' new group", lambda: "again_ms" in job.text())
        text = job.text()
        job.process.terminate()
        job.code()
    known = figure(text, "known_ms")
    if not timeout_s - 2 <= known / 1000 <= timeout_s + 6:  # the others may have begun to wait a little before the strike
        raise Failed(f"a group with a timeout of {timeout_s} s ended after {known:.0f} ms")
    named = "its rank named" if re.search(r"nothing was heard of ranks? (\d(,| and) )*2", text) else "its rank not named"
    return f"Timeout after {known:.0f} ms ({timeout_s} s are the group's; abort included), {named}, new group in {figure(text, 'again_ms'):.0f} ms"


# The driver may keep something when it first needs it. What grows with each group is a leak, of one in four of them at least.
LEAK_PER_GROUP = 0.25
LEAK_MIB = 16


def check_cycles(ranks, whole):
    def check(bench):
        count = bench.pick(whole, 16)
        text = bench.worker(ranks, "cycles", count)
        half = figure(text, "in_each_half")
        kept = []
        for name in ("descriptors", "threads"):
            before, middle, after = (int(number) for number in figures(text, name)[:3])
            if (after - middle) / half >= LEAK_PER_GROUP:
                raise Failed(f"{name} grew from {before} over {middle} to {after}, by {(after - middle) / half:.2f} with each group")
            kept.append(f"{name} {before} to {after}")
        before, middle, after = (int(number) for number in figures(text, "gpu_mib")[:3])
        if after > before + LEAK_MIB:
            raise Failed(f"the GPU's memory in use grew from {before} over {middle} to {after} MiB")
        return (f"{count} groups, half of them aborted: {figure(text, 'each_ms'):.0f} ms each, at most {figure(text, 'longest_ms'):.0f}; "
                f"{', '.join(kept)}, {before} to {after} MiB")
    return check


def check_bench(ranks):
    def check(bench):
        # Ranks that share a GPU take turns on it, and talk over the network.
        most = bench.pick((64 if ranks == 1 else 4) * MEBIBYTE, 4096)
        text = bench.worker(ranks, "bench", most, bench.pick(1.5, 0.05))
        say = bench.results.say
        say(f"\nall_reduce, {ranks} rank{'s' if ranks > 1 else ''}, microseconds (medians; by hand: the same calls on a non-blocking "
            "communicator, blocking: on a blocking one; 8 in flight: each)")
        say(f"{'bytes':>10} {'SDK':>10} {'by hand':>10} {'ratio':>6} {'blocking':>10} {'SDK, 8':>10} {'by hand, 8':>10} {'ratio':>6} "
            f"{'blocking, 8':>11}")
        ratios, flying = [], []
        for line in text.splitlines():
            if "hand_flying" not in line:
                continue
            words = line[line.index("bytes "):].split()
            row = dict(zip(words[::2], map(float, words[1::2])))
            ratios.append(row["sdk"] / row["hand"])
            flying.append(row["sdk_flying"] / row["hand_flying"])
            say(f"{row['bytes']:10.0f} {row['sdk']:10.1f} {row['hand']:10.1f} {ratios[-1]:6.3f} {row['blocking']:10.1f} "
                f"{row['sdk_flying']:10.1f} {row['hand_flying']:10.1f} {flying[-1]:6.3f} {row['blocking_flying']:11.1f}")
        return Target(
            f"SDK / by hand: {statistics.median(ratios):.3f}, worst {max(ratios):.3f}; 8 in flight {statistics.median(flying):.3f}, worst "
            f"{max(flying):.3f} (target 1.01)", max(ratios) <= 1.01)
    return check


# ---- programs that call NCCL themselves ---------------------------------------------------------

def check_hello(bench):
    start = time.monotonic()
    with bench.launched(2, [bench.program("nccl_hello")]) as job:
        text = job.require()
    if text.count("the sum is 3") != 2:
        raise Failed("a sum is wrong")
    return f"both say 3, after {time.monotonic() - start:.1f} s"


def check_adopted(bench):
    """A program that asks NCCL itself whether it failed."""
    with bench.launched(3, [bench.program("nccl_adopted"), "1000000000"], ["--shutdown-timeout=30"]) as job:
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

def train(bench, ranks, batch, epochs, more=(), options=(), device="cuda"):
    """A training that has been started."""
    bench.program("libmnist_cuda.so")
    command = [
        bench.program("train_mnist"), "--data", bench.digits(), "--device", device, "--batch-size", batch, "--epochs", epochs, *more]
    return bench.launched(ranks, command, options)


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


LOSSES = {}  # of each epoch, by pass and ranks


def check_train(ranks):
    def check(bench):
        epochs = bench.pick(3, 1)
        with train(bench, ranks, 256 // ranks, epochs) as job:
            text = job.require()
        rows = epochs_of(text)
        LOSSES[bench.is_short, ranks] = [row[0] for row in rows]
        accuracy = figure(text.split("test ")[-1], "accuracy")
        if not bench.is_short and accuracy < 90:
            raise Failed(f"test accuracy {accuracy} %")
        alone = LOSSES.get((bench.is_short, 1), [])
        for epoch, (ours, theirs) in enumerate(zip(LOSSES[bench.is_short, ranks], alone)):
            if abs(ours - theirs) > 0.02 + 0.1 * theirs:
                raise Failed(f"loss of epoch {epoch + 1} is {ours}, with one rank {theirs}")
        return f"loss {rows[-1][0]:.4f} after {epochs} epochs, test accuracy {accuracy:.2f} %, {rows[-1][2]:.0f} samples/s"
    return check


def check_cpu_parity(bench):
    """The same training on the processor: the same curve within what summation orders and dropout allow."""
    curves = {}
    for device in ("cpu", "cuda"):
        with train(bench, 1, 256, 1, device=device) as job:
            curves[device] = epochs_of(job.require())[-1]
    cpu, cuda = curves["cpu"], curves["cuda"]
    if abs(cpu[0] - cuda[0]) > 0.01 + 0.02 * cpu[0]:
        raise Failed(f"loss {cuda[0]}, on the processor {cpu[0]}")
    return f"loss of the first epoch {cuda[0]:.4f}, on the processor {cpu[0]:.4f}"


def check_restart(bench):
    """A rank is killed in its second epoch: new workers within two seconds, and the parameters of an undisturbed run."""
    epochs = bench.pick(4, 24 if bench.is_simulated else 200)  # more than are over before the kill
    saved = {}
    for way in ("undisturbed", "disturbed"):
        saved[way] = bench.fresh(way)
        with train(bench, 2, 128, epochs, ["--checkpoint-dir", saved[way], "--checkpoint-every", "50"], ["--max-restarts=3"]) as job:
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
    with bench.start([bench.program("compare_checkpoints"), saved["undisturbed"], saved["disturbed"]]) as job:
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
    folder = bench.fresh("few_digits")
    with bench.start([bench.program("make_digits"), "--out", folder, "--train", "512", "--test", "128"]) as job:
        job.require()
    # NVIDIA's own libraries ask for functions that a driver lacks, and have kernels that only they can judge.
    options = ["--error-exitcode", "9", "--report-api-errors", "no", "--kernel-name", "kns=mnist_", "--kernel-name", "kns=ddprun_"]
    for tool in ("memcheck", "racecheck"):
        command = [program, "--tool", tool, *options, bench.program("train_mnist"), "--data", folder, "--device", "cuda", "--epochs", "1",
                   "--batch-size", "128"]
        with bench.start(command) as job:
            if job.code() != 0 and "Device not supported" in job.text():
                raise Skipped("compute-sanitizer does not support this device")
            job.require()
    return "memcheck and racecheck find nothing"


# ---- speed --------------------------------------------------------------------------------------

def torch_figure(bench, script, *arguments):
    """What a PyTorch script says in its line "figure NUMBER [WORDS]": the number, and the words."""
    with bench.start([torch_python(), HERE / script, *map(str, arguments)], environment={}) as job:
        try:
            code = job.code()
        except Overdue:
            if "figure " not in job.text():
                raise
            number, *words = figures(job.text(), "figure")  # the last of several
            return float(number), " ".join([*words, "(and not done in time)"])
        if code == SKIP:
            raise Skipped("PyTorch beside it: " + (job.text().strip().splitlines() or ["no CUDA"])[-1])
        if code != 0:
            raise Failed(f"{script} returned {code}")
        number, *words = figures(job.text(), "figure")
        return float(number), " ".join(words)


def torch_beside(ours, *arguments):
    """The same; what was measured of ours is not lost when PyTorch fails."""
    try:
        return torch_figure(*arguments)
    except Failed as error:
        raise Failed(f"{ours}; PyTorch beside it: {error}") from None


def check_mnist_speed(bench):
    samples, epochs = bench.pick((60000, 12), (512, 2))
    with train(bench, 1, 128, epochs) as job:
        ours = [samples / row[2] * 1e3 for row in epochs_of(job.require())[1:]]
    ours = statistics.median(ours)
    try:
        peer, _ = torch_beside(f"{ours:.2f} ms per epoch", bench, "torch_mnist.py", bench.pick(60000, 512), 128, bench.pick(3, 1))
    except Skipped as reason:
        return Target(f"{ours:.2f} ms per epoch (target 16); {reason}", ours <= 16)
    return Target(
        f"{ours:.2f} ms per epoch (target 16), PyTorch DDP eager {peer:.0f} ms: {peer / ours:.1f} times (target 20)",
        ours <= 16 and peer / ours >= 20)


def check_cifar_speed(bench):
    program = bench.program("train_cifar")
    bench.program("libcifar_cuda.so")
    folder = bench.fresh("images")
    sizes = bench.pick(["--train", "25600", "--test", "1024"], ["--train", "80", "--test", "10"])
    with bench.start([bench.program("make_images"), "--out", folder, *sizes]) as job:
        job.require()
    command = [program, "--data", folder, "--batch-size", bench.pick(512, 16), "--epochs", bench.pick(3, 1),
               *bench.pick([], ["--width", "8"])]
    with bench.launched(1, command) as job:
        text = job.require()
    rates = [float(words[words.index("images/s") - 1]) for words in map(str.split, text.splitlines()) if "images/s" in words]
    if not rates:
        raise Failed("no epoch was reported")
    try:
        peer, how = torch_beside(f"{rates[-1]:.0f} images/s", bench, "torch_cifar.py", bench.pick(512, 16), bench.pick(30, 2))
    except Skipped as reason:
        return f"{rates[-1]:.0f} images/s; {reason}"
    return Target(f"{rates[-1]:.0f} images/s, PyTorch {how} {peer:.0f}: {rates[-1] / peer:.2f} times (target 1)", rates[-1] >= peer)


# ---- the table ----------------------------------------------------------------------------------

class Target:
    """A figure with a target; one that is missed in full is shown, and fails nothing."""

    def __init__(self, text, is_met):
        self.text = text
        self.is_met = is_met


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    ranks: int
    short_s: float  # 0: it cannot be short
    full_s: float  # 0: the short one shows everything
    make: typing.Callable
    is_gate: bool = False  # where it fails, so many ranks cannot share the GPU

    def limit_s(self, a_pass):
        return self.short_s if a_pass == "short" else self.full_s


CHECKS = [
    Check("driver, GPU and libraries", 0, 10, 0, check_facts),
    Check("kernels beside the host", 1, 10, 0, check_kernels),
    Check("one rank: init, all_reduce, finalize", 1, 10, 0, check_life),
    Check("NCCL by hand, 1 rank", 1, 8, 0, check_by_hand(1)),
    Check("sums, 1 rank", 1, 8, 0, check_sums(1)),
    Check("every call, 1 rank", 1, 10, 0, check_calls(1)),
    Check("a Reducer's steps, 1 rank", 1, 10, 0, check_steps(1)),
    Check("groups made and aborted, 1 rank", 1, 10, 16, check_cycles(1, 100)),
    Check("speed of all_reduce, 1 rank", 1, 8, 22, check_bench(1)),
    Check("NCCL by hand, 2 ranks share the GPU", 2, 10, 0, check_by_hand(2), True),
    Check("sums, 2 ranks share the GPU", 2, 10, 8, check_sums(2), True),
    Check("sums, 4 ranks share the GPU", 4, 12, 0, check_sums(4), True),
    Check("every call, 2 ranks share the GPU", 2, 10, 8, check_calls(2)),
    Check("a Reducer's steps, 2 ranks share the GPU", 2, 10, 0, check_steps(2)),
    Check("speed of all_reduce, 2 ranks", 2, 10, 14, check_bench(2)),
    Check("SIGKILL one of 3 in mid all_reduce", 3, 12, 12, check_kill),
    Check("the same with NCCL by hand", 3, 12, 0, check_kill_by_hand),
    Check("SIGSTOP one of 3 in mid all_reduce", 3, 16, 0, check_stop),
    Check("groups made and aborted, 2 ranks", 2, 10, 16, check_cycles(2, 30)),
    Check("NCCL without MPI", 2, 8, 0, check_hello),
    Check("an adopted NCCL program loses a peer", 3, 8, 0, check_adopted),
    Check("a killed rank becomes a restart", 2, 12, 18, check_restart),
    Check("trainer, 1 rank", 1, 8, 12, check_train(1)),
    Check("trainer, 2 ranks share the GPU", 2, 10, 10, check_train(2)),
    Check("trainer, 4 ranks share the GPU", 4, 10, 0, check_train(4)),
    Check("trainer beside the processor", 1, 8, 0, check_cpu_parity),
    Check("speed of MNIST, batch 128", 1, 15, 26, check_mnist_speed),
    Check("speed of CIFAR", 1, 18, 45, check_cifar_speed),
    Check("compute-sanitizer", 1, 0, 40, check_sanitizer),
]
PASSES = ("short", "full")
assert sum(check.short_s + check.full_s for check in CHECKS) <= BUDGET_S - RESERVE_S, "more than one call has"


@dataclasses.dataclass
class Row:
    """A check's line of the table."""
    a_pass: str
    name: str
    result: str  # ok, missed (a target), skipped or FAILED
    seconds: float
    text: str


def reason_to_skip(check, a_pass, rows):
    """Why a check has nothing to show after what the ones before have shown; None where it has."""
    failed = [row.name for row in rows if row.result == "FAILED"]
    for gate in CHECKS:
        if gate.is_gate and gate.name in failed and check.ranks >= gate.ranks:
            return f"{gate.ranks} ranks cannot share the GPU: {gate.name} failed"
    if a_pass == "full":
        for row in rows:
            if row.name == check.name and row.result in ("FAILED", "skipped"):
                return f"{row.result} in the short pass"
    return None


def make(bench, number, check, a_pass, rows):
    """The row of a check."""
    bench.turn_to(a_pass, number, check)
    start = time.monotonic()
    try:
        reason = reason_to_skip(check, a_pass, rows)
        if reason or start > bench.end:
            raise Skipped(reason or "no time was left for it")
        figure_of = check.make(bench)
        is_target = isinstance(figure_of, Target)
        result = "missed" if is_target and not figure_of.is_met and a_pass == "full" else "ok"
        text = figure_of.text if is_target else figure_of
    except Skipped as reason:
        result, text = "skipped", str(reason)
    except Exception as error:  # whatever it is, the next check has its turn
        result, text = "FAILED", str(error) or type(error).__name__
        lines = []
        if bench.last_log and bench.last_log.exists():
            lines = bench.last_log.read_text(encoding="utf-8", errors="replace").splitlines()
        if any(NO_KERNELS in line for line in lines):
            result, text = "skipped", NO_KERNELS
        elif lines:
            bench.results.say(f"--- {check.name}: the end of its output\n" + "\n".join(lines[-SHOWN_LINES:]) + "\n---")
    left = jobs.end_all()
    if left and result != "FAILED":
        result, text = "FAILED", "left behind: " + ", ".join(left)
    return Row(a_pass, check.name, result, round(time.monotonic() - start, 2), text)


def leave(*_):
    """On SIGTERM: once, so that what is left can be ended in peace."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def run(choice, results):
    """The rows of the table. Whatever ends it, no job is left, and no file but the results."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="ddprun-gpu-") as folder:
        bench = Bench(choice, folder, results)
        # Where it is small, NCCL may not find room for many ranks.
        results.say(f"NCCL: {bench.nccl}; /dev/shm has {shutil.disk_usage('/dev/shm').free // MEBIBYTE} MiB"
                    + "".join(f"; without {way}" for way in choice.without))
        try:
            for a_pass in choice.passes:
                for number, check in enumerate(CHECKS, 1):
                    if check not in choice.checks or not check.limit_s(a_pass):
                        continue
                    row = make(bench, number, check, a_pass, rows)
                    rows.append(row)
                    results.add(dataclasses.asdict(row), bench.logs)
                    results.say(f"{row.result:8} {row.seconds:6.1f} s  {a_pass:5}  {row.name}: {row.text}")
        finally:
            jobs.end_all(0)
    return rows


@dataclasses.dataclass
class Choice:
    build: str
    out: str
    passes: tuple
    checks: list
    without: list
    limits: float


def chosen(arguments):
    """What the arguments ask for; None where they cannot be understood."""
    given = dict(argument[2:].split("=", 1) for argument in arguments if argument.startswith("--") and "=" in argument)
    flags = {argument for argument in arguments if argument.startswith("--") and "=" not in argument}
    builds = [argument for argument in arguments if not argument.startswith("--")]
    names = [check.name for check in CHECKS]
    begin = next((i for i, name in enumerate(names) if given.get("from", "") in name), len(names))
    checks = [check for check in CHECKS[begin:] if given.get("only", "") in check.name]
    without = [way for way in given.get("without", "").split(",") if way]
    passes = tuple(a_pass for a_pass in PASSES if not flags & set(f"--{name}" for name in PASSES) or f"--{a_pass}" in flags)
    is_known = set(given) <= {"only", "from", "out", "without", "limits"} and flags <= {"--short", "--full"}
    if len(builds) != 1 or not checks or not is_known or not set(without) <= set(WITHOUT):
        return None
    out = given.get("out", str(pathlib.Path(builds[0]) / "gpu-check"))
    return Choice(builds[0], out, passes, checks, without, float(given.get("limits", "1")))


def print_plan():
    for check in CHECKS:
        print(f"{check.short_s:4.0f} s short {check.full_s:4.0f} s full  {check.name}")
    print(f"{sum(check.short_s + check.full_s for check in CHECKS):.0f} s of {BUDGET_S}")


def print_table(rows, say):
    width = max(len(row.name) for row in rows)
    say(f"\n{'check':{width}}  {'pass':5}  {'result':8} {'time':>8}  figure")
    for row in rows:
        say(f"{row.name:{width}}  {row.a_pass:5}  {row.result:8} {row.seconds:6.1f} s  {row.text}")
    count = {result: sum(row.result == result for row in rows) for result in ("ok", "FAILED", "missed", "skipped")}
    say(f"{count['ok']} ok, {count['FAILED']} failed, {count['missed']} targets missed, {count['skipped']} skipped")


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--plan"]:
        print_plan()
        return 0
    if arguments[:1] == ["--probe"]:
        missing = probe()
        if missing:
            print(f"SKIP the checks that need a GPU: {missing}")
        return SKIP if missing else 0
    choice = chosen(arguments)
    if not choice:
        print(f"usage: {__doc__}\nChecks: " + "; ".join(check.name for check in CHECKS))
        return 2
    code, line = probe_elsewhere(PROBE_S)
    if code != 0:
        print(line)
        return code
    jobs.adopt_orphans()
    signal.signal(signal.SIGTERM, leave)
    results = Results(choice.out)
    rows = run(choice, results)
    print_table(rows, results.say)
    return 1 if any(row.result == "FAILED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
