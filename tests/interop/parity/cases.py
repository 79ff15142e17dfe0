# SPDX-License-Identifier: Apache-2.0
"""The table of parity cases. README.md says how to read and to add one."""

from dataclasses import dataclass, field
from typing import NamedTuple, Optional


class Difference(NamedTuple):
    """Where ddprun answers otherwise on purpose. `ours` None: whatever it is; `version` None: than each torchrun."""

    path: str
    ours: object
    why: str
    version: Optional[str] = None


@dataclass
class Case:
    name: str
    # The words of the command line, for each node.
    nodes: list
    environment: dict = field(default_factory=dict)
    # Sent to the first node's launcher once so many workers run.
    signal: Optional[tuple] = None
    # ddprun runs with --compat torchrun, and exit codes are compared as they are.
    is_compat: bool = False
    # python -m torch.distributed.launch, and ddprun --pass-local-rank.
    is_legacy: bool = False
    # {logs} is a file before anything starts.
    has_log_file: bool = False
    differences: list = field(default_factory=list)


CASES = []


def one(name, options, steps="", *, worker="{worker}", differs=(), **more):
    """A job of one node."""
    words = options.split() + worker.split() + steps.split()
    CASES.append(Case(name, [words], differences=list(differs), **more))


def two(name, first, second, steps="", *, differs=(), **more):
    """A job of two nodes on this machine."""
    nodes = [options.split() + ["{worker}"] + steps.split() for options in (first, second)]
    CASES.append(Case(name, nodes, differences=list(differs), **more))


EVERYWHERE = [
    Difference("*.environment.DDPRUN_*", None, "an addition: round, incarnation, address"),
]

# ---- one node ----

one("one_worker", "", "say=hello err=hello")
one("standalone_two_workers", "--standalone --nproc-per-node=2")
one("underscores", "--standalone --nproc_per_node=2 --max_restarts 1")
one("option_prefix", "--standa --nproc-per=2 --max-r=1")
one("dashes_before_script", "--standalone --", "--nproc-per-node 9")
one("arguments_are_opaque", "--standalone", "--nproc-per-node 9 -m --standalone -- --x=1 -h --help")
one(
    "argument_like_ambiguous_prefix",
    "--standalone",
    "--r=16 --mo 2 --log",
    differs=[
        Difference("exit.0", "success", "options are not looked for behind the script"),
        Difference("*worker*", None, "options are not looked for behind the script"),
    ],
)
one("several_dashes", "--standalone", "a -- b -- c")
one(
    "dashes_behind_script",
    "--standalone",
    "-- --r=16",
    differs=[Difference("*command*", None, "what follows the script is the script's, -- too")],
)
one("given_twice", "--standalone --nproc-per-node=3 --role=a --nproc_per_node=1 --role b")
one("local_rank_in_arguments", "--standalone --nproc-per-node=2", "${local_rank} x$local_rank.txt $$ $other ${other}")
one("module", "--standalone --nproc-per-node=2 -m", "x --lr 0.1", worker="worker")
one("module_long_option", "--standalone --module", worker="worker")
one("module_missing", "--standalone -m", worker="no_such_module_here")
one("program", "--standalone --no-python --nproc-per-node=2", "--lr 0.1")
one("program_and_module", "--standalone --no-python -m")
one("program_missing", "--standalone --no-python", worker="{tmp}/nothing_here")
one("program_on_path", "--standalone --no-python", worker="true")
one("script_missing", "--standalone", worker="{tmp}/nothing_here.py")
one("no_script", "--standalone", worker="")
one("nothing_at_all", "", worker="")
one("role", "--standalone --nproc-per-node=2 --role trainer")
one("standard_input", "--standalone", "read")
one("legacy_launch", "--nproc-per-node=2", "--lr 0.1", is_legacy=True)

# ---- variables ----

