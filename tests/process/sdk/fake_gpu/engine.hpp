// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/sdk/fake_gpu/stream.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace fake_gpu {

/// The codes of cuda.h that are returned here.
enum Status : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    deinitialized = 4,
    no_device = 100,
    invalid_device = 101,
    invalid_image = 200,
    invalid_context = 201,
    invalid_handle = 400,
    illegal_state = 401,
    not_found = 500,
    not_ready = 600,
    illegal_address = 700,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_merge = 902,
    capture_unmatched = 903,
    capture_unjoined = 904,
    capture_isolation = 905,
    capture_implicit = 906,
    captured_event = 907,
    capture_wrong_thread = 908,
};

/// A point in a stream, reached or not: the state of an event.
struct Moment {
    bool has_come = false;
    std::chrono::steady_clock::time_point time;
};

/// The nodes recorded by a capture; a graph. A lane is a stream of the capture.
struct Graph {
    enum class Kind { work, reach, await };
    struct Node {
        std::size_t lane;
        Kind kind;
        std::size_t moment;  ///< reach, await
        Work work;
    };
    std::vector<Node> nodes;
    std::size_t lanes = 0;
    std::size_t moments = 0;
};

enum class CaptureMode { global, of_thread, relaxed };

/// A capture in progress. A stream joins it by waiting for an event of it.
struct Capture {
    /// For each lane: how much of its work precedes this point.
    using Seen = std::vector<std::size_t>;

    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
    CaptureMode mode = CaptureMode::global;
    std::thread::id thread = std::this_thread::get_id();
    std::uint64_t number = 0;
    bool is_invalid = false;
    std::vector<Seen> seen{};

    std::size_t add_lane(Seen from);
    void add_work(std::size_t lane, Work work);
};

struct Context;

struct Stream {
    Context* context = nullptr;
    bool waits_for_legacy = false;  ///< not CU_STREAM_NON_BLOCKING
    bool is_destroyed = false;      ///< freed when it is empty
    std::deque<Task> tasks{};
    std::shared_ptr<Capture> capture{};
    std::size_t lane = 0;
};

struct Event {
    bool has_time = true;
    std::shared_ptr<Moment> moment{};  ///< null: not recorded
    /// Set when the event was recorded in a capture.
    std::shared_ptr<Capture> capture{};
    std::size_t captured_moment = 0;
    Capture::Seen seen{};
};

/// A device's primary context.
struct Context {
    int ordinal = 0;
    std::shared_ptr<Stream> legacy{};
};

/// Objects by the handles that programs hold.
template <class T>
class Handles {
public:
    void* add(std::shared_ptr<T> object) {
        void* const handle = object.get();
        all_[handle] = std::move(object);
        return handle;
    }
    /// Null: the handle is unknown.
    T* find(void* handle) const {
        const auto found = all_.find(handle);
        return found == all_.end() ? nullptr : found->second.get();
    }
    std::shared_ptr<T> take(void* handle) {
        const auto found = all_.find(handle);
        if (found == all_.end()) return nullptr;
        auto object = std::move(found->second);
        all_.erase(found);
        return object;
    }

private:
    std::map<void*, std::shared_ptr<T>> all_;
};

/// All streams of the process. Every function but `lock`, `start` and `wait_until` requires the
/// lock.
class Engine {
public:
    /// The only one; it is never destroyed.
    static Engine& only();

    /// Starts the thread that processes the streams, once.
    void start();
    std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

    std::shared_ptr<Stream> make_stream(Context& context, bool waits_for_legacy);
    /// Null: the handle is unknown.
    Stream* find_stream(void* handle);
    int destroy_stream(void* handle);

    /// Enqueues into the stream, or into the graph that it captures.
    int enqueue(Stream& stream, Work work);
    /// Always enqueues into the stream.
    void push(Stream& stream, Task task);
    int record(Stream& stream, Event& event);
    int await(Stream& stream, const Event& event);
    std::shared_ptr<Moment> reach(Stream& stream);
    void push_await(Stream& stream, std::shared_ptr<Moment> moment);

    int begin_capture(Stream& stream, CaptureMode mode);
    int end_capture(Stream& stream, std::shared_ptr<Graph>& graph);
    /// Called by functions that are not allowed during a capture: invalidates the capture.
    int unless_capturing();

    /// Runs all tasks that can run now.
    void move();
    bool is_idle(const Context& context);
    /// The process ends: no task runs any more.
    bool is_over() const { return is_over_; }
    /// Called after a kernel's illegal access: no task runs any more, and every call returns
    /// `failure`.
    void fail(Status failure) { failure_ = failure; }
    int failure() const { return failure_; }

    Handles<Event> events{};
    Handles<Graph> graphs{};

    /// Requires: no lock. Waits without a limit, or until a kernel has failed.
    template <class Condition>
    int wait_until(const Condition& condition) {
        for (;;) {
            {
                const auto held = lock();
                move();
                if (is_over_ || failure_ || condition()) return failure_;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    }

private:
    bool move_once();
    void go_through();
    int may_use(Stream& stream);
    void follow_legacy(Stream& stream);

    std::mutex mutex_;
    std::condition_variable more_;
    bool is_over_ = false;
    Status failure_ = success;
    std::vector<std::shared_ptr<Stream>> streams_;
    std::uint64_t captures_ = 0;
};

/// The current thread's contexts, the last one being current.
std::vector<Context*>& contexts_of_thread();
/// This thread's capture mode.
CaptureMode& mode_of_thread();

/// Calls `body` with the lock and the current context, or returns an error.
template <class Body>
int in_context(const Body& body) {
    auto& contexts = contexts_of_thread();
    if (contexts.empty() || !contexts.back()) return invalid_context;
    const auto held = Engine::only().lock();
    if (Engine::only().is_over()) return deinitialized;
    if (const int failure = Engine::only().failure()) return failure;
    return body(*contexts.back());
}

/// The same, with a stream of that context too.
template <class Body>
int in_stream(void* handle, const Body& body) {
    return in_context([&](Context& context) {
        auto* const stream = handle ? Engine::only().find_stream(handle) : context.legacy.get();
        if (!stream) return static_cast<int>(invalid_handle);
        if (stream->context != &context) return static_cast<int>(invalid_context);
        return static_cast<int>(body(context, *stream));
    });
}

}  // namespace fake_gpu
