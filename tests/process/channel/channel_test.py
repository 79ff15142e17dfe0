# SPDX-License-Identifier: Apache-2.0
"""channel_test.py BUILD SOURCE: tests the worker channel between real processes: the Python module
and the SDK with a fake agent, and both with ddprun."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from fake_agent import ANSWER, ASKED, PHASE, REPORTED_AT, SAVE_POINT, STEP, WAIT_ENDS_AT, FakeAgent, Page

BUILD, SOURCE = (pathlib.Path(path) for path in sys.argv[1:3])
MODULE = SOURCE / "worker_sdk" / "python"
DDPRUN = BUILD / "bin" / "ddprun"
WORKER_LIFE = BUILD / "stubs" / "worker_life"
EVAL, SAVE, COMPILE = 3, 4, 5
HANG = 60  # seconds: only a hang takes that long

# Prints what it has done, and how many more descriptors it then has than before.
SCRIPT = """
import os, sys, time
def descriptors():
    return len(os.listdir("/proc/self/fd"))
import ddprun, array, fcntl, mmap, socket
before = descriptors()
begin = time.monotonic()
ddprun.report(5)
took = time.monotonic() - begin
with ddprun.phase("eval"):
    pass
for wrong in (-1, 2**64, 1.5, "1", None):
    try:
        ddprun.report(wrong)
        print("taken", wrong)
    except ValueError:
        pass
try:
    ddprun.phase("evaluation")
    print("taken")
except ValueError:
    pass
print("done", descriptors() - before, took < 5)
"""


def environment(way=None, **more):
    result = {**os.environ, "PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1", **more}
    result.pop("DDPRUN_CHANNEL", None)
    if way is not None:
        result["DDPRUN_CHANNEL"] = way
    return result


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def python(script, way=None):
    return subprocess.Popen([sys.executable, "-c", script], env=environment(way), text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def outcome(process):
    out, err = process.communicate(timeout=HANG)
    return out.strip() + err


NEUTRAL = "done 0 True"


def test_without_an_agent_the_module_does_nothing():
    for way in (None, "", "/", "@", "@nowhere/x", "nowhere", "@" + "n" * 300 + "/x", "@a\x01b/\udcff"):
        said = outcome(python(SCRIPT, way))
        check(said == NEUTRAL, f"{way!r}: {said}")


def test_the_module_takes_nothing_but_a_page():
    good = Page()
    answers = {
        "wrong magic": ([Page(magic=b"DDPCHAN2")], b"attached 1\n"),
        "wrong version": ([Page(version=2)], b"attached 1\n"),
        "short page": ([Page(size=2048)], b"attached 1\n"),
        "long page": ([Page(size=8192)], b"attached 1\n"),
        "page that may shrink": ([Page(seals=0)], b"attached 1\n"),
        "two descriptors": ([good, good], b"attached 1\n"),
        "nine descriptors": ([good] * 9, b"attached 1\n"),
        "no descriptor": ([], b"attached 1\n"),
        "another line": ([good], b"attached 2\n"),
        "no line feed": ([good], b"attached 1"),
        "refused": ([], b"refused busy\n"),
        "silence": ([], b""),
    }
    for what, (pages, line) in answers.items():
        with FakeAgent() as agent:
            for start, neutral in ((lambda: python(SCRIPT, agent.way), NEUTRAL), (lambda: life(agent.way), None)):
                worker = start()
                agent.serve(pages, line)
                if neutral:
                    said = outcome(worker)
                    check(said == neutral, f"{what}: {said}")
                else:
                    check(next_line(worker) == "step 5, eval", what)
                    worker.communicate(timeout=HANG)
                agent.worker.close()
        for page in [good, *pages]:
            check(page.words[STEP] == 0 and page.words[REPORTED_AT] == 0, f"{what}: written")


def test_an_agent_that_is_stopped_costs_a_moment():
    with FakeAgent() as agent:  # accepts no connection
        check(outcome(python(SCRIPT, agent.way)) == NEUTRAL, "python")
        worker = life(agent.way)
        check(next_line(worker) == "step 5, eval", "sdk")
        worker.communicate(timeout=HANG)


def life(way):
    return subprocess.Popen([WORKER_LIFE, "phases"], env=environment(way), text=True, bufsize=1,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def next_line(worker):
    return worker.stdout.readline().strip()


def go_on(worker):
    worker.stdin.write("\n")
    worker.stdin.flush()


PHASES = """
import ddprun, os
def say(line):
    print(line, flush=True)
    input()
