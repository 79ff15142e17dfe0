// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// Every exit code of `ddprun`, and its meaning. Code that ends a job takes the number from here; a
/// test compares the table in docs/exit-codes.md with `table`.
///
/// A job that fails because of a worker ends with that worker's exit code, or `killed_by` its
/// signal. So any number not listed here has the meaning that the worker's program gives it.
namespace ddprun::exit_codes {

inline constexpr int success = 0;
inline constexpr int internal_error = 1;
inline constexpr int usage = 2;
inline constexpr int too_few_nodes = 80;
inline constexpr int server_gone = 81;
inline constexpr int node_lost = 82;
inline constexpr int refused = 83;
inline constexpr int crash_loop = 84;
inline constexpr int drained = 85;
inline constexpr int saved = 86;
inline constexpr int no_progress = 87;
inline constexpr int hung = 88;
inline constexpr int unfit = 89;
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;
/// The worker failed without an exit code: it could not be started, or could not connect.
inline constexpr int failed = 1;

/// The `$?` of a process that a signal ended.
constexpr int killed_by(int signal) {
    return 128 + signal;
}

/// The exit code that torchrun would use for the job: 1 for every failure.
constexpr int as_torchrun(int code) {
    return code == success ? success : failed;
}

struct Row {
    int code;
    std::string_view meaning;
};

inline constexpr Row table[] = {
    {success, "every worker exited 0"},
    {internal_error, "internal error; also when the agent was killed or past its fence"},
    {usage, "wrong use"},
    {too_few_nodes, "not enough nodes joined in time"},
    {server_gone, "the rendezvous server is gone, or was not reached before `join_timeout`"},
    {node_lost, "a node was lost and not replaced"},
    {refused, "refused by the server"},
    {crash_loop, "crash loop: nodes were lost again and again"},
    {drained, "this node was drained by `ddprunctl drain`; the job may go on without it"},
    {saved, "preempted: every rank saved the same step (`should_save`) before the job was stopped"},
    {no_progress, "too many rounds failed without a new step (`--stop-without-progress`)"},
    {hung, "the job hung, and no restart was left (`--on-hang=restart`)"},
    {unfit, "this node is unfit: its `--health-check` said so, or a GPU needs a reset (`--xid`)"},
    {not_executable, "the program cannot be executed"},
    {not_found, "the program was not found"},
    {killed_by(1), "stopped by SIGHUP"},
    {killed_by(2), "stopped by SIGINT"},
    {killed_by(3), "stopped by SIGQUIT"},
    {killed_by(10), "stopped by SIGUSR1, if `--signals-to-handle` names it; any other likewise"},
    {killed_by(15), "stopped by SIGTERM"},
};

}  // namespace ddprun::exit_codes
