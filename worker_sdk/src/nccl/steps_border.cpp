// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/nccl/steps_border.hpp"

#include "worker_sdk/src/nccl/report.hpp"
#include "worker_sdk/src/nccl/steps.hpp"

#include <memory>
#include <variant>

namespace ddprun::nccl {

namespace {

using groups::GroupError;

Steps& of(void* steps) {
    return *static_cast<Steps*>(steps);
}

Steps::Pointer on_device(const void* pointer) {
    return reinterpret_cast<Steps::Pointer>(pointer);
}

void* open(void* session, DdprunReport* report) {
    return guarded(report, static_cast<void*>(nullptr), [&]() -> std::variant<Steps*, GroupError> {
        auto steps = Steps::open(*static_cast<Session*>(session));
        if (auto* error = std::get_if<GroupError>(&steps)) return *error;
        return std::get<std::unique_ptr<Steps>>(steps).release();
    });
}

void close(void* steps) {
    delete &of(steps);
}

void get_words(void* steps, DdprunStepWords* words) {
    *words = of(steps).words();
}

int zero(void* steps, void* stream, void* data, std::size_t bytes, DdprunReport* report) {
    return told(report, [&] { return of(steps).zero(stream, on_device(data), bytes); });
}

int copy(
    void* steps,
    void* stream,
    void* to,
    const void* from,
    std::size_t bytes,
    DdprunReport* report) {
    return told(
        report, [&] { return of(steps).copy(stream, on_device(to), on_device(from), bytes); });
}

int reduce(
    void* steps,
    void* stream,
    const DdprunCollective* collective,
    float* values,
    DdprunReport* report) {
    return told(report, [&] { return of(steps).reduce(stream, *collective, on_device(values)); });
}

int finish(void* steps, void* stream, DdprunReport* report) {
    return told(report, [&] { return of(steps).finish(stream); });
}

int clip(
    void* steps,
    void* stream,
    float* values,
    std::size_t count,
    float max_norm,
    DdprunReport* report) {
    return told(report, [&] { return of(steps).clip(stream, on_device(values), count, max_norm); });
}

int end(void* steps, void* stream, DdprunReport* report) {
    return told(report, [&] { return of(steps).end(stream); });
}

int replay(
    void* steps, void* stream, void (*launch)(void* self), void* self, DdprunReport* report) {
    return told(report, [&] { return of(steps).replay(stream, launch, self); });
}

int await(void* steps, void* stream, DdprunReport* report) {
    return told(report, [&] { return of(steps).await(stream); });
}

int read(
    void* steps,
    void* stream,
    void* to,
    const void* from,
    std::size_t bytes,
    DdprunReport* report) {
    return told(report, [&] { return of(steps).read(stream, to, on_device(from), bytes); });
}

int is_capturing(void* steps, void* stream) {
    return of(steps).is_capturing(stream) ? 1 : 0;
}

int enroll(void* steps, void* data, std::size_t bytes) {
    return of(steps).enroll(data, bytes) ? 1 : 0;
}

void dismiss(void* steps) {
    of(steps).dismiss();
}

}  // namespace

DdprunDeviceSteps steps_border() {
    return {
        open,
        close,
        get_words,
        zero,
        copy,
        reduce,
        finish,
        clip,
        end,
        replay,
        await,
        read,
        is_capturing,
        enroll,
        dismiss};
}

}  // namespace ddprun::nccl