ddprun.report(5)
with ddprun.phase("eval"):
    say("step 5, eval")
    with ddprun.phase("save"):
        say("save")
    say("eval again")
    child = os.fork()
    if child == 0:
        ddprun.report(99)
        with ddprun.phase("data"):
            os._exit(0 if ddprun._connection is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    say("a child has reported")
    try:
        with ddprun.phase("compile"):
            raise RuntimeError("in compile")
    except RuntimeError as error:
        say(error)
"""


def test_both_libraries_write_the_page_and_their_forked_children_do_not():
    for language, start in (("python", lambda way: python(PHASES, way)), ("c", life)):
        page = Page()
        with FakeAgent() as agent:
            worker = start(agent.way)
            greeting = agent.serve([page])
            check(greeting == f"ddprun-worker/1 {agent.token} {worker.pid} {language}\n", greeting)
            for line, phase in (("step 5, eval", EVAL), ("save", SAVE), ("eval again", EVAL),
                                ("a child has reported", EVAL), ("in compile", COMPILE)):
                said = next_line(worker)
                check(said == line, f"{language}: {said}")
                check((page.words[STEP], page.words[PHASE]) == (5, phase), f"{language}: {line}")
                age = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - page.words[REPORTED_AT]
                check(0 < age < HANG * 10**9, f"{language}: {age}")
                go_on(worker)
            check(worker.wait(HANG) == 0, language)
            worker.communicate()
            # Its connection is closed with it.
            check(agent.worker.recv(1) == b"", language)


def test_a_forked_child_that_calls_first_takes_no_page():
    script = """
import os
import ddprun
pid = os.fork()
if pid == 0:
    ddprun.report(7)
    os._exit("DDPRUN_CHANNEL" in os.environ)
print("child", os.waitpid(pid, 0)[1], flush=True)
ddprun.report(5)
print("reported", flush=True)
input()
"""
    page = Page()
    with FakeAgent() as agent:
        worker = python(script, agent.way)
        greeting = agent.serve([page])
        check(greeting == f"ddprun-worker/1 {agent.token} {worker.pid} python\n", greeting)
        check(next_line(worker) == "child 0", "the child")
        check(next_line(worker) == "reported" and page.words[STEP] == 5, "the parent")
        go_on(worker)
        check(worker.wait(HANG) == 0, "the worker")
        worker.communicate()


def test_a_reader_never_sees_half_a_number():
    page = Page()
    with FakeAgent() as agent:
        worker = python("import ddprun\nwhile True:\n ddprun.report(0)\n ddprun.report(2**64 - 1)\n", agent.way)
        agent.serve([page])
        seen = set()
        while not {0, 2**64 - 1} <= seen:
            seen.add(page.words[STEP])
        for _ in range(1_000_000):
            seen.add(page.words[STEP])
        worker.kill()
        worker.communicate()
        check(seen == {0, 2**64 - 1}, str(seen))


# ---- with ddprun --------------------------------------------------------------------------------

def job(folder, script, *options, **more):
    path = pathlib.Path(folder) / "train.py"
    path.write_text(script)
    return subprocess.Popen([DDPRUN, "--standalone", *options, f"--python={sys.executable}", path], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**more))


def ended(process):
    out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


def test_the_report_has_the_last_step_and_phase_of_the_root_cause():
    script = """
import ddprun, os
ddprun.report(100 + int(os.environ["RANK"]))
with ddprun.phase("eval"):
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), 9)
    import time; time.sleep(100)
"""
    with tempfile.TemporaryDirectory() as folder:
        code, _, err = ended(job(folder, script, "--nproc-per-node=2"))
        check(code == 137 and "\n  progress       step 101, in phase eval\n" in err, err)
        code, _, err = ended(job(folder, script, "--nproc-per-node=2", "--report-format=json"))
        report = json.loads([line for line in err.splitlines() if '"job.ended"' in line][0])
        worker = report["root_cause"]["worker"]
        check((worker["step"], worker["phase"]) == (101, "eval"), err)


def test_status_shows_what_ranks_report_and_a_page_of_garbage_is_only_numbers():
    script = """
import ddprun, os, sys
if os.environ["RANK"] == "0":
    ddprun.report(7)
else:
    ddprun.report(2**63)
    with ddprun.phase("eval"):
        pass
    for word in range(512):
        ddprun._words[word] = 2**63 + 1
sys.stdin.readline()
"""
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        path = pathlib.Path(folder) / "train.py"
        path.write_text(script)
        running = subprocess.Popen(
            [DDPRUN, "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--nproc-per-node=2",
             f"--python={sys.executable}", path], env=environment(), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        shown, until = None, time.monotonic() + HANG
        wanted = [{"rank": 0, "step": 7, "phase": None}, {"rank": 1, "step": 2**63 + 1, "phase": None}]
        while shown != wanted and time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=HANG) as page:
                    jobs = json.load(page)["jobs"]
                    shown = jobs[0]["nodes"][0]["progress"] if jobs and jobs[0]["nodes"] else None
            except OSError:
                pass  # not listening yet
        running.communicate("\n\n", timeout=HANG)
        check(shown == wanted, str(shown))
        check(running.returncode == 0, str(running.returncode))


def test_a_second_process_is_refused_and_the_next_owner_is_not():
    script = """
