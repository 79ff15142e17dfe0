// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/communicators.hpp"

#include "rendezvous/base/signal_masked_thread.hpp"
#include "worker_sdk/src/transports/nccl/end_process.hpp"
#include "worker_sdk/src/waiting_times.hpp"

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

namespace ddprun::nccl {

namespace {

using namespace std::chrono_literals;
using abi::Result;
using groups::GroupError;
using groups::Outcome;

bool is_fine(Result result) {
    return result == Result::success || result == Result::in_progress;
}

}  // namespace

Communicators::Communicators(const NcclFunctions& nccl, Settings settings)
    : nccl_(nccl),
      settings_(std::move(settings)),
      abort_timeout_(settings_.abort_timeout) {}

Communicators::~Communicators() {
    if (finalizer_.joinable()) finalizer_.join();
    if (aborter_.joinable()) aborter_.join();
}

bool Communicators::end() {
    if (!is_aborted_ && !comms_.empty() && !finalize()) abort();
    if (!is_aborted_ || has_abort_come_back()) return true;
    std::fprintf(
        stderr,
        "ddprun: NCCL keeps what an ended group had on the GPU, since a CUDA graph that was "
        "captured with the group still exists: destroy graphs before the group\n");
    if (is_finalize_over() && finalizer_.joinable())
        finalizer_.join();  // otherwise this object is kept until the process ends
    return false;
}

bool Communicators::is_finalize_over() {
    const std::lock_guard lock(abort_mutex_);
    return is_clean_.has_value();
}

bool Communicators::has_abort_come_back() {
    std::unique_lock lock(abort_mutex_);
    return abort_ended_.wait_for(lock, settings_.abort_timeout, [&] { return has_abort_ended_; });
}

std::variant<Communicators::Comm, GroupError> Communicators::join(
    std::vector<abi::UniqueId> ids,
    int rank,
    int world_size,
    int most_ctas,
    const Deadline& deadline) {
    abi::Config config;
    if (most_ctas > 0) config.max_ctas = most_ctas;
    Comm comm = nullptr;
    auto result = Result::success;
    {
        const SignalsMasked masked;  // NCCL starts permanent threads here
        const std::lock_guard lock(mutex_);
        if (is_aborted_) return aborted();
        result =
            ids.size() == 1
                ? nccl_.comm_init_rank_config(&comm, world_size, ids.front(), rank, &config)
                : nccl_.comm_init_rank_scalable(
                      &comm, world_size, rank, static_cast<int>(ids.size()), ids.data(), &config);
        if (comm) comms_.push_back(comm);
    }
    if (!is_fine(result)) return error_of(result);
    auto outcome = await_ready(comm, deadline);
    if (outcome) return *outcome;
    return comm;
}

std::variant<Communicators::Comm, GroupError> Communicators::split(
    Comm comm, int color, int key, const Deadline& deadline) {
    abi::Config config;
    const auto calls = [&] {
        const SignalsMasked masked;
        return nccl_.comm_split(comm, color, key, &part_, &config);
    };
    if (auto error = call(comm, calls, deadline)) return *error;
    const std::lock_guard lock(mutex_);
    if (is_aborted_) return aborted();
    comms_.push_back(part_);
    return std::exchange(part_, nullptr);
}

std::variant<Communicators::Comm, GroupError> Communicators::adopt(
    Communicators& from, Comm part, const Deadline& deadline) {
    {
        const std::scoped_lock lock(mutex_, from.mutex_);
        if (!from.remove(part)) return aborted();
        comms_.push_back(part);
    }
    if (auto error = await_ready(part, deadline)) return *error;
    return part;
}

void Communicators::drop(Comm part) {
    const std::lock_guard lock(mutex_);
    if (remove(part)) nccl_.comm_abort(part);
}

/// Returns false when an abort has taken the communicator. Requires: the mutex is held.
bool Communicators::remove(Comm comm) {
    const auto found = std::find(comms_.begin(), comms_.end(), comm);
    if (found == comms_.end()) return false;
    comms_.erase(found);
    return true;
}

Outcome Communicators::call(
    Comm comm, const std::function<Result()>& calls, const Deadline& deadline) {
    // NCCL may not have enqueued another thread's call yet.
    if (auto error = await_ready(comm, deadline)) return error;
    if (auto error = begin_call(calls)) return error;
    return await_ready(comm, deadline);
}

Outcome Communicators::begin_call(const std::function<Result()>& calls) {
    auto result = Result::success;
    {
        const std::lock_guard lock(mutex_);
        if (is_aborted_) return aborted();
        result = calls();
    }
    if (is_fine(result)) return {};
    return error_of(result);
}

Outcome Communicators::launch(const std::function<Outcome()>& body) {
    if (is_aborted_) return aborted();
    return body();
}

Outcome Communicators::await_ready(Comm comm, const Deadline& deadline) {
    for (Pause pause;; pause.take()) {
        const auto result = state(comm);
        if (result == Result::success) return {};
        if (deadline.is_cancelled() || is_aborted_) return aborted();
        if (!is_fine(result)) return error_of(result);
        if (Clock::now() >= deadline.until)
            return GroupError{
                GroupError::Kind::timeout, "NCCL was not ready when the time was over"};
    }
}

Result Communicators::state(Comm comm) {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) return Result::remote_error;
    auto state = Result::success;
    const auto asked = nccl_.comm_get_async_error(comm, &state);
    return asked == Result::success ? state : asked;
}

