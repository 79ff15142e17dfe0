// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

/// Every waiting time of the SDK, with the reason for its value. Values that a program sets (a
/// group's timeout, a wait's deadline) are not here. Values only: any folder of the SDK includes
/// it.
namespace ddprun::waiting_times {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Defaults of a program's settings.

/// The timeout of a group: longer than any step of a healthy job, shorter than a night.
inline constexpr milliseconds default_group_timeout = 10min;
/// A wait without a deadline: a year never passes, and no clock overflows.
inline constexpr milliseconds longest_wait = std::chrono::hours{24 * 365};

// Ranks of one host, in shared memory.

/// The interval between a sleeping thread's checks of the awaited process. So a death is reported
/// within 50 ms, and 100 system calls a second cost nothing.
inline constexpr milliseconds peer_check_interval = 10ms;
/// How long to yield before the first sleep: about the time of a wake-up.
inline constexpr microseconds longest_yield = 40us;
/// While ranks map the memory: the interval between checks whether one of them cannot. This happens
/// once.
inline constexpr milliseconds seat_check_interval = 50ms;
/// The interval at which a group's thread checks for quick calls that no thread waits for: much
/// longer than such a call takes with a waiting thread.
inline constexpr milliseconds quick_call_check_interval = 1ms;

// Reports in the store, which ranks and agents write about errors and deaths.

/// The timeout of the store's answer. A store that is gone refuses at once, and a slow one must not
/// delay a wait.
inline constexpr milliseconds store_answer_timeout = 2s;
/// The interval between checks for deaths while a key of a peer is awaited: a millisecond for each
/// rank, so that the store gets some 2000 requests a second, but at least this ...
inline constexpr milliseconds shortest_death_check_interval = 50ms;
/// ... and at most this.
inline constexpr milliseconds longest_death_check_interval = 500ms;
/// How long the creation of a group may continue after an announced stop, or after the beginning of
/// a later wait: peers that are alive and create the group too arrive within that time.
inline constexpr milliseconds creation_after_stop = 50ms;

// A thread's wait, as reported to a group's failure monitor.

/// A wait is reported only after this time: queries of an event or of NCCL usually end earlier, and
/// should wake no thread.
inline constexpr milliseconds slow_wait_after = 5ms;
/// A wait that is renewed at every check of NCCL's state and of steps counts as ended when it is
/// not renewed for this long. Well below `process_end_settle`, since an ended process is no loss
/// while no call waits.
inline constexpr milliseconds renewal_of_processes = 100ms;
/// The same for a wait that is renewed every `connection_check_interval`.
inline constexpr milliseconds renewal_of_reports = 500ms;

// A collective that is not done: between hosts.

/// How long a rank waits before it writes its current call and compares: calls take less time when
/// all is well.
inline constexpr milliseconds first_compare_after = 1s;
/// The interval between comparisons: short enough for a person, long enough for the store of
/// thousands of ranks.
inline constexpr milliseconds longest_compare_interval = 2s;
/// The interval between checks of connections and of the schedule above: a check polls each once.
inline constexpr milliseconds connection_check_interval = 200ms;
/// How long a peer's machine may leave questions unanswered: longer than a lost packet takes, and
/// longer than the lease of an agent, which ends the round first; much shorter than a group's
/// timeout.
inline constexpr milliseconds silent_machine_timeout = 15s;
/// The interval between questions to a machine that sends nothing.
inline constexpr milliseconds silent_machine_interval = 3s;
/// The time from a broken connection to an abort. A collective that the peer completed before it
/// left still ends, while its bytes are in flight; after this time it never ends.
inline constexpr milliseconds broken_connection_timeout = 5s;
/// Added for a wait for another host: ranks of one host find out which rank they wait for, and must
/// report it first.
inline constexpr milliseconds other_host_grace = 1s;
/// Added too when a rank waits for the leader of its own host, because the leader waits for other
/// hosts.
inline constexpr milliseconds leader_grace = 3s;
/// A rank that had reported waiting may lose its connections because it timed out: it breaks them
/// first and then writes the reason. The report of the reason is awaited for this time.
inline constexpr milliseconds reason_timeout = 1s;
/// The interval between checks for the report of a reason: short at first, since the report is
/// mostly there already.
inline constexpr milliseconds shortest_reason_interval = 20ms;
/// ... and at last five times a second.
inline constexpr milliseconds longest_reason_interval = 200ms;
/// The time to connect to all peers, which have already published their addresses.
inline constexpr milliseconds connect_timeout = 10s;
/// Added for each rank: one may have read all addresses when another has just begun to.
inline constexpr milliseconds connect_timeout_of_each = 10ms;
/// Polling of sockets before the first sleep, when recent polls have found nothing ...
inline constexpr microseconds shortest_wire_polling = 5us;
/// ... and when they have: a sleep and its wake-up take about as long.
inline constexpr microseconds longest_wire_polling = 100us;

// A collective that is not done: between GPUs.

/// How long to wait before the store is queried first: most waits have ended by then.
inline constexpr milliseconds first_report_check_after = 100ms;
/// The longest interval between such queries: hundreds of ranks may query.
inline constexpr milliseconds longest_report_interval = 1s;
/// The time from the end of a peer's process until the peer counts as lost: it may have completed
/// the last collective, and its data are in flight.
inline constexpr milliseconds process_end_settle = 250ms;
/// The time from a loss that NCCL reported to a PeerLost without a name. An agent or another rank
/// writes which rank it was, after `process_end_settle` on its own host and a read of the store.
inline constexpr milliseconds name_timeout = 1500ms;
/// The interval between checks for the name.
inline constexpr milliseconds name_check_interval = 10ms;
/// This many checks of processes are made before the search for a name ends: a slow store must not
/// be the only source.
inline constexpr int fewest_name_checks = process_end_settle / name_check_interval + 5;
/// With a shorter timeout than this there are no reports of other ranks to read, since a rank
/// reports its wait only after `first_compare_after`.
inline constexpr milliseconds shortest_named_timeout = 2s;
/// The interval between queries of a key that a peer will set: at first short, since the program
/// waits for the group.
inline constexpr milliseconds shortest_key_interval = 1ms;
/// ... and the longest: rare enough for one store and a thousand ranks.
inline constexpr milliseconds longest_key_interval = 50ms;
/// The timeout for reading a key that is known to exist.
inline constexpr milliseconds known_key_timeout = 10s;

// NCCL and the CUDA driver.

/// An abort takes NCCL some milliseconds; after this time the GPU or its driver is stuck.
inline constexpr milliseconds abort_timeout = 5s;
/// The timeout of an abort that may have to wait for a CUDA graph's end; the kernels were requested
/// to end before.
inline constexpr milliseconds abort_timeout_with_graphs = 1s;
/// The time to finalize and destroy a group that had no error: a peer may be gone, or busy.
inline constexpr milliseconds finalize_timeout = 10s;
/// The interval between checks of NCCL's asynchronous state: each takes NCCL's lock.
inline constexpr milliseconds nccl_state_interval = 5ms;
/// How long a launch waits for NCCL to enqueue the collective before: NCCL's thread ends soon
/// unless peers have to be connected, and then the launch must not wait.
inline constexpr milliseconds take_timeout = 5ms;
/// The interval between checks of steps that were enqueued without waiting: as for a sleeping
/// thread in shared memory.
inline constexpr milliseconds steps_check_interval = 10ms;
/// The interval between checks for a call that never returned: its limits are many seconds.
inline constexpr milliseconds hang_check_interval = 1s;
/// Polling an event without sleeping: a sleep takes some 60 us longer than requested.
inline constexpr milliseconds longest_spin = 3ms;
/// ... and the longest sleep between two polls after that.
inline constexpr microseconds longest_event_interval = 500us;

// The store's connections, and the store that rank 0 serves.

/// The time for one of several addresses, which may be of a run that has ended; afterwards the file
/// is read again.
inline constexpr milliseconds rendezvous_attempt_timeout = 300ms;
/// The pause between two attempts.
inline constexpr milliseconds rendezvous_attempt_interval = 50ms;
/// How long a server may neither answer nor refuse: its machine may have been stopped for a moment.
inline constexpr milliseconds silent_server_timeout = 3s;
/// How long rank 0, at its end, waits for ranks that have not joined yet.
inline constexpr milliseconds all_ranks_timeout = 10s;
/// How long the store's thread then waits for its connections to close.
inline constexpr milliseconds store_linger = 10s;
/// When there is no free descriptor, a connection is accepted only after this pause.
inline constexpr milliseconds accept_pause = 100ms;
/// The timeout of one reply: a store that is silent for a minute is gone, whatever a key's timeout
/// is.
inline constexpr milliseconds longest_reply = 1min;
/// The longest single poll, which takes an int of milliseconds; longer waits poll again.
inline constexpr milliseconds longest_store_poll = 1h;
/// The same for a socket that hands a descriptor over.
inline constexpr milliseconds longest_handover_poll = 1min;

}  // namespace ddprun::waiting_times
