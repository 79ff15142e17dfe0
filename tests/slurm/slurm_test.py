# SPDX-License-Identifier: Apache-2.0
"""ddprun under Debian's Slurm: one line of srun is one job, and what cannot be one is refused."""
import json
import os
import pathlib
import re
import signal
import sys
import threading

from cluster import DEADLINE_S, Cluster, enter_namespace, why_not, processes

SHOW = 'echo "rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME node $GROUP_RANK job $TORCHELASTIC_RUN_ID"'


def shown(output):
    """{rank: (world size, node name, group rank, run id)}"""
    rows = re.findall(r"rank (\d+) of (\d+) on (\S+) node (\d+) job (\S+)", output)
    ranks = [int(row[0]) for row in rows]
    assert len(ranks) == len(set(ranks)), f"a rank was started twice:\n{output}"
    return {int(rank): (int(world), host, int(node), run) for rank, world, host, node, run in rows}


def check(condition, result):
    assert condition, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"


class Slurm:
    def __init__(self, cluster, ddprun):
        self.cluster = cluster
        self.ddprun = ddprun

    def srun(self, slurm_options, options, command):
        # Always the first nodes: else those that were idle longest.
        nodes = slurm_options.split()[0].removeprefix("-N")
        return self.cluster.run("srun", f"--nodelist=n[1-{nodes}]", *slurm_options.split(), self.ddprun, *options.split(), "--no-python",
                                "sh", "-c", command)

    def one_line_is_one_job(self):
        result = self.srun("-N2", "--nproc_per_node=2", SHOW)
        world = shown(result.stdout)
        run = world[0][3] if world else ""
        check(result.returncode == 0 and re.fullmatch(r"slurm-\d+\.0", run), result)
        check(world == {0: (4, "n1", 0, run), 1: (4, "n1", 0, run), 2: (4, "n2", 1, run), 3: (4, "n2", 1, run)}, result)

    def two_steps_on_the_same_nodes_are_two_jobs(self):
        # Each waits until the other has begun, so that both are there at once.
        folder = self.cluster.folder
        results = {}

        def step(own, other):
            command = f'touch {folder}/{own}; until [ -e {folder}/{other} ]; do sleep 0.05; done; {SHOW}'
            results[own] = self.srun("-N2 --overlap", "", command)

        threads = [threading.Thread(target=step, args=names) for names in [("a", "b"), ("b", "a")]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runs = set()
        for result in results.values():
            world = shown(result.stdout)
            check(result.returncode == 0 and sorted(world) == [0, 1], result)
            runs |= {row[3] for row in world.values()}
        assert len(runs) == 2, runs

    def several_agents_per_node_are_refused_with_the_fix(self):
        for options in ["--nproc_per_node=1", "--nnodes=2"]:
            result = self.srun("-N2 --ntasks-per-node=2", options, SHOW)
            check(result.returncode == 2 and not shown(result.stdout), result)
            check("use srun --ntasks-per-node=1 and ddprun --nproc-per-node=2" in result.stderr, result)

    def a_job_of_each_node_can_be_requested(self):
        result = self.srun("-N2", "--standalone", SHOW)
        rows = re.findall(r"rank (\d+) of (\d+) on (\S+)", result.stdout)
        check(result.returncode == 0 and sorted(rows) == [("0", "1", "n1"), ("0", "1", "n2")], result)

    def nodes_of_one_switch_are_neighbours(self):
        for topology in ["slurm", f"file:{self.cluster.folder}/topology.conf"]:
            result = self.srun("-N4", f"--topology={topology}", SHOW)
            nodes = [row[1] for _, row in sorted(shown(result.stdout).items())]
            check(result.returncode == 0 and {frozenset(nodes[:2]), frozenset(nodes[2:])} == {frozenset({"n1", "n3"}), frozenset({"n2", "n4"})}, result)

    def a_step_without_a_multiple_of_the_unit_is_refused(self):
        result = self.srun("-N3", "--node-unit=2", SHOW)
        check(result.returncode == 2 and "no multiple of it is in 3 (SLURM_STEP_NUM_NODES); accepted there are 1, 3" in result.stderr, result)

    def a_worker_that_starts_ddprun_starts_a_job_of_its_own(self):
        result = self.srun("-N2", "", f"'{self.ddprun}' --no-python sh -c '{SHOW}'")
        rows = re.findall(r"rank (\d+) of (\d+) on (\S+)", result.stdout)
        check(result.returncode == 0 and sorted(rows) == [("0", "1", "n1"), ("0", "1", "n2")], result)

    def a_failed_worker_ends_every_node_with_its_exit_code(self):
        result = self.srun("-N3", "", 'if [ "$RANK" = 1 ]; then exit 7; fi; exec sleep 600')
        codes = re.findall(r"srun: error: \S+ tasks? \S+ Exited with exit code (\d+)", result.stderr)
        check(result.returncode == 7 and set(codes) == {"7"}, result)

    def begin_endless_job(self):
        """Two nodes, a worker each, and both workers have begun."""
        folder = self.cluster.folder
        for begun in folder.glob("begun.*"):
            begun.unlink()
        step = self.cluster.begin("srun", "-N2", "--nodelist=n[1-2]", self.ddprun, f"--report-file={folder}/report",
                                  "--no-python", "sh", "-c", f"touch {folder}/begun.$RANK; exec sleep 600")
        self.cluster.wait_for(lambda: len(list(folder.glob("begun.*"))) == 2, "two workers")
        return step

    def check_nothing_is_left(self):
        for name in ["sleep", "ddprun"]:
            for node in ["n1", "n2"]:
                self.cluster.wait_for(lambda: not processes(name, node), f"the end of each {name} on {node}")

    def a_lost_node_ends_the_job_at_once(self):
        step = self.begin_endless_job()
        for process in processes("ddprun", "n2"):
            os.kill(process, signal.SIGKILL)
        output, _ = step.communicate(timeout=DEADLINE_S)
        # srun drops what a task wrote last once another task was killed.
        report = json.loads((self.cluster.folder / "report").read_text())
        assert report["exit_code"] == 82 and "no replacement is waited for" in report["reason"], report
        assert re.search(r"n1: task 0: Exited with exit code 82", output), output
        self.check_nothing_is_left()

    def a_cancelled_job_ends_on_every_node(self):
        step = self.begin_endless_job()
        jobs = self.cluster.run("squeue", "--noheader", "--format=%A", "--states=running").stdout.split()
        assert len(jobs) == 1, jobs
        self.cluster.run("scancel", jobs[0])
        output, _ = step.communicate(timeout=DEADLINE_S)
        assert step.returncode != 0, output
        self.check_nothing_is_left()

    def the_example_of_a_batch_script_runs(self, example):
        folder = self.cluster.folder
        (folder / "ddprun").symlink_to(self.ddprun)
        # The nodes of this Slurm have no GPUs: only the request for them goes.
        script = folder / "train.sbatch"
        lines = pathlib.Path(example).read_text().splitlines()
        kept = [line for line in lines if "gpus-per-node" not in line]
        assert len(kept) == len(lines) - 1
        script.write_text("\n".join(kept) + "\n")
        worker = folder / "worker.sh"
        worker.write_text(f"#!/bin/sh\n{SHOW}\n")
        worker.chmod(0o700)
        path = f"{folder}:{self.cluster.environment['PATH']}"
        result = self.cluster.run("sbatch", "--wait", f"--output={folder}/out", str(script), str(worker),
                                  variables={"PATH": path, "PET_NO_PYTHON": "1"})
        output = (folder / "out").read_text()
        assert result.returncode == 0, output + result.stderr
        world = shown(output)
        # Two that are free: the nodes of the job before may still be completing it.
        assert len({row[1] for row in world.values()}) == 2, output
        assert sorted(world) == list(range(len(world))) and all(row[0] == len(world) for row in world.values()), output

    def a_requeued_job_is_a_new_incarnation_of_itself(self):
        folder = self.cluster.folder
        (folder / "worker.sh").write_text(
            f"echo $TORCHELASTIC_RUN_ID incarnation $DDPRUN_INCARNATION round $DDPRUN_ROUND >> {folder}/life.$RANK\n"
            "test -n \"$SLURM_RESTART_COUNT\" || exec sleep 600\n")
        script = folder / "requeued.sbatch"
        script.write_text("#!/bin/sh\n#SBATCH --nodes=2 --ntasks-per-node=1 --requeue\n"
                          f"srun '{self.ddprun}' --no-python sh {folder}/worker.sh\n")
        job = self.cluster.run("sbatch", "--parsable", "--nodelist=n[1-2]", f"--output={folder}/requeued",
                               str(script)).stdout.strip()

        def lives():
            files = sorted(folder.glob("life.*"))
            return [file.read_text().splitlines() for file in files]

        first = f"slurm-{job}.0 incarnation 0 round 0"
        self.cluster.wait_for(lambda: lives() == [[first], [first]], "first life")
        requeued = self.cluster.run("scontrol", "requeue", job)
        assert requeued.returncode == 0, requeued.stderr

        def has_begun_again():
            # Else Slurm waits for two minutes.
            self.cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
            return lives() == [[first, second], [first, second]]

        second = f"slurm-{job}.0 incarnation 1 round 0"
        try:
            self.cluster.wait_for(has_begun_again, "second life")
        except RuntimeError as error:
            raise RuntimeError(f"{lives()} instead of {second}\n{(folder / 'requeued').read_text()}") from error
        self.cluster.wait_for(lambda: not self.cluster.run("squeue", "--noheader", "--jobs", job).stdout, "its end")
        assert "error" not in (folder / "requeued").read_text(), (folder / "requeued").read_text()


def main():
    build, example = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if reason := why_not():
        print(f"SKIP ddprun under Slurm: {reason}")
        return
    enter_namespace()
    with Cluster() as cluster:
        slurm = Slurm(cluster, str(build / "bin" / "ddprun"))
        slurm.one_line_is_one_job()
        slurm.two_steps_on_the_same_nodes_are_two_jobs()
        slurm.several_agents_per_node_are_refused_with_the_fix()
        slurm.a_job_of_each_node_can_be_requested()
        slurm.nodes_of_one_switch_are_neighbours()
        slurm.a_step_without_a_multiple_of_the_unit_is_refused()
        slurm.a_worker_that_starts_ddprun_starts_a_job_of_its_own()
        slurm.a_failed_worker_ends_every_node_with_its_exit_code()
        slurm.a_lost_node_ends_the_job_at_once()
        slurm.a_cancelled_job_ends_on_every_node()
        slurm.the_example_of_a_batch_script_runs(example)
        slurm.a_requeued_job_is_a_new_incarnation_of_itself()


if __name__ == "__main__":
    main()
