// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/transports/nccl/steps.hpp"

#include <string.h>

#include <atomic>
#include <utility>

namespace ddprun::nccl {

namespace {

using abi::Result;
using groups::GroupError;
using groups::Outcome;

/// The layout of the step's memory on the device, each value on its own cache line.
constexpr DriverFunctions::DevicePointer commit_at = 0;
constexpr DriverFunctions::DevicePointer norm_at = 128;
constexpr DriverFunctions::DevicePointer count_at = 256;
constexpr DriverFunctions::DevicePointer sums_at = 384;
constexpr std::size_t staging_bytes = std::size_t{1} << 20;

}  // namespace

std::variant<std::unique_ptr<Steps>, GroupError> Steps::open(Session& session) {
    const OnDevice here(session.device());
    if (auto error = session.why_aborted()) return *error;
    auto kernels = DeviceKernels::load(session.device());
    if (auto* error = std::get_if<GroupError>(&kernels)) return *error;
    auto steps = std::make_unique<Steps>(session, std::get<DeviceKernels>(kernels));
    if (auto error = steps->start()) return *error;
    return steps;
}

Steps::Steps(Session& session, const DeviceKernels& kernels)
    : session_(session),
      kernels_(kernels),
      driver_(session.device().driver()),
      queue_(session.device()) {}

Outcome Steps::start() {
    if (queue_.error()) return queue_.error();
    session_.note_own_work();
    const auto bytes = sums_at + DeviceKernels::sums_bytes();
    if (const auto status = driver_.memory_allocate(&memory_, bytes)) return outcome_of(status);
    if (const auto status = driver_.memory_set(memory_, 0, bytes, queue_.stream()))
        return outcome_of(status);
    counter_.emplace(session_.device(), sizeof(std::uint64_t));
    staging_.emplace(session_.device(), staging_bytes);
    for (const auto status : {counter_->status(), staging_->status()})
        if (status != 0) return outcome_of(status);
    if (const auto status = driver_.event_create(&awaited_, event_without_time))
        return outcome_of(status);
    for (auto& event : ends_)
        if (const auto status = driver_.event_create(&event, event_without_time))
            return outcome_of(status);
    watchdog_.emplace(
        session_.device(),
        Watchdog::Settings{
            session_.timeout(),
            [this] { return session_.look(); },
            [this](GroupError error) { session_.abort(std::move(error)); }});
    if (watchdog_->cannot_begin()) return watchdog_->cannot_begin();
    // Nothing is reduced in a world of one, so the word keeps this value.
    if (const auto status =
            kernels_.latch(memory_ + commit_at, session_.valid_flag(), queue_.stream()))
        return outcome_of(status);
    return await(queue_.stream());
}

Steps::~Steps() {
    const OnDevice here(session_.device());
    if (watchdog_) {
        await_until([&] { return watchdog_->is_over(); });
        for (const auto end : ends_)
            for (Pause pause; !has_ended(end); pause.take()) {
            }
    }
    deregister_memory();
    watchdog_.reset();
    for (const auto event : ends_)
        if (event) driver_.event_destroy(event);
    if (awaited_) driver_.event_destroy(awaited_);
    if (memory_) driver_.memory_free(memory_);
}

const std::uint32_t* Steps::commit_word() const {
    return reinterpret_cast<const std::uint32_t*>(memory_ + commit_at);
}

const float* Steps::norm() const {
    return reinterpret_cast<const float*>(memory_ + norm_at);
}

/// Written by the device.
std::uint64_t Steps::committed_count() const {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(counter_->data())->load();
}

Outcome Steps::zero(Stream program, Pointer data, std::size_t bytes) {
    const Session::Enqueuing now(session_);
    return outcome_of(driver_.memory_set(data, 0, bytes, program));
}

Outcome Steps::copy(Stream program, Pointer to, Pointer from, std::size_t bytes) {
    const Session::Enqueuing now(session_);
    return outcome_of(driver_.copy_on_device(to, from, bytes, program));
}

Outcome Steps::reduce(Stream program, const groups::Collective& collective, Pointer values) {
    const Session::Enqueuing now(session_);
    const bool is_captured = is_capturing(program);
    if (is_captured) session_.communicators().note_capture();
    if (const auto status = queue_.follow(program)) return outcome_of(status);
    has_reduced_ = true;
    const auto type = collective.type;
    const auto wire = reinterpret_cast<Pointer>(collective.data);
    const auto target = session_.target(queue_.stream());
    const auto part = 1.0F / static_cast<float>(target.world_size);
    if (values)
        if (const auto status =
                kernels_.compress(type, wire, values, collective.count, part, queue_.stream()))
            return outcome_of(status);
    if (auto error = session_.communicators().call(
            target.comm, [&] { return enqueue(target, collective, nullptr); }, session_.deadline()))
        return error;
    if (values)
        if (const auto status =
                kernels_.expand(type, values, wire, collective.count, queue_.stream()))
            return outcome_of(status);
    if (is_captured) return {};
    return outcome_of(watchdog_->watch(queue_.stream()));
}

Outcome Steps::finish(Stream program) {
    if (auto error = latch(program)) return error;
    const OnDevice here(session_.device());
    if (is_capturing(program)) return {};
    if (auto error = await_slot()) return error;
    return outcome_of(driver_.event_record(ends_[next_end_++ % most_ahead], program));
}

Outcome Steps::latch(Stream program) {
    if (!std::exchange(has_reduced_, false)) return session_.why_aborted();
    const Session::Enqueuing now(session_);
    if (const auto status = queue_.precede(program)) return outcome_of(status);
    return outcome_of(kernels_.latch(memory_ + commit_at, session_.valid_flag(), program));
}

Outcome Steps::clip(Stream program, Pointer values, std::size_t count, float max_norm) {
    const Session::Enqueuing now(session_);
    return outcome_of(
        kernels_.clip(values, count, max_norm, memory_ + sums_at, memory_ + norm_at, program));
}

Outcome Steps::end(Stream program) {
    const OnDevice here(session_.device());
    if (const auto status = kernels_.count_step(
            memory_ + commit_at, memory_ + count_at, counter_->on_device(), program))
        return outcome_of(status);
    if (is_capturing(program)) return {};
    return outcome_of(driver_.event_record(ends_[(next_end_ - 1) % most_ahead], program));
}

Outcome Steps::replay(Stream program, const std::function<void()>& launch) {
    {
        const OnDevice here(session_.device());
        if (auto error = await_slot()) return error;
    }
    const Session::Enqueuing now(session_);
    return session_.communicators().launch([&]() -> Outcome {
        launch();
        if (const auto status = watchdog_->watch(program)) return outcome_of(status);
        return outcome_of(driver_.event_record(ends_[next_end_++ % most_ahead], program));
    });
}

/// The watchdog does not watch this: the program's other work in this stream has no time limit.
Outcome Steps::await(Stream program) {
    const OnDevice here(session_.device());
    if (const auto status = driver_.event_record(awaited_, program)) return outcome_of(status);
    return await_event(awaited_);
}

Outcome Steps::read(Stream program, void* to, Pointer from, std::size_t bytes) {
    const OnDevice here(session_.device());
    if (auto error = await(program)) return error;
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
        const auto size = std::min(bytes, staging_bytes);
        if (const auto status = driver_.copy_to_host(staging_->data(), from, size, queue_.stream()))
            return outcome_of(status);
        if (auto error = await(queue_.stream())) return error;
        ::memcpy(at, staging_->data(), size);
        at += size;
        from += size;
        bytes -= size;
    }
    return {};
}