one("omp_default", "--standalone --nproc-per-node=2")
one("omp_given", "--standalone --nproc-per-node=2", environment={"OMP_NUM_THREADS": "4"})
one("nccl_error_handling_given", "--standalone", environment={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"})
one("own_variables_pass", "--standalone", environment={"MY_SEED": "7", "RANK": "99", "WORLD_SIZE": "5"})
one("pet_nproc", "--standalone", environment={"PET_NPROC_PER_NODE": "2"})
one("pet_flag", "", environment={"PET_STANDALONE": "1", "PET_NO_PYTHON": "1"})
one("pet_flag_off", "", environment={"PET_STANDALONE": "0"})
one("pet_flag_bad", "", environment={"PET_STANDALONE": "yes"})
one("pet_loses", "--standalone --nproc-per-node=1 --role=x", environment={"PET_NPROC_PER_NODE": "3", "PET_ROLE": "y"})
one("pet_restarts", "--standalone", "a0:exit=3", environment={"PET_MAX_RESTARTS": "1"})
one("unshared_store", "--standalone --nproc-per-node=2", environment={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
one("signals_to_handle", "--standalone --signals-to-handle=SIGTERM,SIGUSR1")

# ---- virtual local rank ----

one("virtual_local_rank", "--standalone --nproc-per-node=2 --virtual-local-rank", "${local_rank}")
one("virtual_local_rank_of_visible", "--standalone --nproc-per-node=2 --virtual-local-rank", environment={"CUDA_VISIBLE_DEVICES": "3, GPU-5"})
one("virtual_local_rank_too_few", "--standalone --nproc-per-node=2 --virtual-local-rank", environment={"CUDA_VISIBLE_DEVICES": "3"})

# ---- options that only Python needs ----

one("start_method", "--standalone --start-method fork --monitor-interval 0.5")
one("logs_specs_default", "--standalone --logs-specs=default")
one("start_method_unknown", "--standalone --start-method thread")
one("event_log_handler", "--standalone --event-log-handler null")

# ---- rendezvous ----

one("c10d_endpoint", "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-id=job7 --nproc-per-node=2")
one("static_port", "--master-port={port} --nproc-per-node=2")
one("static_endpoint", "--rdzv-endpoint=127.0.0.1:{port} --rdzv-id=job7")
one("static_localhost", "--rdzv-endpoint=localhost:{port}")
one("standalone_with_id", "--standalone --rdzv-id=mine")
one(
    "plain_with_id",
    "--rdzv-id=mine",
    differs=[Difference("*.TORCHELASTIC_RUN_ID", "mine", "an id that was given is used")],
)
one("rdzv_conf", "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-conf=join_timeout=60,unknown_key=7,last_call_timeout=1")
one("rdzv_conf_in_quotes", '--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-conf="join_timeout=60,timeout=900"')
one("elastic_with_one", "--nnodes=1:2 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-conf=last_call_timeout=1")
one(
    "rdzv_conf_backoff",
    "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-conf=cas_backoff_max_seconds=0",
)
C10D = "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-id=two "
STATIC = "--nnodes=2 --master-addr=127.0.0.1 --master-port={port} "
two("c10d_two_nodes", C10D + "--nproc-per-node=2", C10D + "--nproc-per-node=2", "others=4")
two("c10d_two_nodes_local_addr", C10D + "--local-addr=127.0.0.1", C10D + "--local-addr=127.0.0.1", "others=2")
two("static_two_nodes", STATIC + "--node-rank=0 --nproc-per-node=2", STATIC + "--node-rank=1 --nproc-per-node=2", "others=4")
two("static_unequal_nodes", STATIC + "--node-rank=0 --nproc-per-node=1", STATIC + "--node-rank=1 --nproc-per-node=3", "others=4")
two("static_roles", STATIC + "--node-rank=0 --role=ps", STATIC + "--node-rank=1 --role=trainer --nproc-per-node=2", "others=3")

# ---- failures and restarts ----

one("exit_code", "--standalone", "exit=7")
one("exit_code_compat", "--standalone", "exit=7", is_compat=True)
one("killed", "--standalone", "kill=SIGKILL")
one("killed_compat", "--standalone", "kill=SIGSEGV", is_compat=True)
one(
    "error_file_compat",
    "--standalone --nproc-per-node=2",
    "others=2 r1:error=usual r1:exit=5 wait",
    is_compat=True,
    differs=[
        Difference("table.12", "  error_file: <N/A>", "a temporary file is removed once it is reported")
    ],
)
one(
    "siblings_in_table_compat",
    "--standalone --nproc-per-node=3",
    "r0:mortal r2:mortal r1:mortals=2 r1:err=bad r1:exit=3 wait",
    is_compat=True,
)
one(
    "program_and_sibling_compat",
    "--standalone --no-python --nproc-per-node=2",
    "r1:mortal r0:mortals=1 r0:kill=SIGABRT wait",
    is_compat=True,
)
one("program_without_words_compat", "--standalone --no-python", worker="false", is_compat=True)
one("program_missing_compat", "--standalone --no-python", worker="{tmp}/nothing_here", is_compat=True)
one(
    "script_missing_compat",
    "--standalone",
    worker="{tmp}/nothing_here.py",
    is_compat=True,
    differs=[
        Difference("table*", None, "a script that is not there is found before a worker starts")
    ],
)
one("last_words_compat", "--standalone", "err=bad exit=7", is_compat=True)
one("plain_error_file_compat", "--standalone --log-dir={logs}", "error=plain err=bad exit=5", is_compat=True)
one("sibling_is_stopped", "--standalone --nproc-per-node=2", "others=2 r1:exit=3 wait")
one("one_restart_helps", "--standalone --max-restarts=2 --nproc-per-node=2", "a0:others=2 a0:r1:exit=3 a0:wait")
one("restarts_are_spent", "--standalone --max-restarts=2", "exit=3")
one("restarts_of_two", "--standalone --max-restarts=1 --nproc-per-node=2", "a0:others=2 a1:others=4 r0:exit=3 wait")

# torchrun's second node outlives a failure only while the node that serves does: it is the first here.
two(
    "c10d_failure_on_one_node",
    C10D + "--rdzv-conf=is_host=1",
    C10D + "--rdzv-conf=is_host=0",
    "others=2 r1:exit=3 wait",
    differs=[
        Difference("workers.0.signal", "SIGTERM", "one node's failure stops the job on all nodes"),
        Difference("stderr*", None, "there a worker waits for the deadline of its own"),
    ],
)
two(
    "c10d_restart_on_two_nodes",
    C10D + "--max-restarts=1",
    C10D + "--max-restarts=1",
    "a0:r1:others=2 a0:r1:exit=3 others=4",
    differs=[
        Difference("workers.*", None, "the restart count is the job's, the same on all nodes"),
    ],
)

# ---- signals to the launcher ----

one("sigterm", "--standalone --nproc-per-node=2", "wait", signal=("SIGTERM", 2))
one("sigint", "--standalone --nproc-per-node=2", "wait", signal=("SIGINT", 2))
one("sighup", "--standalone", "wait", signal=("SIGHUP", 1))
one("sigusr1_asked_for", "--standalone --signals-to-handle=SIGUSR1", "wait", signal=("SIGUSR1", 1))
one("sigterm_compat", "--standalone", "wait", signal=("SIGTERM", 1), is_compat=True)

# ---- error files ----

PARENT = {"TORCHELASTIC_ERROR_FILE": "{tmp}/parent.json"}
one("error_file", "--standalone", "error=usual exit=5", environment=PARENT)
one("error_file_plain", "--standalone", "error=plain exit=5", environment=PARENT)
one(
    "error_file_none",
    "--standalone",
    "exit=5",
    environment=PARENT,
    differs=[Difference("error_file*", None, "the parent learns also of a worker that wrote none")],
)
one("error_file_success", "--standalone", "error=usual", environment=PARENT)
one("error_file_first_of_two", "--standalone --nproc-per-node=2", "others=2 r1:error=usual r1:exit=5 wait", environment=PARENT)

# ---- output and log files ----

BOTH = "--standalone --nproc-per-node=2 --log-dir={logs} "
HELLO = "say=out r1:say=more err=bad"
one("redirects", BOTH + "--redirects=3", HELLO, is_compat=True)
one("redirects_short", BOTH + "-r 1", HELLO, is_compat=True)
one("redirects_map", BOTH + "--redirects=0:1,1:2", HELLO, is_compat=True)
one("tee", BOTH + "--tee=3", HELLO, is_compat=True)
one("tee_short_map", BOTH + "-t 0:3", HELLO, is_compat=True)
one("tee_and_redirects", BOTH + "-t 1 -r 2", HELLO, is_compat=True)
one("tee_role", BOTH + "-t 3 --role trainer", HELLO, is_compat=True)
one("tee_without_log_dir", "--standalone --nproc-per-node=2 --tee=3", HELLO, is_compat=True)
one("local_ranks_filter", BOTH + "--tee=3 --local-ranks-filter=1", HELLO, is_compat=True)
one("local_ranks_filter_alone", BOTH + "--local-ranks-filter=1", HELLO, is_compat=True)
one("log_prefix_template", BOTH + "--tee=3", HELLO, is_compat=True, environment={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name}/${local_rank}/${rank}/${other}> "})
one("log_prefix_of_host", BOTH + "--tee=3", HELLO, is_compat=True, environment={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<host ${hostname}> "}, differs=[
    Difference("std*", None, "2.13 has no ${hostname}", "2.13"),
])
one("log_prefix_option", BOTH + "--tee=3 --log-line-prefix-template=${role_name}-${rank}:", HELLO, is_compat=True, differs=[
    Difference("*", None, "2.13 has no such option", "2.13"),
])
one("duplicate_filters", BOTH + "--tee=3 --duplicate-stdout-filters=more,none --duplicate-stderr-filters=bad", HELLO, is_compat=True)
one("log_dir_alone", BOTH, HELLO, is_compat=True)
one("log_dir_of_attempts", BOTH + "--redirects=3 --max-restarts=1", "say=out a0:others=2 a0:r1:exit=3 a0:wait", is_compat=True)
one(
    "log_dir_null",
    "--standalone --log-dir=/dev/null --redirects=3",
    HELLO,
    is_compat=True,
    differs=[
        Difference("*.TORCHELASTIC_ERROR_FILE", "<error file>", "errors are reported without log files")
    ],
)
one("log_dir_is_file", BOTH + "--redirects=3", HELLO, has_log_file=True)
one("log_dir_error_file", BOTH + "--redirects=3", "others=2 r1:error=usual r1:exit=5 wait", is_compat=True)
one("log_dir_run_id", "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-id=job7 --log-dir={logs} -r 3", HELLO, is_compat=True)

# ---- wrong use ----

BAD = {
    "nproc_word": "--nproc-per-node=abc",
    "nproc_zero": "--nproc-per-node=0",
    "nproc_negative": "--nproc-per-node=-1",
    "nproc_fraction": "--nproc-per-node=1.5",
    "nnodes_word": "--nnodes=abc",
    "nnodes_reversed": "--nnodes=2:1",
    "nnodes_three": "--nnodes=1:2:3",
    "nnodes_zero": "--nnodes=0",
    "restarts_negative": "--max-restarts=-1",
    "restarts_word": "--max-restarts=x",
    "redirects_mask": "--redirects=4",
    "redirects_comma": "--redirects=0:1,",
    "tee_word": "--tee=both",
    "unknown_option": "--frobnicate",
    "missing_value": "--role",
    "flag_with_value": "--standalone=1",
    "rdzv_conf_without_value": "--rdzv-conf=join_timeout",
    "rdzv_conf_without_key": "--rdzv-conf==7",
    "endpoint_port": "--rdzv-backend=c10d --rdzv-endpoint=localhost:99999",
    "endpoint_host": "--rdzv-backend=c10d --rdzv-endpoint=a&b:7",
    "rdzv_backend": "--rdzv-backend=carrier-pigeon",
    "local_ranks_filter": "--local-ranks-filter=a",
    "shutdown_timeout": "--shutdown-timeout=-1",
    "monitor_interval": "--monitor-interval=soon",
    "numa_binding": "--numa-binding=cores",
    "node_rank_word": "--node-rank=x",
    "master_port_word": "--master-port=x",
    "start_method": "--start-method=thread",
    "exit_barrier_timeout": "--exit-barrier-timeout=x",
    "virtual_local_rank": "--virtual-local-rank=1",
    "logs_specs": "--logs-specs=nothing",
    "print_completion": "--print-completion=ksh",
}
one(
    "bad_nproc_gpu",
    "--nproc-per-node=gpu",
    environment={"CUDA_VISIBLE_DEVICES": ""},
    is_compat=True,
)
one(
    "bad_rdzv_conf_backoff",
    "--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --rdzv-conf=cas_backoff_max_seconds=-1",
    differs=[Difference("*", None, "2.13 does not read this key", "2.13")],
    is_compat=True,
)
for bad, options in BAD.items():
    one("bad_" + bad, options, is_compat=True)

# Where ddprun does not do yet what torchrun does: the case is skipped while it differs.
NOT_YET = {}
