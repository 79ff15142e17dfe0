// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

/// All limits of the project (lengths of time, counts and sizes) on anything that comes from
/// outside. Defaults that an option changes are in launcher/resolve/job_spec.hpp.
namespace ddprun::limits {

using namespace std::chrono_literals;

// c10d store. No limit is smaller than that of PyTorch's libuv server, since that would break
// users.
inline constexpr std::size_t max_key_bytes = 8 * 1024;
inline constexpr std::size_t max_value_bytes = 8 * 1024 * 1024;
inline constexpr std::size_t max_key_count = 128 * 1024;
/// The sum of all key bytes of one multi-key request, and the sum of all value bytes of one
/// MULTI_SET.
inline constexpr std::size_t max_request_bytes = 256 * 1024 * 1024;
/// The most bytes that are read from one client of the store before the others have their turn.
inline constexpr std::size_t store_turn_bytes = 64 * 1024;
/// While one client of the store has more than this left to read, none of its requests is handled.
/// A single reply may be longer, since APPEND grows values.
inline constexpr std::size_t max_store_backlog_bytes = 1024 * 1024;
/// The most that one store holds: keys, values and queues, and deleted values that are still on
/// their way to a client. Each counts with its overhead.
inline constexpr std::size_t max_store_data_bytes = 1024 * 1024 * 1024;
/// The most that the clients of one store may cause it to hold in addition: incomplete requests,
/// waits, unread replies. Beyond it the connection of the client that causes most of it is closed.
inline constexpr std::size_t max_store_client_bytes = 1024 * 1024 * 1024;
/// The connection of a client that reads none of its replies for this long is closed.
inline constexpr Duration unread_reply_timeout = 60s;
/// A value of at least this many bytes is shared between the store and the replies that carry it.
inline constexpr std::size_t least_shared_bytes = 1024;
/// The longest value that a client accepts.
inline constexpr std::uint64_t max_reply_value_bytes = 1024ULL * 1024 * 1024;
/// The longest LIST_KEYS reply that a client accepts.
inline constexpr std::uint64_t max_reply_key_count = 16ULL * 1024 * 1024;
/// How long a woken waiter's queue element is kept for its QUEUE_POP (one round trip is needed).
inline constexpr Duration queue_reservation = 3s;

// Control protocol.
inline constexpr std::size_t max_join_frame_bytes = 4 * 1024;
inline constexpr std::size_t max_control_frame_bytes = 64 * 1024;
inline constexpr int max_json_depth = 16;
/// All free text of one message (worker output, error files), after escaping.
inline constexpr std::size_t max_free_text_bytes = 8 * 1024;
/// Failures after the first that a `result` names.
inline constexpr std::size_t max_reported_failures = 16;
/// Messages that one agent has not read yet; beyond it, its connection is closed.
inline constexpr std::size_t max_control_backlog_bytes = 4 * 1024 * 1024;
/// The unsent and incomplete messages of all agents of a server together. Beyond it the connection
/// that holds most is closed.
inline constexpr std::size_t max_control_bytes = 256 * 1024 * 1024;
inline constexpr std::size_t max_name_bytes = 255;
inline constexpr int max_nodes_per_job = 65'536;
inline constexpr int max_workers_per_node = 4'096;
/// Levels of switches that the order of ranks considers.
inline constexpr int max_topology_levels = 8;
inline constexpr std::size_t max_jobs_per_server = 10'000;
/// Jobs of one network (an IPv4 address, an IPv6 /64), so that no single caller uses up all of
/// them.
inline constexpr std::size_t max_jobs_per_network = 1'000;
/// Jobs of one tenant, so that no tenant uses up all of them.
inline constexpr std::size_t max_jobs_per_tenant = 1'000;
/// Nodes of all jobs of one tenant, as many as the largest job that is tested has; and the
/// connections of these nodes: each may have an old one that has not ended yet, and others are of
/// commands.
inline constexpr std::size_t max_nodes_per_tenant = 16'384;
inline constexpr std::size_t max_connections_per_tenant = 2 * max_nodes_per_tenant + 1'024;
/// Names of forgotten jobs that are kept for each tenant.
inline constexpr std::size_t max_ended_jobs_per_tenant = 1'000;
/// The most memory of one job without its nodes, and of one node in its job. Measured with the
/// longest reports that are accepted: 1 MiB for 1,000 rounds, to which 1,000 drained hosts and the
/// texts of a result come; and 270 KiB, most of it what the workers do and their sockets.
inline constexpr std::size_t job_bytes = 6 * 1024 * 1024;
inline constexpr std::size_t node_bytes = 384 * 1024;
/// The lease of a job is at most this; a longer one is shortened to it.
inline constexpr Duration longest_lease = 24h;
/// When a job is forgotten. If this server has begun no round of it, the job is forgotten once none
/// of its nodes has been connected for its lease, and at least for `unproven_job_memory`. Any other
/// job is forgotten once it has had no node for `deserted_job_memory`.
inline constexpr Duration unproven_job_memory = 30s;
inline constexpr Duration deserted_job_memory = 1h;
/// A greater round number is not accepted from a peer: the numbers after it must not overflow.
inline constexpr int last_round = 1'000'000'000;
/// The highest restart count that workers get; a higher one is capped.
inline constexpr int max_reported_restarts = 1'000'000;
/// The most exit codes that a job may exclude from restarts.
inline constexpr std::size_t max_final_codes = 64;

// Waits in a round's store.
/// A wait of this length counts as long: then the missing ranks are determined.
inline constexpr Duration long_wait = 30s;
/// How often a store checks its waits, and how often a continuing wait is reported again.
inline constexpr Duration wait_check_interval = 5s;
inline constexpr Duration wait_report_interval = 30s;
/// A wait that its client cancelled after less than this was no timeout, and explains no failure.
inline constexpr Duration shortest_timed_out_wait = 1s;
/// If a rank fails within this time after its wait timed out, the timed-out wait counts as the
/// cause.
inline constexpr Duration timed_out_wait_window = 30s;
/// Connections to the store that one message lists: those of its waits, and those of one node's
/// workers.
inline constexpr std::size_t max_reported_sockets = 256;
/// To find each worker's connections, at most so many bytes of the kernel's connection table are
/// read, and so many descriptors of workers examined.
inline constexpr std::size_t max_socket_table_bytes = 32 * 1024 * 1024;
inline constexpr std::size_t max_inspected_descriptors = 200'000;

// Sampling of a worker's activity (agent/health) through its memory and /proc.
inline constexpr std::size_t max_python_threads = 64;
inline constexpr std::size_t max_python_frames = 128;
/// Frames of all threads of one process together.
inline constexpr std::size_t max_sampled_frames = 1'024;
/// The longest part of a name that is shown.
inline constexpr std::size_t max_sampled_name_bytes = 256;
/// How many times a stack is read at most, if it changes while it is read.
inline constexpr int max_stack_attempts = 3;
/// The longest table of source lines for instructions.
inline constexpr std::size_t max_line_table_bytes = 256 * 1024;
/// Mapped files that are searched for an interpreter, and symbols with the same hash.
inline constexpr std::size_t max_python_candidates = 8;
inline constexpr std::size_t max_symbol_chain = 1'024;
/// The most bytes that are read of one file of /proc, and of the two files that list all processes.
inline constexpr std::size_t max_process_file_bytes = 64 * 1024;
inline constexpr std::size_t max_process_list_bytes = 4 * 1024 * 1024;
/// Descriptors, threads and descendants of a process that are examined.
inline constexpr std::size_t max_sampled_descriptors = 4'096;
inline constexpr std::size_t max_sampled_threads = 128;
inline constexpr std::size_t max_sampled_processes = 256;
/// Nested wrapper processes around the worker's actual program.
inline constexpr std::size_t max_sampled_wrappers = 8;
/// Addresses to which a process is connecting.
inline constexpr std::size_t max_sampled_addresses = 16;
/// A process counts as idle if it uses at most this share of a CPU, and at most this much input and
/// output.
inline constexpr double idle_cpu_share = 0.05;
inline constexpr double idle_bytes_per_second = 1'000'000;
/// If a thread that is in the same place at two moments has run for more than `still_share` of the
/// time between them, it has left the place and returned. If it has run for more than
/// `spinning_share`, it spins there.
inline constexpr double still_share = 0.0005;
inline constexpr double spinning_share = 0.5;

// HTTP.
inline constexpr std::size_t max_http_header_bytes = 8 * 1024;
inline constexpr Duration http_timeout = 5s;
inline constexpr std::size_t max_status_nodes = 1'000;
inline constexpr std::size_t max_status_waits = 20;
/// A page that took more than one turn to make is served again, at most until it is this old.
inline constexpr Duration page_lifetime = 1s;
/// Jobs whose state is added to a page before other events have their turn.
inline constexpr std::size_t page_turn_jobs = 16;
/// The longest page; jobs beyond it are left out and counted. The second limit is for all pages
/// that callers are still reading; beyond it no further page is made.
inline constexpr std::size_t max_page_bytes = 16 * 1024 * 1024;
inline constexpr std::size_t max_unread_page_bytes = 64 * 1024 * 1024;
/// Callers that are served a page at the same time, in all and from one network; further callers
/// are closed.
inline constexpr std::size_t max_page_callers = 64;
inline constexpr std::size_t max_page_callers_per_network = 16;
/// How long a page waits for stores on other threads; after that it is served without their data.
inline constexpr Duration survey_timeout = 500ms;

// Connections.
inline constexpr Duration handshake_timeout = 10s;
inline constexpr Duration connect_attempt_timeout = 1s;

// Encrypted connections.
/// From the first byte to the proof of the secret. Afterwards `handshake_timeout` applies.
inline constexpr Duration tls_handshake_timeout = 3s;
/// Connections of a server that have not proved the secret yet. Beyond this number the oldest
/// connection of the busiest address in the busiest network is closed; or the new one, if it has
/// that address and the oldest is younger than `youngest_closed_handshake`.
inline constexpr std::size_t max_tls_handshakes = 2'048;
inline constexpr Duration youngest_closed_handshake = 1s;
/// Connections of a server with a secret that have sent nothing yet or request a page, and the
/// memory of one of them.
inline constexpr std::size_t max_unproved_callers = 4'096;
inline constexpr std::size_t unproved_caller_bytes = 24 * 1024;
/// The memory of a connection that has begun to prove the secret, OpenSSL's part included.
inline constexpr std::size_t tls_handshake_bytes = 96 * 1024;
/// The most bytes that are read from a connection before it has proved the secret: a client needs
/// less than 1 KiB.
inline constexpr std::size_t max_tls_handshake_bytes = 8 * 1024;
/// How long a node retries when a server refuses its secret: the next server at that port may be
/// its own.
inline constexpr Duration secret_refused_timeout = 5s;
inline constexpr std::size_t max_secret_file_bytes = 4 * 1024;
inline constexpr std::size_t max_secrets = 16;
/// Files in the folder of --secret-dir.
inline constexpr std::size_t max_tenants = 1'000;
/// The largest file with certificates or a key; a list of all public authorities has 220 KB.
inline constexpr std::size_t max_certificate_file_bytes = 1024 * 1024;

// The tunnel between a node and the round's store.
/// The most data of one stream that is in flight in one direction.
inline constexpr std::size_t tunnel_window_bytes = 256 * 1024;
/// Connections to the store that one node's workers have at once.
inline constexpr std::size_t max_tunnel_streams = 16'384;
/// Data that one end holds because the streams' sockets have not taken it yet, for all streams
/// together. At the store's end this limit is for all tunnels of a round.
inline constexpr std::size_t max_tunnel_held_bytes = 256 * 1024 * 1024;
/// Tunnels of one round at the store's end. A node has one, and may open another before the end of
/// the last one is noticed here.
inline constexpr std::size_t max_tunnels = 2 * max_nodes_per_job;
/// Unsent output beyond which nothing more is read for the other end.
inline constexpr std::size_t max_tunnel_output_bytes = 1024 * 1024;
/// Callers at the port of a tunnel that have not proved the secret; each has
/// `tls_handshake_timeout`. All nodes of a big job may call at once, and may call again.
inline constexpr std::size_t max_tunnel_handshakes = 1'024;
/// How long a node waits for the first byte on the connection of its tunnel before it logs that and
/// opens another one. The store's agent accepts it only once it has begun the round.
inline constexpr Duration tunnel_answer_timeout = 10s;
/// How long a node tries in all, whatever the failures are. This is longer than the default lease,
/// after which the round of a node that is gone ends.
inline constexpr Duration tunnel_dial_timeout = 60s;

// Connections, after the handshake.
/// A connection whose loss only TCP detects is probed after this long without a byte, then at this
/// interval; this many unanswered probes end it.
inline constexpr Duration keepalive_idle = 10s;
inline constexpr Duration keepalive_interval = 5s;
inline constexpr int keepalive_probes = 3;
/// Every accepted connection is probed after this long without a byte, so that a caller that has
/// failed without closing does not occupy a descriptor for ever. The interval is shorter than the
/// time after which address translators and load balancers forget an idle connection (4 minutes at
/// Azure, 350 s at AWS). Probing continues for a quarter of an hour, as long as the kernel repeats
/// unacknowledged data (tcp_retries2). So an outage that a busy connection survives ends no idle
/// connection, and no job that PyTorch's own server would have kept.
inline constexpr Duration caller_keepalive_idle = 120s;
inline constexpr Duration caller_keepalive_interval = 60s;
inline constexpr int caller_keepalive_probes = 13;
/// Callers that may wait to be accepted; the kernel caps this at net.core.somaxconn.
inline constexpr int max_accept_backlog = 65'535;
/// The default of that cap in Linux 5.4 and newer. With a smaller cap the daemon logs a warning.
inline constexpr int usual_accept_backlog = 4'096;
/// Listening sockets that a service manager hands over (LISTEN_FDS).
inline constexpr int max_inherited_sockets = 64;
/// How long the peer of a connection that is being closed may take to read what was written to it.
inline constexpr Duration flush_timeout = 5s;
/// How long the peers of all connections together may take when a server ends. Far shorter than an
/// agent's fence with the shortest lease, so that the agents of every job can come back to a server
/// that is restarted at once.
inline constexpr Duration drain_timeout = 1s;
/// The log lines that the daemon buffers while its output is not read, and how long its exit waits
/// for them to be read.
inline constexpr std::size_t max_log_backlog_bytes = 1024 * 1024;
inline constexpr Duration log_flush_timeout = 1s;
/// Log lines about callers and their jobs: per second, and in one burst; further ones are only
/// counted.
inline constexpr int caller_lines_per_second = 20;
inline constexpr int max_caller_lines_at_once = 200;
/// The longest text of one field in a log line.
inline constexpr std::size_t max_log_field_bytes = 4 * 1024;
/// When a resolver has not answered for this long, the attempt counts as "does not resolve".
inline constexpr Duration resolve_timeout = 5s;
/// How long an explicit node rank 0 waits for an answer at the endpoint before it serves the
/// endpoint itself.
inline constexpr Duration unanswered_timeout = 2s;
/// The control preamble, newline included.
inline constexpr std::size_t max_preamble_bytes = 32;
/// Peers of rejected connections that are remembered, so that each is logged once.
inline constexpr std::size_t max_remembered_peers = 1'000;
inline constexpr std::uint16_t default_rendezvous_port = 29'400;
/// The port of static rendezvous.
inline constexpr std::uint16_t default_master_port = 29'500;
/// Below the ephemeral ports and Kubernetes' node ports, and different from 29400 and 29500.
inline constexpr std::uint16_t first_store_port = 20'000;
inline constexpr std::uint16_t last_store_port = 29'399;
inline constexpr Duration store_reachability_timeout = 3s;
/// A worker's death is written into the store before its neighbours are signalled; the signals are
/// delayed by at most this.
inline constexpr Duration death_notice_timeout = 250ms;
inline constexpr std::size_t max_deaths_bytes = 1024;

// Membership (coordinator/README.md).
inline constexpr Duration heartbeat_interval = 1s;
inline constexpr Duration suspect_after = 3s;
inline constexpr Duration default_lease = 30s;
inline constexpr Duration shortest_lease = 6s;
inline constexpr Duration reconnect_grace = 500ms;
inline constexpr Duration drain_margin = 5s;
/// How long a worker that can keep its process may take until it is held.
inline constexpr Duration recovery_timeout = 10s;
/// How many rounds in a row begin with the state of the same step. After these all workers are
/// started again.
inline constexpr int max_uses_of_state = 2;
inline constexpr Duration late_node_quiet = 1s;
inline constexpr Duration late_node_longest = 5s;
/// Rounds that were lost within this time count towards a crash loop.
inline constexpr Duration crash_loop_window = 1h;
/// If a job's workers report no steps, its rounds count as without progress when they are shorter
/// than this and fail alike.
inline constexpr Duration short_round = 60s;
/// The interval at which the wait for a silent member checks whether the member has been heard
/// again.
inline constexpr Duration silent_check_interval = 1s;
/// How many members of a round are asked about a silent one.
inline constexpr std::size_t max_neighbours = 3;
/// The interval of these questions; the first question does not ask for a confirmation yet.
inline constexpr Duration ask_interval = 1s;
/// A probe answered within this long shows that the member is alive.
inline constexpr Duration probe_window = 2s;
/// A member that all its neighbours confirm as suspect is lost this long after it was last heard or
/// its last probe was answered.
inline constexpr Duration lost_when_confirmed = 5s;
/// The least number of reachable neighbours; with fewer, a node's fence depends on the server
/// alone.
inline constexpr int least_reached = 2;
/// The fence as a share of the lease. After that time without contact to the server and its
/// neighbours, an agent kills its workers.
inline constexpr double fence_share_of_lease = 0.8;
/// The fence of a node with reachable neighbours, after the last sign that it is still a member.
inline constexpr Duration fence_after_silence = 4s;
/// An agent that has received nothing from the server for this long begins to probe its neighbours.
inline constexpr Duration probe_after = 2 * heartbeat_interval;
inline constexpr Duration probe_interval = 1s;
/// How long a probe of a neighbour may take, from connecting to its answer.
inline constexpr Duration peer_answer_timeout = 1s;
/// The most nodes of a round whose last probes one agent keeps, and the most callers that its
/// `peer_port` serves at once.
inline constexpr std::size_t max_probing_nodes = 1'024;
inline constexpr std::size_t max_peer_callers = 64;
/// A hosted server whose port has refused connections for this long will not come back.
inline constexpr Duration refused_is_gone_after = 1s;

// Agent.
/// CPUs and NUMA nodes with a higher number are ignored; Linux is built for 8192 at most.
inline constexpr int max_cpu_number = 65'535;
/// The longest list or file that is read about the machine.
inline constexpr std::size_t max_machine_file_bytes = 64 * 1024;
inline constexpr Duration settle_window = 1s;
/// A scheduler's signal reaches the nodes of a step one after the other. When the scheduler signals
/// every process, a node that is stopped because of another node's signal waits this long for its
/// own signal.
inline constexpr Duration scheduler_signal_window = 1s;
inline constexpr Duration kill_descendants_timeout = 5s;
/// Processes that SIGINT or SIGQUIT has not ended after this time get SIGTERM, once their leader is
/// gone.
inline constexpr Duration leftovers_grace = 1s;
inline constexpr std::size_t max_error_file_bytes = 1024 * 1024;
inline constexpr std::size_t max_stderr_tail_bytes = 4 * 1024;
/// The longest text of an exception in a headline.
inline constexpr std::size_t max_exception_bytes = 240;
/// The report contains the beginning of an error file's message and the end of its call stack, up
/// to these lengths.
inline constexpr std::size_t max_failure_message_bytes = 1024;
inline constexpr std::size_t max_failure_details_bytes = 4 * 1024;
/// How long the program waits at exit for a disk that does not accept the last files.
inline constexpr Duration last_files_timeout = 5s;
/// The most bytes that are read of one file of the kernel, and of the kernel's log after a worker's
/// death.
inline constexpr std::size_t max_kernel_file_bytes = 1024 * 1024;
inline constexpr std::size_t max_kernel_log_records = 20'000;
inline constexpr std::size_t max_output_backlog_bytes = 16 * 1024 * 1024;
/// A longer line of a worker is cut into parts.
inline constexpr std::size_t max_line_bytes = 16 * 1024;
/// An incomplete line of a worker is shown after this time when it may be a prompt, and after
/// `unfinished_line_timeout` when lines must be complete.
inline constexpr Duration prompt_timeout = 50ms;
inline constexpr Duration unfinished_line_timeout = 10s;
/// How long the exit of the program waits for a console or disk that accepts nothing at all.
inline constexpr Duration console_flush_timeout = 5s;
/// The keeper kills the workers this long after the end of the fence, so that an agent that still
/// runs does it first.
inline constexpr Duration keeper_fence_margin = 250ms;
/// How long an agent may take to end after it has closed its socket to the keeper.
inline constexpr Duration agent_end_timeout = 10s;
/// Events that wait for a disk; further ones are dropped.
inline constexpr std::size_t max_waiting_events = 10'000;
/// Before the keeper stops itself, it waits this long for the agent to stop the workers.
inline constexpr Duration suspend_timeout = 1s;
/// The agent then waits this long for the workers' processes to stop: less than the keeper waits. A
/// process inside a system call may take longer.
inline constexpr Duration stop_descendants_timeout = 200ms;
static_assert(stop_descendants_timeout < suspend_timeout);
/// How long an agent may take to report anything after a second SIGINT.
inline constexpr Duration second_interrupt_timeout = 3s;
/// If the first Ctrl-C was for the attached rank, a second one within this time is for the job.
inline constexpr Duration repeated_interrupt_time = 1s;
/// Replaces the default grace while a rank is being debugged.
inline constexpr Duration attached_grace = 24h;

// Hosts on which `ddprun --hosts` starts nodes.
/// Connections that are made at the same time.
inline constexpr int max_connecting_hosts = 32;
/// How long a host may take to receive a copy of the program.
inline constexpr Duration program_copy_timeout = 120s;
/// The copies that are kept in a host's cache folder: this many of the most recently used ones, and
/// all that were used less than `program_copy_rest` ago, since a host with the same home may be
/// about to start one.
inline constexpr std::size_t kept_program_copies = 4;
inline constexpr Duration program_copy_rest = 1h;
/// How long a node may take to end after another node has ended, in addition to the grace of its
/// workers.
inline constexpr Duration host_end_margin = 15s;
/// The most that a host may write before its answer.
inline constexpr std::size_t max_host_answer_bytes = 64 * 1024;
/// The largest file with a list of hosts, or of their switches.
inline constexpr std::size_t max_option_file_bytes = 16 * 1024 * 1024;

// Goodput.
/// The longest time of one phase in a message (codec.cpp: ten years); longer times are capped.
inline constexpr Duration longest_phase = std::chrono::hours{24 * 3650};
/// The most that a server takes over from its predecessor, including the time since then.
inline constexpr Duration longest_restored_goodput = longest_phase / 2;

// Worker channel.
/// A greeting has fewer than a hundred bytes.
inline constexpr std::size_t max_channel_line_bytes = 1024;
/// The most connections that have not sent a token yet, and the time that each of them has to send
/// it.
inline constexpr std::size_t max_unfinished_channels = 64;
inline constexpr Duration channel_greeting_timeout = 1s;
/// Channels of one worker: the Python module and each library that contains the SDK have their own.
inline constexpr std::size_t max_channels_of_worker = 16;
/// The interval at which an agent reads its workers' pages, and the shortest interval at which it
/// reports what it has read. A report contains the age of the workers' latest change,
/// `longest_progress_age` at most.
inline constexpr Duration page_read_interval = 100ms;
inline constexpr Duration progress_interval = 1s;
inline constexpr Duration longest_progress_age = 2s;
/// The longest pattern that finds steps in a worker's output, and the longest line that it is
/// applied to.
inline constexpr std::size_t max_progress_pattern_bytes = 1024;
inline constexpr std::size_t max_progress_line_bytes = 16 * 1024;
/// Reported workers of one node, so that a report fits into a frame.
inline constexpr std::size_t max_reported_progress = 256;
/// Replaces `page_read_interval` while the ranks agree on a step to save, or save it.
inline constexpr Duration save_read_interval = 20ms;
/// How many steps are proposed before the agreement fails; the last proposal is 4,096 steps ahead.
inline constexpr int most_save_attempts = 14;
/// A page has 8 bits for the ballot and 54 for the step; the highest step numbers mean "never".
inline constexpr int most_save_ballots = 255;
inline constexpr std::uint64_t highest_save_step = (std::uint64_t{1} << 54U) - 2;
/// The most steps by which a proposal is ahead.
inline constexpr std::uint64_t highest_save_margin = std::uint64_t{1} << (most_save_attempts - 2);
/// How long the agent waits when the system has no memory barrier for all threads.
inline constexpr Duration save_barrier_pause = 10ms;
/// The server ends an agreement this long before a node stops its workers by itself, or a quarter
/// of the remaining time before, whichever is shorter.
inline constexpr Duration save_margin = 1s;
/// A save for the end of a Slurm allocation begins this long before the last moment for an orderly
/// stop.
inline constexpr Duration slurm_save_lead = 120s;

// Commands of ddprunctl.
/// A command has fewer than a hundred bytes, apart from the names of nodes.
inline constexpr std::size_t max_command_bytes = 4 * 1024;
/// The most connections at the same time, and how long each may take to send its command: on a
/// loaded machine the caller may get no processor for seconds.
inline constexpr std::size_t max_command_callers = 16;
inline constexpr Duration command_timeout = 10s;
/// How long ddprunctl waits for the answers of all agents of the machine; if one is stopped, it
/// waits for all of this time.
inline constexpr Duration command_answer_timeout = 3s;
/// How long an agent waits for the server's answer to a forwarded command.
inline constexpr Duration command_relay_timeout = 5s;
/// The time between the two samples of a worker whose stack a command shows.
inline constexpr Duration stack_sample_interval = 1s;
/// The most stacks of ranks that are requested at the same time; fewer than `max_command_callers`.
inline constexpr std::size_t max_stacks_at_once = 12;
/// The longest text of the stacks of one rank; less than `max_free_text_bytes`, to leave room for
/// the rest of the reply.
inline constexpr std::size_t max_stack_text_bytes = 7 * 1024;
/// Nodes that one command names, and hosts of a job that are drained at the same time.
inline constexpr std::size_t max_drained_nodes = 64;
inline constexpr std::size_t max_drained_hosts = 1'000;
/// The drained hosts that nodes keep for the next server, so that a `resume` fits into a frame; the
/// nodes that keep them; and up to where changes of that list are counted. The next server counts
/// on from half of that at most, whatever count a node states.
inline constexpr std::size_t max_kept_drained_hosts = 128;
inline constexpr std::size_t drain_keeper_count = 3;
inline constexpr int max_drain_changes = 1'000'000;
/// Commands that change the number of a job's nodes.
inline constexpr int max_resizes = 1'000'000;
/// Jobs, and nodes and drained hosts of an only job, that the server's answer to a command of
/// another machine lists, so that it fits into a frame.
inline constexpr std::size_t max_summary_jobs = 64;
inline constexpr std::size_t max_summary_nodes = 96;
inline constexpr std::size_t max_summary_drained = 16;
/// The longest part of the stated name of such a command's user and host.
inline constexpr std::size_t max_stated_name_bytes = 100;
/// How long the server waits for the agents whose workers a command of another machine is for.
inline constexpr Duration worker_order_timeout = 8s;
/// Commands of one job that wait for agents, and workers at which one command looks: the answers
/// together stay below the bound of the caller's queue.
inline constexpr std::size_t max_open_commands = 16;
inline constexpr std::size_t max_ordered_stacks = 256;
/// Workers at which an agent looks at the same time by order of the server.
inline constexpr std::size_t max_open_looks = 64;
/// The part of an agent's answer that the server keeps until it answers the command.
inline constexpr std::size_t max_order_text_bytes = 200;
/// How many agents of its user ddprunctl queries at once, and how many bytes of the kernel's table
/// of local sockets it reads to find them.
inline constexpr std::size_t max_command_agents = 1'024;
inline constexpr std::size_t max_local_socket_table_bytes = 32 * 1024 * 1024;
/// The longest line of /etc/passwd.
inline constexpr std::size_t max_passwd_line_bytes = 4 * 1024;

/// Election by etcd: how long the leader's key stays after its last renewal, and the share of that
/// time for which the leader acts after its last renewal request.
inline constexpr Duration etcd_ttl = 10s;
inline constexpr double leading_share_of_ttl = 0.8;
/// The shortest lease with elections; with it the next leader is elected well before any node's
/// fence ends.
inline constexpr Duration shortest_elected_lease = 20s;
/// The same for election by a Lease of Kubernetes. Other nodes begin to wait for its end only when
/// they miss the leader, so the next leader may come 16 s after the leader's machine lost power.
inline constexpr Duration shortest_lease_by_kubernetes = 30s;
/// The time for one request to etcd, from the established connection to the answer.
inline constexpr Duration http_request_timeout = 2s;
/// The time for a request to etcd, including the attempts at all its members.
inline constexpr Duration etcd_answer_timeout = 5s;
inline constexpr std::size_t max_http_answer_bytes = 64 * 1024;
inline constexpr std::size_t max_etcd_members = 16;
/// How jobs of one name have ended, as an elected server stores it: 24 KiB in base64, so that a
/// Lease with it and with what Kubernetes adds is within `max_http_answer_bytes`.
inline constexpr std::size_t max_end_record_bytes = 18 * 1024;
/// Election by the job's own nodes: the time of a leadership, and the shortest lease, as above.
inline constexpr Duration voted_ttl = 4s;
inline constexpr Duration shortest_voted_lease = 12s;
/// How often an elected leader claims the endpoint of the command line, where the job's first
/// server may be started again.
inline constexpr Duration claim_interval = 2s;
/// How long voters need to elect a leader, and that to claim the job of a server that was started
/// again there. Nodes that have found no leader for so long look there too. Such a server turns
/// them away for so long and more (coordinator.cpp).
inline constexpr Duration claim_wait = 2 * voted_ttl + 2 * claim_interval;
/// How long after a failure the leader tries again to change the voters.
inline constexpr Duration voters_retry = 1s;
/// Election by the job's own nodes: the processes that vote about one job, the jobs about which one
/// process votes, the highest number of an epoch, a ballot or a change of the voters (a double has
/// it exactly, as other readers of JSON need), one line of the protocol, and the time for one
/// operation.
inline constexpr std::size_t max_voters = 5;
inline constexpr std::size_t max_voted_jobs = 1'000;
inline constexpr std::uint64_t max_voted_number = 1ULL << 53U;
inline constexpr std::size_t max_vote_line_bytes = 64 * 1024;
inline constexpr Duration vote_timeout = 2s;
/// A node may state an epoch that is at most this far ahead, so that it cannot use up all epochs.
inline constexpr std::uint64_t max_epochs_ahead = 1'000'000'000;

// ---- warm workers (--warm)
// -------------------------------------------------------------------------

/// The parked processes, which wait for a restart, begin to import when the round's own start is
/// over: `parking_after_step` after the first step, and at the latest `parking_without_steps` after
/// the start of the workers.
inline constexpr Duration parking_after_step = 5s;
inline constexpr Duration parking_without_steps = 15s;
/// How long the imports of one parked process may take.
inline constexpr Duration parking_timeout = 120s;
inline constexpr int max_parking_failures = 3;
/// The longest report of a parked process, and how much of its output is kept.
inline constexpr std::size_t max_parking_report_bytes = 1024;

// ---- hangs --------------------------------------------------------------------------------------

/// --health-timeout: a GPU test of all devices takes tens of seconds, and no check needs more than
/// an hour.
inline constexpr Duration usual_health_timeout = 60s;
inline constexpr Duration shortest_health_timeout = 1s;
inline constexpr Duration longest_health_timeout = 3600s;
/// From SIGKILL to the conclusion that the process hangs in the kernel; shorter than
/// `drain_margin`.
inline constexpr Duration health_kill_timeout = 2s;
/// Only the first line of a health check's output counts, up to this length.
inline constexpr std::size_t health_line_bytes = 1024;

/// --hang-after: each examination of a worker takes milliseconds, and a pause of a few seconds is
/// no hang.
inline constexpr Duration shortest_hang_limit = 10s;
/// The interval between examinations of the workers; if the limit is short, a sixth of the limit.
inline constexpr Duration longest_look_interval = 5s;
inline constexpr int looks_per_hang_limit = 6;
/// For a rank that reports that it starts, evaluates, saves or compiles, the limit is multiplied by
/// this.
inline constexpr int slow_phase_factor = 10;
/// The most sites of one node in a report: workers that do the same in the same place share one.
inline constexpr std::size_t max_reported_sites = 16;
/// The most rows about a hang on the screen.
inline constexpr std::size_t max_hang_rows = 64;

}  // namespace ddprun::limits
