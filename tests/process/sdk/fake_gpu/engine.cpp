// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/fake_gpu/engine.hpp"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>

namespace fake_gpu {

namespace {

using Kind = Graph::Kind;

void spoil(Capture& capture) {
    capture.is_invalid = true;
}

/// Keeps the larger value at every index.
void merge(Capture::Seen& into, const Capture::Seen& other) {
    into.resize(std::max(into.size(), other.size()));
    for (std::size_t lane = 0; lane < other.size(); ++lane)
        into[lane] = std::max(into[lane], other[lane]);
}

bool has_come(const std::shared_ptr<Moment>& moment) {
    return !moment || moment->has_come;
}

Task reach_task(std::shared_ptr<Moment> moment) {
    return [moment = std::move(moment)] {
        moment->has_come = true;
        moment->time = std::chrono::steady_clock::now();
        return true;
    };
}

Task await_task(std::shared_ptr<Moment> moment) {
    return [moment = std::move(moment)] { return has_come(moment); };
}

}  // namespace

std::size_t Capture::add_lane(Seen from) {
    seen.push_back(std::move(from));
    return graph->lanes++;
}

void Capture::add_work(std::size_t lane, Work work) {
    graph->nodes.push_back({lane, Kind::work, 0, std::move(work)});
    auto& own = seen[lane];
    own.resize(std::max(own.size(), lane + 1));
    ++own[lane];
}

Engine& Engine::only() {
    static auto* const engine = new Engine;
    return *engine;
}

std::vector<Context*>& contexts_of_thread() {
    static thread_local std::vector<Context*> contexts;
    return contexts;
}

CaptureMode& mode_of_thread() {
    static thread_local CaptureMode mode = CaptureMode::global;
    return mode;
}

/// The thread blocks signals, which are for the program's threads. It stops at the end of the
/// process, when its data is destroyed.
void Engine::start() {
    static const bool once = [this] {
        sigset_t all;
        sigset_t before;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before);
        std::thread([this] { go_through(); }).detach();
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        ::atexit([] {
            auto& engine = only();
            const auto held = engine.lock();
            engine.is_over_ = true;
        });
        return true;
    }();
    static_cast<void>(once);
}

void Engine::go_through() {
    auto held = lock();
    for (;;) {
        const auto has_work = [&] {
            return std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) {
                return !stream->tasks.empty();
            });
        };
        more_.wait(held, has_work);
        if (!is_over_ && move_once()) continue;
        more_.wait_for(held, std::chrono::microseconds(100));
    }
}

std::shared_ptr<Stream> Engine::make_stream(Context& context, bool waits_for_legacy) {
    auto stream = std::make_shared<Stream>();
    stream->context = &context;
    stream->waits_for_legacy = waits_for_legacy;
    streams_.push_back(stream);
    return stream;
}

Stream* Engine::find_stream(void* handle) {
    for (const auto& stream : streams_)
        if (stream.get() == handle && !stream->is_destroyed) return stream.get();
    return nullptr;
}

int Engine::destroy_stream(void* handle) {
    auto* const stream = find_stream(handle);
    if (!stream) return invalid_handle;
    stream->is_destroyed = true;
    if (stream->capture) spoil(*stream->capture);
    move();
    return success;
}

bool Engine::move_once() {
    bool has_moved = false;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        auto& tasks = streams_[i]->tasks;
        while (!failure_ && !tasks.empty() && tasks.front()()) {
            tasks.pop_front();
            has_moved = true;
        }
    }
    std::erase_if(
        streams_, [](const auto& stream) { return stream->is_destroyed && stream->tasks.empty(); });
    return has_moved;
}

void Engine::move() {
    while (!is_over_ && move_once()) {
    }
}

bool Engine::is_idle(const Context& context) {
    return std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
        return stream->context != &context || stream->tasks.empty();
    });
}

/// The legacy stream waits for all blocking streams, and they wait for it.
void Engine::follow_legacy(Stream& stream) {
    auto& legacy = stream.context->legacy;
    if (stream.waits_for_legacy && !legacy->tasks.empty()) push_await(stream, reach(*legacy));
    if (&stream != legacy.get()) return;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        auto& other = *streams_[i];
        const bool counts = other.waits_for_legacy && other.context == stream.context;
        if (counts && !other.tasks.empty()) push_await(stream, reach(other));
    }
}

