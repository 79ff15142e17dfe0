// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/step_finder.hpp"

#include "rendezvous/base/log.hpp"

#include <sys/resource.h>

#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

Duration length_of(const timeval& time) {
    return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
}

Duration processor_time_of_thread() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return length_of(used.ru_utime) + length_of(used.ru_stime);
}

}  // namespace

StepFinder::StepFinder(
    const std::string& pattern,
    std::function<Instant()> now,
    std::function<void(std::uint64_t)> on_step)
    : now_(std::move(now)),
      on_step_(std::move(on_step)) {
    if (pattern.empty()) return;
    if (auto parsed = ProgressPattern::parse(pattern)) pattern_ = std::move(*parsed);
}

void StepFinder::begin_round() {
    reader_.reset();
    if (pattern_) reader_.emplace(*pattern_);
}

void StepFinder::read(std::string_view bytes) {
    if (!reader_ || reader_->is_off()) return;
    const auto before = processor_time_of_thread();
    const auto step = reader_->append(bytes);
    reader_->add_cost(processor_time_of_thread() - before, now_());
    if (step) on_step_(*step);
    if (reader_->is_off()) log::warning("progress.switched_off", {{"reason", reader_->why_off()}});
}

}  // namespace ddprun::agent
