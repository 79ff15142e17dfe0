// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of a simulated GPU: streams and events.
#include "tests/process/sdk/fake_gpu/engine.hpp"

using namespace fake_gpu;

namespace {

constexpr unsigned non_blocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr unsigned without_time = 2;  // CU_EVENT_DISABLE_TIMING

int with_event(void* handle, const std::function<int(Event&)>& body) {
    return in_context([&](Context&) -> int {
        auto* const event = Engine::only().events.find(handle);
        return event ? body(*event) : invalid_handle;
    });
}

/// Whether an event may be queried now.
int may_ask(const Event& event) {
    if (event.capture) return captured_event;
    return Engine::only().unless_capturing();
}

}  // namespace

extern "C" int fake_gpu_enqueue(void* stream, const Work* work) {
    return in_stream(
        stream, [&](Context&, Stream& into) { return Engine::only().enqueue(into, *work); });
}

extern "C" int cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
    return in_context([&](Context& context) {
        *stream = Engine::only().make_stream(context, (flags & non_blocking) == 0).get();
        return success;
    });
}

extern "C" int cuStreamCreate(void** stream, unsigned flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

extern "C" int cuStreamDestroy_v2(void* stream) {
    return in_context([&](Context&) { return Engine::only().destroy_stream(stream); });
}

extern "C" int cuStreamQuery(void* stream) {
    return in_stream(stream, [](Context&, Stream& asked) -> int {
        if (asked.capture) {
            asked.capture->is_invalid = true;
            return capture_unsupported;
        }
        if (const int status = Engine::only().unless_capturing()) return status;
        Engine::only().move();
        return asked.tasks.empty() ? success : not_ready;
    });
}

extern "C" int cuStreamSynchronize(void* stream) {
    const int status = cuStreamQuery(stream);
    if (status != not_ready) return status;
    std::shared_ptr<Moment> end;
    const int reached = in_stream(stream, [&](Context&, Stream& awaited) {
        end = Engine::only().reach(awaited);
        return success;
    });
    if (reached) return reached;
    return Engine::only().wait_until([&] { return end->has_come; });
}

extern "C" int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    return in_context([&](Context& context) -> int {
        auto* const waiting = stream ? Engine::only().find_stream(stream) : context.legacy.get();
        auto* const awaited = Engine::only().events.find(event);
        return waiting && awaited ? Engine::only().await(*waiting, *awaited) : invalid_handle;
    });
}

extern "C" int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
    return in_stream(stream, [&](Context&, Stream& into) {
        return Engine::only().enqueue(into, [=] {
            return [=] {
                function(argument);
                return true;
            };
        });
    });
}

extern "C" int cuEventCreate(void** event, unsigned flags) {
    return in_context([&](Context&) {
        auto made = std::make_shared<Event>();
        made->has_time = (flags & without_time) == 0;
        *event = Engine::only().events.add(std::move(made));
        return success;
    });
}

extern "C" int cuEventDestroy_v2(void* event) {
    return in_context(
        [&](Context&) { return Engine::only().events.take(event) ? success : invalid_handle; });
}

extern "C" int cuEventRecord(void* event, void* stream) {
    return in_stream(stream, [&](Context&, Stream& into) -> int {
        auto* const recorded = Engine::only().events.find(event);
        return recorded ? Engine::only().record(into, *recorded) : invalid_handle;
    });
}

extern "C" int cuEventQuery(void* event) {
    return with_event(event, [](Event& asked) -> int {
        if (const int status = may_ask(asked)) return status;
        Engine::only().move();
        return !asked.moment || asked.moment->has_come ? success : not_ready;
    });
}

extern "C" int cuEventSynchronize(void* event) {
    std::shared_ptr<Moment> awaited;
    const int status = with_event(event, [&](Event& asked) {
        awaited = asked.moment;
        return may_ask(asked);
    });
    if (status || !awaited) return status;
    return Engine::only().wait_until([&] { return awaited->has_come; });
}

extern "C" int cuEventElapsedTime_v2(float* milliseconds, void* from, void* to) {
    return with_event(from, [&](Event& first) -> int {
        auto* const last = Engine::only().events.find(to);
        if (!last || !first.has_time || !last->has_time) return invalid_handle;
        if (first.capture || last->capture) return captured_event;
        if (!first.moment || !last->moment) return invalid_handle;
        Engine::only().move();
        if (!first.moment->has_come || !last->moment->has_come) return not_ready;
        const auto elapsed = last->moment->time - first.moment->time;
        *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
        return success;
    });
}

extern "C" int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
    return cuEventElapsedTime_v2(milliseconds, from, to);
}
