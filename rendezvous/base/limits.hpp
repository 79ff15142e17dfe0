// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/time.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

/// How long, how many, how big: every bound of the project on something that comes from outside.
/// Defaults that an option changes are in launcher/resolve/job_spec.hpp and say so there.
namespace ddprun::limits {

using namespace std::chrono_literals;

// c10d store, at least as generous as PyTorch's libuv server (a smaller limit breaks users).
inline constexpr std::size_t max_key_bytes = 8 * 1024;
inline constexpr std::size_t max_value_bytes = 8 * 1024 * 1024;
inline constexpr std::size_t max_key_count = 128 * 1024;
/// Key bytes of one multi-key request together, value bytes of one MULTI_SET together.
inline constexpr std::size_t max_request_bytes = 256 * 1024 * 1024;
/// What is read of one client of the store before the others have their turn.
inline constexpr std::size_t store_turn_bytes = 64 * 1024;
/// With more than this waiting to be read by one client of the store, no further request of it is
/// handled. A single reply may be longer, since APPEND grows values.
inline constexpr std::size_t max_store_backlog_bytes = 1024 * 1024;
/// What one store holds: keys, values and queues, and values that are gone but still on their way
/// to a client. Counted with what each costs besides its bytes.
inline constexpr std::size_t max_store_data_bytes = 1024 * 1024 * 1024;
/// What the clients of one store cause it to hold besides: incomplete requests, waits, unread
/// replies. Beyond it the client that causes most of it is closed.
inline constexpr std::size_t max_store_client_bytes = 1024 * 1024 * 1024;
/// A client that takes none of its replies for this long is closed.
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
/// Messages that one agent does not read; beyond it, it is closed.
inline constexpr std::size_t max_control_backlog_bytes = 4 * 1024 * 1024;
/// Unsent and incomplete messages of all agents of a server together. Beyond it the agent that
/// holds most is closed.
inline constexpr std::size_t max_control_bytes = 256 * 1024 * 1024;
inline constexpr std::size_t max_name_bytes = 255;
inline constexpr int max_nodes_per_job = 65'536;
inline constexpr int max_workers_per_node = 4'096;
/// Levels of switches that the order of ranks looks at.
inline constexpr int max_topology_levels = 8;
inline constexpr std::size_t max_jobs_per_server = 10'000;
/// Of one network (an IPv4 address, an IPv6 /64), so that no single caller uses all of them up.
inline constexpr std::size_t max_jobs_per_network = 1'000;
/// Longer leases of a job are cut to this.
inline constexpr Duration longest_lease = 24h;
/// A job of which this server has begun no round is forgotten when no node of it has been connected
/// for its lease, this long at least; any other when it has had no node for the next time.
inline constexpr Duration unproven_job_memory = 30s;
inline constexpr Duration deserted_job_memory = 1h;
/// A round number above this is not accepted from a peer: the next ones must still be numbers.
inline constexpr int last_round = 1'000'000'000;
/// The restart count that workers get is capped here.
inline constexpr int max_reported_restarts = 1'000'000;
/// Exit codes that are not restarted on, as far as a job can name them.
inline constexpr std::size_t max_final_codes = 64;

// Waits in a round's store.
/// A client that waits this long waits for long: the ranks that are missing are looked for.
inline constexpr Duration long_wait = 30s;
/// How often a store looks at its waits, and how often a wait that goes on is reported again.
inline constexpr Duration wait_check_interval = 5s;
inline constexpr Duration wait_report_interval = 30s;
/// A shorter wait that its client cancelled is no timeout that a job fails of.
inline constexpr Duration shortest_timed_out_wait = 1s;
/// A rank that fails this long after its wait timed out failed of it.
inline constexpr Duration timed_out_wait_window = 30s;
/// Connections to the store that one message names, of its waits and of one node's workers each.
inline constexpr std::size_t max_reported_sockets = 256;
/// What is read of the kernel's table of connections, and how many descriptors of workers are
/// looked at, to find which worker has which connection.
inline constexpr std::size_t max_socket_table_bytes = 32 * 1024 * 1024;
inline constexpr std::size_t max_inspected_descriptors = 200'000;

// What a worker is doing (agent/health), as its memory and /proc show it.
inline constexpr std::size_t max_python_threads = 64;
inline constexpr std::size_t max_python_frames = 128;
/// Of all threads of one process together.
inline constexpr std::size_t max_sampled_frames = 1'024;
/// Of a name, as it is shown.
inline constexpr std::size_t max_sampled_name_bytes = 256;
/// How often a stack is read that changes meanwhile.
inline constexpr int max_stack_attempts = 3;
/// Of the table that says which line an instruction belongs to.
inline constexpr std::size_t max_line_table_bytes = 256 * 1024;
/// Mapped files in which an interpreter is looked for, and symbols that one hash has.
inline constexpr std::size_t max_python_candidates = 8;
inline constexpr std::size_t max_symbol_chain = 1'024;
/// Of one file of /proc, and of the two that list what all processes have.
inline constexpr std::size_t max_process_file_bytes = 64 * 1024;
inline constexpr std::size_t max_process_list_bytes = 4 * 1024 * 1024;
/// Descriptors, threads and processes below it that are looked at.
inline constexpr std::size_t max_sampled_descriptors = 4'096;
inline constexpr std::size_t max_sampled_threads = 128;
inline constexpr std::size_t max_sampled_processes = 256;
/// One inside the other, around the program that a worker is.
inline constexpr std::size_t max_sampled_wrappers = 8;
/// Addresses that it is connecting to.
inline constexpr std::size_t max_sampled_addresses = 16;
/// Below them a process is idle.
inline constexpr double idle_cpu_share = 0.05;
inline constexpr double idle_bytes_per_second = 1'000'000;
/// A thread that is in one place at two moments has come back to it meanwhile if it has run for
/// more than the first share of the time, and spins there if it has run for the second.
inline constexpr double still_share = 0.0005;
inline constexpr double spinning_share = 0.5;

// HTTP.
inline constexpr std::size_t max_http_header_bytes = 8 * 1024;
inline constexpr Duration http_timeout = 5s;
inline constexpr std::size_t max_status_nodes = 1'000;
inline constexpr std::size_t max_status_waits = 20;
/// A page of more than one turn is served again until then at the latest.
inline constexpr Duration page_lifetime = 1s;
/// Jobs whose state goes into a page before other events have their turn.
inline constexpr std::size_t page_turn_jobs = 16;
/// The longest page: jobs behind it are left out, and counted. All pages that callers are reading:
/// with more no page is made.
inline constexpr std::size_t max_page_bytes = 16 * 1024 * 1024;
inline constexpr std::size_t max_unread_page_bytes = 64 * 1024 * 1024;
/// Callers that are served a page at a time, one network of them too; further ones are closed.
inline constexpr std::size_t max_page_callers = 64;
inline constexpr std::size_t max_page_callers_per_network = 16;
/// A page waits this long for stores on other threads; then it is served without them.
inline constexpr Duration survey_timeout = 500ms;

// Connections.
inline constexpr Duration handshake_timeout = 10s;
inline constexpr Duration connect_attempt_timeout = 1s;

// Encrypted connections.
/// From the first byte to the proof of the secret; then `handshake_timeout` counts.
inline constexpr Duration tls_handshake_timeout = 3s;
/// Connections of a server that have not proved it yet. With more the oldest of the network that
/// has most of them is closed, unless the caller is of that network and the oldest younger than
/// this.
inline constexpr std::size_t max_tls_handshakes = 2'048;
inline constexpr Duration youngest_closed_handshake = 1s;
/// What is read of one before that: a client needs less than 1 KiB.
inline constexpr std::size_t max_tls_handshake_bytes = 8 * 1024;
/// A node that a server does not accept because of the secret asks again for so long: the next
/// server of that port may be its own.
inline constexpr Duration secret_refused_timeout = 5s;
inline constexpr std::size_t max_secret_file_bytes = 4 * 1024;
inline constexpr std::size_t max_secrets = 16;
/// Of certificates or a key; a list of all public authorities has 220 KB.
inline constexpr std::size_t max_certificate_file_bytes = 1024 * 1024;

// The tunnel between a node and the round's store.
/// What a stream may have on its way in one direction.
inline constexpr std::size_t tunnel_window_bytes = 256 * 1024;
/// Connections to the store that one node's workers have at once.
inline constexpr std::size_t max_tunnel_streams = 16'384;
/// What one end holds of all streams together, and the store's end of all tunnels of a round,
/// because their sockets do not take it.
inline constexpr std::size_t max_tunnel_held_bytes = 256 * 1024 * 1024;
/// Of one round, at the store's end: a node has one, and may make another one before the end of
/// its last one is known.
inline constexpr std::size_t max_tunnels = 2 * max_nodes_per_job;
/// What waits to be written to the other end before nothing more is read for it.
inline constexpr std::size_t max_tunnel_output_bytes = 1024 * 1024;
/// Callers that have not proved the secret to the port of a tunnel; each has
/// `tls_handshake_timeout`. All nodes of a big job may call at once, and call again.
inline constexpr std::size_t max_tunnel_handshakes = 1'024;
/// A node waits so long for the first byte at a connection for its tunnel, which the store's agent
/// accepts once it has begun the round, before it makes another one; then it says so.
inline constexpr Duration tunnel_answer_timeout = 10s;
/// And so long in all, whatever the failures were: longer than the default lease, which ends the
/// round of a node that has gone.
inline constexpr Duration tunnel_dial_timeout = 60s;

// Connections, after the handshake.
/// A connection whose loss only TCP detects is probed after this long without a byte, then at this
/// interval; this many unanswered probes end it.
inline constexpr Duration keepalive_idle = 10s;
inline constexpr Duration keepalive_interval = 5s;
inline constexpr int keepalive_probes = 3;
/// Every accepted connection is probed after this long without a byte, so that a caller that
/// vanished without closing does not hold a descriptor for ever. More often than address
/// translators and load balancers forget an idle connection (4 minutes at Azure, 350 s at AWS); and
/// for a quarter of an hour in all, which is how long the kernel repeats data that is not
/// acknowledged (tcp_retries2): an outage that a busy connection survives ends no idle one, and no
/// job that PyTorch's own server would have kept.
inline constexpr Duration caller_keepalive_idle = 120s;
inline constexpr Duration caller_keepalive_interval = 60s;
inline constexpr int caller_keepalive_probes = 13;
/// Callers that may wait to be accepted: the kernel grants no more than net.core.somaxconn of it.
inline constexpr int max_accept_backlog = 65'535;
/// What Linux grants unless it is configured otherwise (5.4 and newer). With less the daemon warns.
inline constexpr int usual_accept_backlog = 4'096;
/// Listening sockets that a service manager hands over (LISTEN_FDS).
inline constexpr int max_inherited_sockets = 64;
/// How long a closed connection may take to read what was still written to it.
inline constexpr Duration flush_timeout = 5s;
/// The same for all connections together when a server ends. Far shorter than an agent's fence with
/// the shortest lease, so that a server that is started again at once finds every job.
inline constexpr Duration drain_timeout = 1s;
/// Log lines that the daemon buffers while its output is not read, and how long its exit waits for
/// that.
inline constexpr std::size_t max_log_backlog_bytes = 1024 * 1024;
inline constexpr Duration log_flush_timeout = 1s;
/// Log lines about callers and their jobs, per second and at once; further ones are counted.
inline constexpr int caller_lines_per_second = 20;
inline constexpr int max_caller_lines_at_once = 200;
/// Of one text field in a log line.
inline constexpr std::size_t max_log_field_bytes = 4 * 1024;
/// A resolver that does not answer this long counts as "does not resolve" for this attempt.
inline constexpr Duration resolve_timeout = 5s;
/// After this long without an answer at the endpoint an explicit node rank 0 serves it.
inline constexpr Duration unanswered_timeout = 2s;
/// The control preamble, newline included.
inline constexpr std::size_t max_preamble_bytes = 32;
/// Peers of rejected connections that are remembered, so that each is logged once.
inline constexpr std::size_t max_remembered_peers = 1'000;
inline constexpr std::uint16_t default_rendezvous_port = 29'400;
/// Of static rendezvous.
inline constexpr std::uint16_t default_master_port = 29'500;
/// Below the ephemeral range and Kubernetes' node ports, clear of 29400 and 29500.
inline constexpr std::uint16_t first_store_port = 20'000;
inline constexpr std::uint16_t last_store_port = 29'399;
inline constexpr Duration store_reachability_timeout = 3s;
/// A worker's death is written into the store before its neighbours are signalled; the signals wait
/// for that no longer than this.
inline constexpr Duration death_notice_timeout = 250ms;
inline constexpr std::size_t max_deaths_bytes = 1024;

// Membership (coordinator/README.md).
inline constexpr Duration heartbeat_interval = 1s;
inline constexpr Duration suspect_after = 3s;
inline constexpr Duration default_lease = 30s;
inline constexpr Duration shortest_lease = 6s;
inline constexpr Duration reconnect_grace = 500ms;
inline constexpr Duration drain_margin = 5s;
inline constexpr Duration late_node_quiet = 1s;
inline constexpr Duration late_node_longest = 5s;
/// Rounds lost within this long count towards a crash loop.
inline constexpr Duration crash_loop_window = 1h;
/// Rounds of a job whose workers report no steps count as without progress when they are shorter
/// and fail alike.
inline constexpr Duration short_round = 60s;
/// How often a wait for a silent member checks whether it is heard again.
inline constexpr Duration silent_check_interval = 1s;
/// Members of a round that are asked about one that is silent.
inline constexpr std::size_t max_neighbours = 3;
/// They are asked this often; the first question does not ask for a confirmation yet.
inline constexpr Duration ask_interval = 1s;
/// A probe answered within this long shows that the member is alive.
inline constexpr Duration probe_window = 2s;
/// A member that all its neighbours confirm as suspect is lost this long after it was last heard or
/// its last probe was answered.
inline constexpr Duration lost_when_confirmed = 5s;
/// With fewer neighbours in reach a node's fence follows the server alone.
inline constexpr int least_reached = 2;
/// The fence as a share of the lease: an agent without contact to server and neighbours kills its
/// workers then.
inline constexpr double fence_share_of_lease = 0.8;
/// The fence of a node whose neighbours can be asked, after the last sign that it still counts.
inline constexpr Duration fence_after_silence = 4s;
/// An agent that hears nothing from the server this long begins to probe its neighbours.
inline constexpr Duration probe_after = 2 * heartbeat_interval;
inline constexpr Duration probe_interval = 1s;
/// From the beginning of its connection to its answer.
inline constexpr Duration peer_answer_timeout = 1s;
/// Nodes of a round whose probes one agent remembers; callers on its `peer_port` at once.
inline constexpr std::size_t max_probing_nodes = 1'024;
inline constexpr std::size_t max_peer_callers = 64;
/// A hosted server that answers "refused" this long will not come back.
inline constexpr Duration refused_is_gone_after = 1s;

// Agent.
/// CPUs and NUMA nodes with a higher number are ignored; Linux is built for 8192 at most.
inline constexpr int max_cpu_number = 65'535;
/// The longest list or file that is read about the machine.
inline constexpr std::size_t max_machine_file_bytes = 64 * 1024;
inline constexpr Duration settle_window = 1s;
/// A scheduler's signal reaches the nodes of a step one after the other: where it sends it to every
/// process, a node that hears of it from another one waits this long for its own.
inline constexpr Duration scheduler_signal_window = 1s;
inline constexpr Duration kill_descendants_timeout = 5s;
/// What SIGINT or SIGQUIT has not ended by then gets SIGTERM, once its leader is gone.
inline constexpr Duration leftovers_grace = 1s;
inline constexpr std::size_t max_error_file_bytes = 1024 * 1024;
inline constexpr std::size_t max_stderr_tail_bytes = 4 * 1024;
/// Of an exception's line in a headline.
inline constexpr std::size_t max_exception_bytes = 240;
/// Of an error file's message the beginning, of its call stack the end goes into the report.
inline constexpr std::size_t max_failure_message_bytes = 1024;
inline constexpr std::size_t max_failure_details_bytes = 4 * 1024;
/// How long the exit of the program waits for a disk that does not accept the last files.
inline constexpr Duration last_files_timeout = 5s;
/// What is read of one file of the kernel, and of its log after a worker's death.
inline constexpr std::size_t max_kernel_file_bytes = 1024 * 1024;
inline constexpr std::size_t max_kernel_log_records = 20'000;
inline constexpr std::size_t max_output_backlog_bytes = 16 * 1024 * 1024;
/// A longer line of a worker is cut into parts.
inline constexpr std::size_t max_line_bytes = 16 * 1024;
/// An incomplete line of a worker is shown after this long where it may be a prompt, and after this
/// long where lines must be complete.
inline constexpr Duration prompt_timeout = 50ms;
inline constexpr Duration unfinished_line_timeout = 10s;
/// How long the exit of the program waits for a console or disk that accepts nothing at all.
inline constexpr Duration console_flush_timeout = 5s;
/// The keeper acts this much after the end of the fence: an agent that still runs comes first.
inline constexpr Duration keeper_fence_margin = 250ms;
/// An agent that has closed its pair with the keeper has this long to end.
inline constexpr Duration agent_end_timeout = 10s;
/// Events that wait for a disk; what comes on top is dropped.
inline constexpr std::size_t max_waiting_events = 10'000;
/// So long the keeper waits, before it stops itself, for the agent to stop the workers.
inline constexpr Duration suspend_timeout = 1s;
/// So long the agent waits then for the workers' processes to be stopped: less than the keeper
/// waits. One inside a call of the kernel may take longer.
inline constexpr Duration stop_descendants_timeout = 200ms;
static_assert(stop_descendants_timeout < suspend_timeout);
/// After a second SIGINT the agent has this long to report anything.
inline constexpr Duration second_interrupt_timeout = 3s;
/// A Ctrl-C so soon after another one is for the job, where the first was for the attached rank.
inline constexpr Duration repeated_interrupt_time = 1s;
/// In place of the default grace where a rank is being debugged.
inline constexpr Duration attached_grace = 24h;

// Hosts that ddprun --hosts starts nodes on.
/// Connections that are being made at once.
inline constexpr int max_connecting_hosts = 32;
/// What a host takes to receive a copy of the program.
inline constexpr Duration program_copy_timeout = 120s;
/// So many copies stay in a host's cache folder, the last used ones, and those used less than this
/// long ago: a host with the same home may be about to start one.
inline constexpr std::size_t kept_program_copies = 4;
inline constexpr Duration program_copy_rest = 1h;
/// Beyond the grace of its workers, what a node has to end after another one has.
inline constexpr Duration host_end_margin = 15s;
/// What a host may write before its answer.
inline constexpr std::size_t max_host_answer_bytes = 64 * 1024;
/// A file with a list of hosts, or of their switches.
inline constexpr std::size_t max_option_file_bytes = 16 * 1024 * 1024;

// Goodput.
/// What messages can carry of one phase (codec.cpp: ten years); it stays there.
inline constexpr Duration longest_phase = std::chrono::hours{24 * 3650};
/// What a server takes over from its predecessor, the time since then included.
inline constexpr Duration longest_restored_goodput = longest_phase / 2;

// Worker channel.
/// A greeting has less than a hundred.
inline constexpr std::size_t max_channel_line_bytes = 1024;
/// Connections that have not shown a token yet, and how long each of them may take.
inline constexpr std::size_t max_unfinished_channels = 64;
inline constexpr Duration channel_greeting_timeout = 1s;
/// The Python module and libraries with the SDK inside have one each.
inline constexpr std::size_t max_channels_of_worker = 16;
/// How often an agent reads the pages of its workers, and how often it reports at most what it
/// reads; with a report comes how long ago that was, and older things count as that old.
inline constexpr Duration page_read_interval = 100ms;
inline constexpr Duration progress_interval = 1s;
inline constexpr Duration longest_progress_age = 2s;
/// Of a pattern that finds steps in a worker's output, and of the lines in which it does.
inline constexpr std::size_t max_progress_pattern_bytes = 1024;
inline constexpr std::size_t max_progress_line_bytes = 16 * 1024;
/// Of one node: a report fits into a frame.
inline constexpr std::size_t max_reported_progress = 256;
/// The same while its ranks agree on a step to save, or save it.
inline constexpr Duration save_read_interval = 20ms;
/// Proposals of a step until the agreement fails: the last one is 4,096 steps ahead.
inline constexpr int most_save_attempts = 14;
/// A page has 8 bits for the ballot, and 54 for the step, of which the last ones say "never".
inline constexpr int most_save_ballots = 255;
inline constexpr std::uint64_t highest_save_step = (std::uint64_t{1} << 54U) - 2;
/// The furthest that a proposal is ahead.
inline constexpr std::uint64_t highest_save_margin = std::uint64_t{1} << (most_save_attempts - 2);
/// How long the agent waits where the system makes no memory barrier for all threads.
inline constexpr Duration save_barrier_pause = 10ms;
/// The server ends an agreement so long before a node stops its workers on its own; a quarter of
/// the time at most.
inline constexpr Duration save_margin = 1s;
/// How long before the last moment for an orderly stop a save is begun for the end of a Slurm
/// allocation.
inline constexpr Duration slurm_save_lead = 120s;

// Commands of ddprunctl.
/// One has less than a hundred, but for the names of nodes.
inline constexpr std::size_t max_command_bytes = 4 * 1024;
/// Connections at once, and how long each may take to send its command: it sends at once, but where
/// everything else has the processor that can be seconds.
inline constexpr std::size_t max_command_callers = 16;
inline constexpr Duration command_timeout = 10s;
/// How long ddprunctl waits for all agents of the machine; one that is stopped costs as much.
inline constexpr Duration command_answer_timeout = 3s;
/// How long an agent waits for the server's answer to a command that it has passed on.
inline constexpr Duration command_relay_timeout = 5s;
/// Between the two looks at a worker of which a command shows the stack.
inline constexpr Duration stack_sample_interval = 1s;
/// So many ranks' stacks are asked for at once; fewer than `max_command_callers`.
inline constexpr std::size_t max_stacks_at_once = 12;
/// Of one rank's stacks; less than `max_free_text_bytes`, for the rest of the reply.
inline constexpr std::size_t max_stack_text_bytes = 7 * 1024;
/// Nodes that one command names, and hosts that a job has drained at once.
inline constexpr std::size_t max_drained_nodes = 64;
inline constexpr std::size_t max_drained_hosts = 1'000;
/// Agents of its user that ddprunctl asks at once, and what it reads of the kernel's table of local
/// sockets to find them.
inline constexpr std::size_t max_command_agents = 1'024;
inline constexpr std::size_t max_local_socket_table_bytes = 32 * 1024 * 1024;
/// A line of /etc/passwd.
inline constexpr std::size_t max_passwd_line_bytes = 4 * 1024;

/// Election by etcd: how long a leader's key outlives it, and for which share of that a leader acts
/// after it last asked for more.
inline constexpr Duration etcd_ttl = 10s;
inline constexpr double leading_share_of_ttl = 0.8;
/// The next leader is there well before any node's fence ends.
inline constexpr Duration shortest_elected_lease = 20s;
/// One connection to etcd, from connected to answered.
inline constexpr Duration http_request_timeout = 2s;
/// A question to etcd, all its members tried.
inline constexpr Duration etcd_answer_timeout = 5s;
inline constexpr std::size_t max_http_answer_bytes = 64 * 1024;
inline constexpr std::size_t max_etcd_members = 16;
/// Of a node that says it has followed more epochs than there can have been: it may not use them
/// up.
inline constexpr std::uint64_t max_epochs_ahead = 1'000'000'000;

// ---- warm workers (--warm)
// -------------------------------------------------------------------------

/// The processes that wait for a restart import when the round's own start is over.
inline constexpr Duration parking_after_step = 5s;
inline constexpr Duration parking_without_steps = 15s;
/// For the imports of one.
inline constexpr Duration parking_timeout = 120s;
inline constexpr int max_parking_failures = 3;
/// What one may report of itself, and what is kept of its output.
inline constexpr std::size_t max_parking_report_bytes = 1024;

// ---- hangs --------------------------------------------------------------------------------------

/// --health-timeout: a GPU test of all devices takes tens of seconds; an hour is no check any more.
inline constexpr Duration usual_health_timeout = 60s;
inline constexpr Duration shortest_health_timeout = 1s;
inline constexpr Duration longest_health_timeout = 3600s;
/// Between its SIGKILL and the conclusion that it hangs in the kernel; shorter than `drain_margin`.
inline constexpr Duration health_kill_timeout = 2s;
/// Of what a health check says only the first line counts.
inline constexpr std::size_t health_line_bytes = 1024;

/// --hang-after: looking at a worker costs milliseconds, and a pause of a few seconds is no hang.
inline constexpr Duration shortest_hang_limit = 10s;
/// Between two looks at the workers; with a short limit a sixth of that.
inline constexpr Duration longest_look_interval = 5s;
inline constexpr int looks_per_hang_limit = 6;
/// A rank that says that it starts, evaluates, saves or compiles gets so many times the limit.
inline constexpr int slow_phase_factor = 10;
/// Of one node: workers that do the same in one place are one.
inline constexpr std::size_t max_reported_sites = 16;
/// What is said of a hang on the screen.
inline constexpr std::size_t max_hang_rows = 64;

}  // namespace ddprun::limits
