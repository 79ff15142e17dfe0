// SPDX-License-Identifier: Apache-2.0
#include "launcher/grammar/option_table.hpp"

#include <algorithm>
#include <array>

namespace ddprun::launcher {
namespace {

constexpr std::string_view the_job = "The job";
constexpr std::string_view rendezvous = "How the nodes find each other";
constexpr std::string_view machines = "On which machines";
constexpr std::string_view command = "What the workers run";
constexpr std::string_view failure = "When something fails";
constexpr std::string_view stopping = "How it stops";
constexpr std::string_view output = "What the workers write";
constexpr std::string_view for_torch = "Accepted because torchrun has them";
constexpr std::string_view about = "About ddprun";

/// An option that torchrun does not have.
constexpr OptionRow own(OptionRow row) {
    row.is_own = true;
    return row;
}

/// A flag that may be given this word.
constexpr OptionRow with_variant(std::string_view variant, OptionRow row) {
    row.variant = variant;
    return row;
}

/// An option that only the command line can give.
constexpr OptionRow typed_only(OptionRow row) {
    row.reads_environment = false;
    return row;
}

constexpr std::array all_rows{
    OptionRow{"nnodes", "N|MIN:MAX[+SPARES]", the_job, "number of nodes, or a range (default 1)"},
    own(
        {"node-unit",
         "N",
         the_job,
         "the job always has a multiple of N nodes, as tensor and pipeline parallel ones need"}),
    own(
        {"topology",
         "slurm|file:PATH|env:NAME",
         the_job,
         "names this node's switch: nodes of one switch get neighbouring ranks"}),
    own(
        {"late-nodes",
         "restart|at-restart|never",
         the_job,
         "a node that comes late to a job with room: restart for it (default), at the next "
         "restart, "
         "or in place of a lost node only"}),
    own(
        {"replacement-timeout",
         "DURATION",
         the_job,
         "how long a job that lost nodes waits for enough others (default: as long as for its "
         "first "
         "ones; 0 in a Slurm step)"}),
    OptionRow{
        "nproc-per-node",
        "N|auto|gpu|cpu",
        the_job,
        "workers on this node (default 1); -np too",
        'n'},
    OptionRow{"standalone", "", the_job, "one node, own free port, random id; needs nothing else"},
    OptionRow{"role", "NAME", the_job, "role of this node's workers (default 'default')"},
    own(
        {"devices",
         "LIST",
         the_job,
         "the GPUs to use, as in 0,2,4-7; one worker each unless said"}),
    own(
        {"share-gpu",
         "",
         the_job,
         "workers may be more than GPUs and share them, over sockets: slow, for tests"}),
    OptionRow{
        "virtual-local-rank", "", the_job, "each worker sees one GPU only and has LOCAL_RANK 0"},

    own(
        {"hosts",
         "HOST[:N],...",
         machines,
         "start the job on these machines, by ssh; N: workers there, instead of "
         "--nproc-per-node"}),
    own(
        {"hostfile",
         "FILE",
         machines,
         "the same from a file: lines of HOST, HOST:N or HOST slots=N, or the file of PBS or LSF"}),
    own({"connect-timeout", "DURATION", machines, "until a host must have answered (default 20)"}),

    OptionRow{
        "rdzv-endpoint",
        "HOST[:PORT][,...]",
        rendezvous,
        "where the nodes join, the same on all (default port 29400); the node that owns the first "
        "address serves, and at the others nodes find the job when that one is gone"},
    OptionRow{
        "rdzv-backend",
        "c10d|static|etcd|k8s",
        rendezvous,
        "static: fixed places by --node-rank; c10d: nodes come and go; etcd, k8s: no node is "
        "special (default: what the other options ask for)"},
    own(
        {"rdzv-standby",
         "auto|off",
         rendezvous,
         "auto: from three nodes on, if MIN of --nnodes is more than half of MAX, the nodes elect "
         "another one when the node that serves is gone (default auto)"}),
    own(
        {"rdzv-witness",
         "HOST[:PORT]",
         rendezvous,
         "a ddprun-rendezvous on a machine that no node runs on (default port 29400): with its "
         "vote two nodes are enough to elect another server; the same on all nodes"}),
    OptionRow{"rdzv-id", "ID", rendezvous, "name of the job, the same on all nodes"},
    OptionRow{
        "rdzv-conf",
        "KEY=VALUE,...",
        rendezvous,
        "join_timeout, last_call_timeout, keep_alive_interval, keep_alive_max_attempt (seconds, "
        "count), is_host"},
    OptionRow{"master-addr", "HOST", rendezvous, "static: address of node 0 (default 127.0.0.1)"},
    OptionRow{"master-port", "PORT", rendezvous, "static: port on node 0 (default 29500)"},
    OptionRow{"node-rank", "N", rendezvous, "place of this node among the nodes"},
    OptionRow{
        "local-addr",
        "ADDR|IFACE|CIDR",
        rendezvous,
        "how the other nodes reach this one (default: its end of the connection to the endpoint)"},
    own(
        {"secure",
         "",
         rendezvous,
         "nodes prove a secret to each other and encrypt: that of ~/.config/ddprun/secret, which "
         "is "
         "made at the first use"}),
    own({"rdzv-secret-file", "PATH", rendezvous, "the same with the secret of this file"}),
    own(
        {"store-access",
         "direct|members",
         rendezvous,
         "which callers the workers' store serves: members, nodes with the secret (default with "
         "one); direct, all that reach it"}),
    own({"insecure", "", rendezvous, "no warning that a job of several nodes has no secret"}),
    own({"port-range", "FIRST-LAST", rendezvous, "ports to listen on (default 20000-29399)"}),
    own({"legacy-c10d", "", rendezvous, "serve store clients of PyTorch 2.1 too"}),

    OptionRow{"module", "", command, "the script is a module name, as in python -m", 'm'},
    OptionRow{"no-python", "", command, "the script is a program: run it without an interpreter"},
    OptionRow{"run-path", "", command, "run the script with Python, --no-python or not"},
    own(
        {"python",
         "PATH",
         command,
         "interpreter (default: PYTHON_EXEC, the active environment's, python3 on PATH)"}),
    own(
        {"pass-local-rank",
         "",
         command,
         "give the script --local-rank=N first, as torch.distributed.launch does"}),
    typed_only(
        {"numa-binding",
         "node|socket|exclusive|core-complex",
         command,
         "bind each worker to CPUs near its GPU"}),
    own(
        {"wrap",
         "RANKS: COMMAND",
         command,
         "put COMMAND (gdb, strace, nsys, ...) before the command of these ranks, as in "
         "'0,2-3: strace -o trace.%r'; %r is the rank, RANKS may be all"}),
    own(
        {"attach",
         "RANK",
         command,
         "this rank of the job has terminal and stdin, for a debugger; the others have /dev/null"}),

    OptionRow{
        "max-restarts", "N", failure, "restarts of the whole job before it fails (default 0)"},
    own(
        {"restart-delay",
         "MIN[:MAX]",
         failure,
         "before a restart, as in 5 or 500ms:5m; doubles from MIN to MAX (default 0)"}),
    own(
        {"restart-refill",
         "DURATION",
         failure,
         "all restarts are allowed again after so long without a failure, as in 1h"}),
    own(
        {"no-restart-on",
         "CODES",
         failure,
         "exit codes that end the job at once (default 2,126,127)"}),
    own(
        {"stop-without-progress",
         "N",
         failure,
         "so many failed rounds without a new step end the job, whatever is left of the restarts "
         "(default: no count does)"}),
    own(
        {"max-losses",
         "N",
         failure,
         "rounds within an hour that may lose nodes; one more fails the job (default 10)"}),
    own(
        {"warm",
         "0|1",
         failure,
         "1: processes that have imported what the script imports wait for a restart, one for each "
         "worker (default 0)"}),
    own(
        {"recovery",
         "auto|restart",
         failure,
         "a worker that can keep its process over a restart does so (default), or every worker is "
         "started again"}),
    own(
        {"recovery-timeout",
         "DURATION",
         failure,
         "how long such a worker may take to end its round before it is stopped (default 10s)"}),
    own(
        {"hang-after",
         "DURATION",
         failure,
         "no rank has gone on for so long: a hang, and the screen says which rank is behind "
         "(default: not looked for)"}),
    own(
        {"on-hang",
         "report|restart",
         failure,
         "then only that (default), or the rank that is behind is killed, which is its failure"}),
    own(
        {"health-check",
         "COMMAND",
         failure,
         "run here before the node joins and after each failure here; exit code 1: the node is "
         "unfit and leaves the job"}),
    own({"health-timeout", "DURATION", failure, "what that may take (default 60s)"}),
    own(
        {"health-strict",
         "",
         failure,
         "a check that ends in another way, or not in time: the node is unfit as well"}),
    own(
        {"xid",
         "auto|ignore",
         failure,
         "errors of this node's GPUs in the kernel's log: acted on where it can be read (default), "
         "or not"}),
    own(
        {"report-format",
         "text|json|torchrun",
         failure,
         "how the report of a failed job looks (default text)"}),
    own({"report-file", "PATH", failure, "write the report there too, as JSON"}),
    own({"event-file", "PATH", failure, "write what happens there, one JSON object a line"}),

    OptionRow{
        "shutdown-timeout",
        "SECONDS",
        stopping,
        "between SIGTERM and SIGKILL of a worker (default 30)"},
    OptionRow{
        "signals-to-handle",
        "NAMES",
        stopping,
        "signals that stop the job (default SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},
    own(
        {"signals-to-forward",
         "NAMES",
         stopping,
         "signals handed to the workers without stopping, as in SIGUSR1,SIGUSR2"}),
    own(
        {"preempt-signal",
         "NAME",
         stopping,
         "before a node that gets it stops, all ranks save one step (should_save)"}),
    own(
        {"deadline",
         "DURATION|slurm",
         stopping,
         "from a notice until the node is killed; slurm: a notice before the allocation ends"}),

    OptionRow{
        "redirects",
        "MASK|RANKS:MASK,...",
        output,
        "to files: 0 nothing, 1 stdout, 2 stderr, 3 both; per rank as in 0:3,4-7:1",
        'r'},
    OptionRow{"tee", "MASK|RANKS:MASK,...", output, "to the console and to files", 't'},
    OptionRow{"log-dir", "DIR", output, "where those files go"},
    own({"log-layout", "ddprun|torchrun", output, "names of the files (default ddprun)"}),
    own(
        {"log-format",
         "text|json",
         output,
         "ddprun's own lines and those of the workers (default text)"}),
    own({"log-max-size", "SIZE", output, "begin a new file at this size, as in 100M"}),
    own({"log-keep", "N", output, "how many full files of a worker to keep (default all)"}),
    OptionRow{
        "log-line-prefix-template",
        "TEXT",
        output,
        "before each line; knows ${role_name}, ${rank}, ${local_rank}, ${hostname}, ${time}"},
    own(
        {"progress-regex",
         "REGEX",
         output,
         "finds the step in lines that rank 0 prints, as 'step[ =]([0-9]+)', for the job's "
         "goodput"}),
    OptionRow{"local-ranks-filter", "RANKS", output, "only these local ranks write to the console"},
    OptionRow{
        "duplicate-stdout-filters",
        "TEXT,...",
        output,
        "lines with one of these also go to filtered_stdout.log"},
    OptionRow{
        "duplicate-stderr-filters",
        "TEXT,...",
        output,
        "lines with one of these also go to filtered_stderr.log"},

    OptionRow{"monitor-interval", "SECONDS", for_torch, "not needed: nothing here is polled"},
    OptionRow{"exit-barrier-timeout", "SECONDS", for_torch, "not needed: finished nodes wait"},
    OptionRow{
        "start-method", "spawn|fork|forkserver", for_torch, "not needed: workers are programs"},
    OptionRow{"event-log-handler", "NAME", for_torch, "see --event-file"},
    typed_only({"logs-specs", "default", for_torch, "no other: Python plug-ins are not loaded"}),
    own({"use-env", "", for_torch, "the opposite of --pass-local-rank, and the rule"}),

    own({"compat", "torchrun", about, "exit codes, report and log files as torchrun has them"}),
    own(
        {"log-level",
         "error|warning|info|debug|trace",
         about,
         "ddprun's own log (default: LOGLEVEL, else warning)"}),
    with_variant(
        "network",
        own(typed_only(
            {"explain",
             "",
             about,
             "print the job as understood and why, then exit; --explain=network: look at this "
             "machine and its way to the others, and at what is wrong there"}))),
    typed_only(
        {"print-completion", "bash|zsh|fish|tcsh", about, "print a completion script, then exit"}),
    own(typed_only({"version", "", about, "print version, commit and protocols, then exit"})),
    typed_only({"help", "", about, "print this, then exit", 'h'}),
};

}  // namespace

std::span<const OptionRow> option_table() {
    return all_rows;
}

const OptionRow& option_row(std::string_view name) {
    return *std::find_if(
        all_rows.begin(), all_rows.end(), [&](const auto& row) { return row.name == name; });
}

}  // namespace ddprun::launcher