bool Steps::is_capturing(Stream program) const {
    const OnDevice here(session_.device());
    return session_.device().is_capturing(program);
}

bool Steps::register_memory(void* data, std::size_t bytes) {
    const auto& nccl = session_.nccl();
    if (!nccl.comm_register || !nccl.comm_deregister || bytes == 0) return false;
    const Session::Enqueuing now(session_);
    void* handle = nullptr;
    const auto comm = session_.of_all();
    auto error = session_.communicators().call(
        comm, [&] { return nccl.comm_register(comm, data, bytes, &handle); }, session_.deadline());
    if (error) return false;
    if (handle) registered_.push_back(handle);
    return handle != nullptr;
}

void Steps::deregister_memory() {
    const Session::Enqueuing now(session_);
    const auto comm = session_.of_all();
    for (void* const handle : std::exchange(registered_, {}))
        session_.communicators().call(
            comm,
            [&] { return session_.nccl().comm_deregister(comm, handle); },
            session_.deadline());
}

/// The session's error has precedence: the calls that it ends fail with other errors.
Outcome Steps::outcome_of(Status status) const {
    if (auto error = session_.why_aborted()) return error;
    if (status == 0) return {};
    return session_.device().error(status);
}

Outcome Steps::await_slot() {
    return await_event(ends_[next_end_ % most_ahead]);
}

/// The watchdog makes sure that this ends. After an abort the reducer's work must end soon. Other
/// work in the program's stream is awaited too, since the memory is read next, but no longer than
/// the timeout of a collective.
template <class IsOver>
Outcome Steps::await_until(const IsOver& is_over) {
    for (Pause pause; !is_over(); pause.take()) {
        if (!session_.why_aborted()) continue;
        session_.await_idle([&] { return !watchdog_ || watchdog_->is_over(); });
        const auto until = Clock::now() + session_.abort_timeout();
        for (Pause more; !is_over() && Clock::now() < until; more.take()) {
        }
        break;
    }
    return session_.why_aborted();
}

/// After a failure on the device its work has ended, but was not completed.
Outcome Steps::await_event(DriverFunctions::Event event) {
    if (auto error = await_until([&] { return has_ended(event); })) return error;
    return outcome_of(driver_.event_query(event));
}

bool Steps::has_ended(DriverFunctions::Event event) const {
    return driver_.event_query(event) != DriverFunctions::not_ready;
}

}  // namespace ddprun::nccl