int Engine::may_use(Stream& stream) {
    if (stream.capture) return stream.capture->is_invalid ? capture_invalidated : success;
    if (&stream != stream.context->legacy.get()) return success;
    for (const auto& other : streams_) {
        if (!other->waits_for_legacy || !other->capture || other->context != stream.context)
            continue;
        spoil(*other->capture);
        return capture_implicit;
    }
    return success;
}

int Engine::enqueue(Stream& stream, Work work) {
    if (const int status = may_use(stream)) return status;
    if (stream.capture) {
        stream.capture->add_work(stream.lane, std::move(work));
        return success;
    }
    follow_legacy(stream);
    push(stream, work());
    return success;
}

void Engine::push(Stream& stream, Task task) {
    stream.tasks.push_back(std::move(task));
    more_.notify_one();
}

std::shared_ptr<Moment> Engine::reach(Stream& stream) {
    auto moment = std::make_shared<Moment>();
    push(stream, reach_task(moment));
    return moment;
}

void Engine::push_await(Stream& stream, std::shared_ptr<Moment> moment) {
    push(stream, await_task(std::move(moment)));
}

int Engine::record(Stream& stream, Event& event) {
    if (const int status = may_use(stream)) return status;
    event.moment.reset();
    event.capture = stream.capture;
    if (!stream.capture) {
        follow_legacy(stream);
        event.moment = reach(stream);
        return success;
    }
    auto& graph = *stream.capture->graph;
    event.captured_moment = graph.moments++;
    event.seen = stream.capture->seen[stream.lane];
    graph.nodes.push_back({stream.lane, Kind::reach, event.captured_moment, {}});
    return success;
}

int Engine::await(Stream& stream, const Event& event) {
    if (const int status = may_use(stream)) return status;
    if (!event.capture && !event.moment) return success;
    if (!event.capture && !stream.capture) {
        push_await(stream, event.moment);
        return success;
    }
    if (!event.capture || (stream.capture && event.capture != stream.capture)) {
        spoil(*stream.capture);
        return event.capture ? capture_merge : capture_isolation;
    }
    if (event.capture->is_invalid) return capture_invalidated;
    if (!event.capture->graph) return captured_event;
    if (!stream.capture) {
        stream.capture = event.capture;
        stream.lane = stream.capture->add_lane({});
    }
    auto& capture = *stream.capture;
    merge(capture.seen[stream.lane], event.seen);
    capture.graph->nodes.push_back({stream.lane, Kind::await, event.captured_moment, {}});
    return success;
}

int Engine::begin_capture(Stream& stream, CaptureMode mode) {
    if (&stream == stream.context->legacy.get()) return capture_unsupported;
    if (stream.capture) return illegal_state;
    stream.capture = std::make_shared<Capture>();
    stream.capture->mode = mode;
    stream.capture->number = ++captures_;
    stream.lane = stream.capture->add_lane({});
    return success;
}

/// The capture ends for all its streams, valid or not.
int Engine::end_capture(Stream& stream, std::shared_ptr<Graph>& graph) {
    if (!stream.capture) return illegal_state;
    const auto capture = stream.capture;
    if (stream.lane != 0) return capture_unmatched;
    if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id())
        return capture_wrong_thread;
    for (const auto& other : streams_)
        if (other->capture == capture) other->capture.reset();
    graph = std::move(capture->graph);
    capture->graph.reset();
    if (capture->is_invalid) return capture_invalidated;
    auto known = capture->seen[0];
    known.resize(capture->seen.size());
    for (std::size_t lane = 0; lane < capture->seen.size(); ++lane) {
        const auto& own = capture->seen[lane];
        if (lane < own.size() && own[lane] > known[lane]) return capture_unjoined;
    }
    return success;
}

int Engine::unless_capturing() {
    const auto careful = mode_of_thread();
    if (careful == CaptureMode::relaxed) return success;
    for (const auto& stream : streams_) {
        if (!stream->capture || stream->capture->is_invalid) continue;
        auto& capture = *stream->capture;
        const bool is_own = capture.thread == std::this_thread::get_id();
        const bool forbids =
            is_own ? capture.mode != CaptureMode::relaxed
                   : capture.mode == CaptureMode::global && careful == CaptureMode::global;
        if (!forbids) continue;
        spoil(capture);
        return capture_unsupported;
    }
    return success;
}

}  // namespace fake_gpu
