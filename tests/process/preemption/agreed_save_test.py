# SPDX-License-Identifier: Apache-2.0
"""agreed_save_test.py BUILD SOURCE: some notices at random moments, and what happens where there is no common save."""
import os
import pathlib
import signal
import sys
import tempfile

from agreed_save import RANKS, SAVED, Job, one_notice

BUILD, SOURCE = (pathlib.Path(path) for path in sys.argv[1:3])
STOPPED = 128 + signal.SIGTERM
STEPS = {"LONGEST_STEP": "0.01"}


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def played(nodes, options, more, play, in_step=True):
    """Exit codes, the saves, and what the nodes wrote."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(BUILD, SOURCE, folder, 7, nodes, in_step, options, {**STEPS, **more})
        try:
            job.wait_until("stepped", range(RANKS))
            play(job)
            codes = job.end()
            return codes, job.saved(), job.words()
        finally:
            job.close()


def notice(number, node=0):
    return lambda job: job.signal(node, number)


def test_notices_at_random_moments():
    for seed in range(5):
        what, wrong = one_notice(BUILD, SOURCE, seed)
        check(not wrong, f"seed {seed}: {what}: {wrong}")


def test_ranks_that_never_ask_are_stopped_as_always():
    codes, saved, words = played(
        2, ["--replacement-timeout=0"], {"ASKS": "0"}, notice(signal.SIGTERM, 1), in_step=False)
    check("preemption notice" not in words and "preemption.noticed" not in words and not any(saved), words)
    check(STOPPED in codes and SAVED not in codes, f"{codes}\n{words}")


def test_without_options_a_sigterm_is_a_notice_where_ranks_ask():
    codes, saved, words = played(2, [], {}, notice(signal.SIGTERM, 1))
    check(codes == [SAVED] * 2 and len({tuple(steps) for steps in saved}) == 1, f"{codes} {saved}\n{words}")


def test_the_report_says_what_was_saved():
    codes, saved, words = played(1, ["--preempt-signal=USR1", "--max-restarts=0"], {}, notice(signal.SIGUSR1))
    check(codes == [SAVED], words)
    check(f"preempted (SIGUSR1 on " in words and f"4 of 4 ranks saved step {saved[0][0]} in " in words, words)
    check("s were left" in words and "save.agreed" in words, words)


def test_a_rank_that_does_not_say_that_it_has_saved_is_named():
    codes, saved, words = played(2, ["--deadline=22s", "--replacement-timeout=0"], {"FORGETS": "2"}, notice(signal.SIGTERM, 1))
    check(all(saved), words)
    check("preemption without a common save: rank 2 on " in words and " has not saved step " in words, words)
    check(SAVED not in codes and STOPPED in codes, f"{codes}\n{words}")


def test_a_second_signal_of_another_kind_stops_at_once():
    def two(job):
        job.signal(0, signal.SIGUSR1)
        job.signal(0, signal.SIGTERM)

    codes, _, words = played(1, ["--preempt-signal=USR1"], {"ASKS": "0"}, two, in_step=False)
    check(codes == [STOPPED], f"{codes}\n{words}")


def test_a_worker_that_fails_after_the_notice_has_the_next_round_save():
    codes, saved, words = played(
        1, ["--preempt-signal=USR1", "--deadline=40s", "--max-restarts=1"],
        {"FAILS_AT": "1:12", "STRIDE": "100", "LONGEST_STEP": "0.05"}, notice(signal.SIGUSR1), in_step=False)
    check(codes == [SAVED], f"{codes}\n{words}")
    check(all(saved), f"{saved}\n{words}")


def test_an_elastic_job_goes_on_without_the_node():
    with tempfile.TemporaryDirectory() as folder:
        options = ["--preempt-signal=USR1", "--rdzv-backend=c10d"]
        job = Job(BUILD, SOURCE, folder, 7, 2, False, options, {**STEPS, "ENDS_AT": "300"}, nnodes="1:2")
        try:
            job.wait_until("stepped", range(RANKS))
            # Node 0 serves the rendezvous.
            job.signal(1, signal.SIGUSR1)
            codes = job.end()
            check(codes == [0, STOPPED] and job.has("saved", range(RANKS)), f"{codes}\n{job.words()}")
        finally:
            job.close()


def test_the_end_of_an_allocation_is_a_notice():
    import time
    with tempfile.TemporaryDirectory() as folder:
        # 20 s of --shutdown-timeout and 120 s before it: the notice comes two seconds from now.
        end = int(time.time()) + 20 + 120 + 2
        job = Job(BUILD, SOURCE, folder, 7, 2, True, ["--deadline=slurm"], {**STEPS, "SLURM_JOB_END_TIME": str(end)})
        try:
            codes = job.end()
            saved = job.saved()
            check(codes == [SAVED] * 2 and len({tuple(steps) for steps in saved}) == 1, f"{codes} {saved}\n{job.words()}")
            check("the end of the allocation on " in job.words(), job.words())
        finally:
            job.close()


def main():
    failed = 0
    chosen = sys.argv[3:]
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (chosen and name not in chosen):
            continue
        try:
            test()
            print(f"ok {name}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