import ddprun, os, subprocess, sys
if len(sys.argv) > 1:
    ddprun.report(int(sys.argv[1]))
    print(sys.argv[1], ddprun._connection is not None, flush=True)
    sys.exit()
subprocess.run([sys.executable, __file__, "1"])
ddprun.report(10)
subprocess.run([sys.executable, __file__, "2"])
subprocess.run(["sh", "-c", f"{sys.executable} {__file__} 3"])
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    os.execv(sys.executable, [sys.executable, __file__])
ddprun.report(11)
print(sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in os.listdir("/proc/self/fd")
             if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")))
sys.exit(9)
"""
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(job(folder, script))
        check(code == 9, err)
        check(out.split("\n")[:6] == ["1 True", "2 False", "3 False"] * 2, out)
        check("progress       step 11\n" in err, err)


def test_a_worker_that_never_asks_has_no_descriptor_of_ours():
    script = """
import os
print([n for n in sorted(os.listdir("/proc/self/fd"), key=int) if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")])
"""
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(job(folder, script))
        check(code == 0 and out == "[]\n", out + err)


def test_a_stopped_agent_and_ten_thousand_strangers_do_not_disturb_a_worker():
    script = """
import os, signal, socket, time
name = os.environ["DDPRUN_CHANNEL"].rpartition("/")[0]
import ddprun
os.kill(os.getppid(), signal.SIGSTOP)
begin = time.monotonic()
ddprun.report(1)
took = time.monotonic() - begin
os.kill(os.getppid(), signal.SIGCONT)
print(took < 2, ddprun._connection is None)

strangers = []
for i in range(10_000):
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stranger.connect("\\0" + name[1:])
    strangers.append(stranger)
    if len(strangers) > 500:
        strangers.pop(0).close()
line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
line.connect("\\0" + name[1:])
try:
    line.sendall(b"x" * 2**20)
    print(line.recv(1))
except OSError:
    print(b"")
for stranger in strangers:
    stranger.close()
# The agent closes those that it has heard at their time at the latest.
until = time.monotonic() + 60
ddprun._words = None
while ddprun._connection is None and time.monotonic() < until:
    ddprun._words = None
    ddprun.report(7)
print(ddprun._connection is not None)
os._exit(5)
"""
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(job(folder, script, "--log-level=info"))
        check(code == 5, out + err)
        check(out == "True True\nb''\nTrue\n", out)
        check("step 7" in err, err)
        check(err.count("channel.refused") == 1, err)


def test_two_descriptors_of_a_stranger_are_dropped():
    script = """
import array, os, socket, sys
name, _, token = os.environ["DDPRUN_CHANNEL"].rpartition("/")
agent = os.getppid()
def descriptors():
    return len(os.listdir(f"/proc/{agent}/fd"))
def attach(more):
    worker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    worker.connect("\\0" + name[1:])
    worker.sendmsg([f"ddprun-worker/1 {token} {os.getpid()} c\\n".encode()], more)
    return worker.recv(100)
before = descriptors()
two = array.array("i", [0, 1])
try:
    print(attach([(socket.SOL_SOCKET, socket.SCM_RIGHTS, two)]))
except ConnectionResetError:
    print(b"")
print(descriptors() - before)
print(attach([]))
"""
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = ended(job(folder, script))
        check(code == 0 and out == "b''\n0\nb'attached 1\\n'\n", out + err)


SAVES = """
import ddprun, sys
for line in sys.stdin:
    word, step = line.split()
    if word == "saved":
        ddprun.saved(int(step))
        print("ok", flush=True)
    else:
        print("yes" if ddprun.should_save(int(step)) else "no", flush=True)
"""
PROPOSED, AGREED, CANCELLED = 1, 2, 3
SAVING, SAVED, DECLINED = 1, 2, 3


def save_word(ballot, state, step):
    return ballot << 56 | state << 54 | step


def saves_of(language, way):
    if language == "python":
        return python(SAVES, way)
    return subprocess.Popen([WORKER_LIFE, "saves"], env=environment(way), text=True, bufsize=1,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def write_line(worker, line):
    worker.stdin.write(line + "\n")
    worker.stdin.flush()


def said_to(worker, line):
    write_line(worker, line)
    return next_line(worker)


def until(condition, what):
    end = time.monotonic() + HANG
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.001)


def test_a_rank_saves_once_at_the_step_that_is_agreed():
    for language in ("python", "c"):
        page = Page()
        with FakeAgent() as agent:
            worker = saves_of(language, agent.way)
            write_line(worker, "ask 3")
            agent.serve([page])
            check(next_line(worker) == "no", language)
            check(page.words[ASKED] == 4, language)
            page.words[SAVE_POINT] = save_word(1, PROPOSED, 5)
            check(said_to(worker, "ask 4") == "no", f"{language}: below the step")
            write_line(worker, "ask 6")  # a rank need not ask in each step
            until(lambda: page.words[ASKED] == 7, language)
            page.words[SAVE_POINT] = save_word(1, AGREED, 5)
            check(next_line(worker) == "yes", language)
            check(page.words[ANSWER] == save_word(1, SAVING, 6), language)
            check(said_to(worker, "ask 7") == "no", f"{language}: once")
            check(said_to(worker, "saved 7") == "ok" and page.words[ANSWER] == save_word(1, SAVING, 6), f"{language}: of another step")
            check(said_to(worker, "saved 6") == "ok" and page.words[ANSWER] == save_word(1, SAVED, 6), language)
            # Another rank had not waited, so all save once more.
            page.words[SAVE_POINT] = save_word(2, AGREED, 9)
            check(said_to(worker, "ask 8") == "no" and said_to(worker, "ask 9") == "yes", f"{language}: the next ballot")
            check(page.words[ANSWER] == save_word(2, SAVING, 9), language)
            worker.communicate(timeout=HANG)


def test_a_rank_that_waits_goes_on_with_a_later_step_or_when_it_has_waited_too_long():
    for language in ("python", "c"):
        page = Page()
        with FakeAgent() as agent:
            worker = saves_of(language, agent.way)
            write_line(worker, "ask 3")
            agent.serve([page])
            next_line(worker)
            page.words[SAVE_POINT] = save_word(1, PROPOSED, 4)
            write_line(worker, "ask 4")
            until(lambda: page.words[ASKED] == 5, language)
            page.words[SAVE_POINT] = save_word(2, PROPOSED, 6)
            check(next_line(worker) == "no" and page.words[ANSWER] == 0, f"{language}: a later step")
            begin = time.monotonic()
            check(said_to(worker, "ask 6") == "no" and time.monotonic() - begin >= 5, f"{language}: five seconds")
            check(page.words[ANSWER] == save_word(2, DECLINED, 6), language)
            check(said_to(worker, "ask 7") == "no", f"{language}: it does not wait twice")
            worker.communicate(timeout=HANG)


def test_a_rank_waits_until_the_end_that_its_agent_gives_or_the_proposal_is_withdrawn():
    for language in ("python", "c"):
        page = Page()
        with FakeAgent() as agent:
            worker = saves_of(language, agent.way)
            write_line(worker, "ask 3")
            agent.serve([page])
            next_line(worker)
            page.words[WAIT_ENDS_AT] = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(HANG * 1e9)
            page.words[SAVE_POINT] = save_word(1, PROPOSED, 4)
            write_line(worker, "ask 4")
            until(lambda: page.words[ASKED] == 5, language)
            page.words[SAVE_POINT] = save_word(1, CANCELLED, 4)
            check(next_line(worker) == "no" and page.words[ANSWER] == 0, f"{language}: withdrawn")
            page.words[WAIT_ENDS_AT] = 1
            page.words[SAVE_POINT] = save_word(2, PROPOSED, 5)
            check(said_to(worker, "ask 5") == "no", f"{language}: its end")
            check(page.words[ANSWER] == save_word(2, DECLINED, 5), language)
            worker.communicate(timeout=HANG)


def test_steps_that_no_page_can_hold_are_wrong_and_smaller_ones_false():
    script = """
import ddprun, sys
for wrong in (-1, 2**54 - 2, 1.5, "1", None):
    try:
        ddprun.should_save(wrong)
        print("taken", wrong)
    except ValueError:
        pass
sys.stderr = sys.stdout
print(ddprun.should_save(2**54 - 3), ddprun.saved(7))
print(ddprun.should_save(7), ddprun.should_save(8))
"""
    said = outcome(python(script))
    check(said.startswith("False None\nddprun.should_save: step 7 after 18014398509481981: False until a step is above that\n"
                          "False False"), said)


def main():
    failed = 0
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and (len(sys.argv) < 4 or sys.argv[3] in name):
            begin = time.monotonic()
            try:
                test()
                print(f"ok {name} {time.monotonic() - begin:.1f} s", flush=True)
            except Exception as error:  # noqa: each is shown
                failed += 1
                print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


main()