GroupError Communicators::error_of(Result result) {
    auto text = nccl_.describe(result);
    if (result == Result::remote_error)
        return {GroupError::Kind::peer_lost, "lost a peer: " + text};
    if (text.find("Duplicate GPU") != std::string::npos)
        text += "; let ranks share a GPU, for tests, with --share-gpu";
    return {GroupError::Kind::other, text};
}

void Communicators::abort() {
    const auto timeout = abort_timeout();
    std::unique_lock lock(abort_mutex_);
    if (!is_aborted_.exchange(true)) {
        abort_began_at_ = Clock::now();
        settings_.before_abort();
        try {
            aborter_ = start_signal_masked_thread([this] { abort_all(); });
        } catch (const std::system_error&) {  // no thread: aborts here, without a deadline
            lock.unlock();
            abort_all();
            lock.lock();
        }
    }
    const bool is_captured = is_captured_;
    const auto wait = is_captured ? std::min<std::chrono::milliseconds>(
                                        timeout, waiting_times::abort_timeout_with_graphs)
                                  : timeout;
    const auto until = abort_began_at_ + wait;
    if (abort_ended_.wait_until(lock, until, [&] { return has_abort_ended_; }) || is_captured)
        return;
    end_process(
        "NCCL's abort did not return within " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
        " s: the GPU, or a kernel on it, is stuck; this process ends so that the launcher can "
        "start another");
}

/// Aborts all in one NCCL group: an abort frees memory, which waits for the kernels of all other
/// communicators. Does not hold the mutex, since an abort may take long; other calls fail meanwhile
/// because all communicators are aborted.
void Communicators::abort_all() {
    settings_.on_device([&] {
        const auto comms = [&] {
            const std::lock_guard lock(mutex_);
            return std::exchange(comms_, {});
        }();
        const bool is_group = comms.size() > 1;
        if (is_group) nccl_.group_start();
        for (const auto comm : comms)
            nccl_.comm_abort(comm);
        if (is_group) nccl_.group_end();
        const auto part = [&] {
            const std::lock_guard lock(mutex_);
            return std::exchange(part_, nullptr);
        }();
        if (part) nccl_.comm_abort(part);
    });
    const std::lock_guard lock(abort_mutex_);
    has_abort_ended_ = true;
    abort_ended_.notify_all();
}

/// Returns false when the communicators have to be aborted. Runs in its own thread, since a call
/// that never returns would otherwise keep the program from ending.
bool Communicators::finalize() {
    const auto body = [this] {
        bool is_clean = false;
        settings_.on_device([&] {
            is_clean = finalize_all();
            if (is_clean) destroy_all();
        });
        const std::lock_guard lock(abort_mutex_);
        is_clean_ = is_clean;
        finalized_.notify_all();
    };
    try {
        finalizer_ = start_signal_masked_thread(body);
    } catch (const std::system_error&) {
        body();  // the body has a deadline; only a call that never returns is not bounded
    }
    std::unique_lock lock(abort_mutex_);
    finalized_.wait_for(
        lock, waiting_times::finalize_timeout, [&] { return is_clean_.has_value(); });
    return is_clean_.value_or(false);
}

/// Finalizes all at once, since each finalize waits for its peers, which may finalize in another
/// order.
bool Communicators::finalize_all() {
    const Deadline deadline{Clock::now() + waiting_times::finalize_timeout, [] { return false; }};
    const auto comms = [&] {
        const std::lock_guard lock(mutex_);
        return comms_;
    }();
    for (const auto comm : comms) {
        const std::lock_guard lock(mutex_);
        if (is_aborted_ || !is_fine(nccl_.comm_finalize(comm))) return false;
    }
    return std::all_of(
        comms.begin(), comms.end(), [&](Comm comm) { return !await_ready(comm, deadline); });
}

/// Destroys all in one NCCL group, as in `abort_all`. After a failed destroy no other call is
/// possible on a communicator, not even an abort.
void Communicators::destroy_all() {
    const std::lock_guard lock(mutex_);
    const bool is_group = comms_.size() > 1;
    if (is_group) nccl_.group_start();
    for (const auto comm : std::exchange(comms_, {}))
        nccl_.comm_destroy(comm);
    if (is_group) nccl_.group_end();
}

}  // namespace ddprun::nccl
