// SPDX-License-Identifier: Apache-2.0
#include "agent/health/classify.hpp"

#include "agent/health/waiting_functions.hpp"
#include "agent/report/printable.hpp"
#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace ddprun::agent::health {
namespace {

using control::Activity;

constexpr std::size_t most_site_bytes = 200;
constexpr std::size_t most_detail_bytes = 400;

const PythonThread* thread_of(const Sample& sample, int tid) {
    const auto thread =
        std::find_if(sample.threads.begin(), sample.threads.end(), [&](const PythonThread& each) {
            return each.tid == tid;
        });
    return thread == sample.threads.end() ? nullptr : &*thread;
}

/// A loop that is found in the same call each time has still run in between, unlike a single call.
bool has_moved(const PythonThread& before, const PythonThread& after, Duration between) {
    if (before.instruction != after.instruction) return true;
    if (!before.run_time || !after.run_time) return false;
    const auto share = in_seconds(*after.run_time - *before.run_time) / in_seconds(between);
    return share > limits::still_share && share < limits::spinning_share;
}

/// The thread that represents the process, in both samples; without Python frames none.
struct Subject {
    const PythonThread* before = nullptr;
    const PythonThread* after = nullptr;
    Duration between{};

    bool is_known() const { return after != nullptr && !after->frames.empty(); }
    bool has_moved() const {
        return is_known() && (before == nullptr || health::has_moved(*before, *after, between));
    }
};

/// A thread that executes the user's code, preferably one that moves.
Subject working_thread(const Sample& before, const Sample& after, const Subject& main) {
    Subject chosen = main;
    for (const auto& thread : after.threads) {
        if (&thread == main.after || user_frame(thread.frames) == nullptr) continue;
        const Subject other{thread_of(before, thread.tid), &thread, main.between};
        if (chosen.after == main.after || (other.has_moved() && !chosen.has_moved()))
            chosen = other;
    }
    return chosen;
}

Subject subject_of(const Sample& before, const Sample& after, Duration between) {
    const Subject main{thread_of(before, before.pid), thread_of(after, after.pid), between};
    if (!main.is_known() || main.has_moved() || !waits_for_thread(main.after->frames)) return main;
    return working_thread(before, after, main);
}

bool is_idle(const Sample& before, const Sample& after, Duration between) {
    const auto seconds = in_seconds(between);
    const auto cpu = in_seconds(after.cpu_time - before.cpu_time);
    // The byte counts of a descendant vanish when it ends.
    const auto bytes = static_cast<double>(
        after.io_bytes > before.io_bytes ? after.io_bytes - before.io_bytes : 0);
    return cpu <= limits::idle_cpu_share * seconds &&
           bytes <= limits::idle_bytes_per_second * seconds;
}

/// An address to which the process is connecting in both samples; empty: none.
std::string address_tried(const Sample& before, const Sample& after) {
    for (const auto& address : after.connecting_to)
        if (std::find(before.connecting_to.begin(), before.connecting_to.end(), address) !=
            before.connecting_to.end())
            return address;
    return {};
}

// ---- words --------------------------------------------------------------------------------------

std::string file_and_line(const PythonFrame& frame) {
    auto text = frame.file.substr(frame.file.rfind('/') + 1);
    if (frame.line > 0) text += ":" + std::to_string(frame.line);
    return text;
}

std::string place_of(const std::string& name, const PythonFrame& innermost, const Stack& stack) {
    const auto* const own = user_frame(stack);
    if (own == nullptr || own == &innermost) return name + " (" + file_and_line(innermost) + ")";
    return name + ", called at " + file_and_line(*own);
}

std::string kernel_place(const Sample& sample) {
    if (!sample.system_call.empty()) return sample.system_call;
    return sample.state == 'R' ? "its own code" : "";
}

std::optional<KnownWait> wait_of(const Sample& sample, const Subject& subject) {
    if (!subject.is_known()) return std::nullopt;
    if (auto wait = known_wait(subject.after->frames)) return wait;
    if (!may_wait_for_work(*subject.after, sample)) return std::nullopt;
    return KnownWait{WaitsFor::peers, true, "wait"};
}

std::string site_of(const Sample& sample, const Subject& subject, bool is_waiting) {
    if (!subject.is_known()) return kernel_place(sample);
    const auto& stack = subject.after->frames;
    const auto& innermost = stack.front();
    if (is_at_debugger(stack)) return place_of("debugger's prompt", innermost, stack);
    const auto wait = is_waiting ? wait_of(sample, subject) : known_wait(stack);
    return place_of(wait ? wait->name : innermost.function, innermost, stack);
}

std::string detail_of(const Sample& sample) {
    if (!sample.is_there()) return {};
    std::string text = "thread " + std::to_string(sample.pid) + ": ";
    if (!sample.system_call.empty()) {
        text += sample.system_call;
        if (!sample.system_call_object.empty()) text += " on " + sample.system_call_object;
        text += ", ";
    }
    text += std::string{"state "} + sample.state;
    if (!sample.wait_channel.empty()) text += " (" + sample.wait_channel + ")";
    return text;
}

// ---- the table ----------------------------------------------------------------------------------

struct Facts {
    const Sample& before;
    const Sample& after;
    Subject subject;
    bool is_idle;
    /// Both samples have the same place.
    bool is_fixed;
    std::string address;
    std::optional<KnownWait> wait;

    bool are_both(char state) const { return before.state == state && after.state == state; }
    bool is_stuck() const { return is_fixed && is_idle; }
    bool is_known_wait(WaitsFor what) const {
        return wait && wait->what == what && is_fixed && (is_idle || !wait->only_if_idle);
    }
};

bool is_gone(const Facts& facts) {
    const auto has_ended = [](const Sample& sample) {
        return !sample.is_there() || sample.state == 'Z' || sample.state == 'X';
    };
    return has_ended(facts.before) || has_ended(facts.after) || facts.before.pid != facts.after.pid;
}

bool is_traced(const Facts& facts) {
    return facts.after.is_traced || facts.after.state == 't' ||
           (facts.subject.is_known() && is_at_debugger(facts.subject.after->frames));
}

/// A refused connection is retried repeatedly, so there is neither a connection nor a pending one.
bool is_refused(const Facts& facts) {
    return facts.is_known_wait(WaitsFor::store) && !facts.after.is_at_store &&
           facts.after.is_store_connected == false;
}

/// A background thread that connects while the process works is irrelevant.
bool is_connecting(const Facts& facts) {
    return facts.is_stuck() && (!facts.address.empty() || is_refused(facts));
}

bool waits_for_store(const Facts& facts) {
    return facts.is_stuck() && ((facts.before.is_at_store && facts.after.is_at_store) ||
                                facts.is_known_wait(WaitsFor::store));
}

/// Data is being flushed to the disk: the byte counters have already counted it.
bool is_flushing(const Sample& sample) {
    constexpr std::string_view calls[] = {
        "fsync(2)", "fdatasync(2)", "msync(2)", "sync_file_range(2)", "syncfs(2)"};
    return std::find(std::begin(calls), std::end(calls), sample.system_call) != std::end(calls);
}

Activity activity_of(const Facts& facts) {
    if (is_gone(facts)) return Activity::unknown;
    if (is_traced(facts)) return Activity::traced;
    if (facts.are_both('T')) return Activity::stopped;
    if (is_flushing(facts.before) && is_flushing(facts.after)) return Activity::busy;
    if (facts.are_both('D') && facts.is_stuck()) return Activity::in_kernel;
    if (is_connecting(facts)) return Activity::connects;
    if (waits_for_store(facts)) return Activity::waits_for_store;
    if (facts.after.in_collective.value_or(false) || facts.is_known_wait(WaitsFor::peers))
        return Activity::waits_for_peers;
    if (!facts.is_fixed) return Activity::moving;
    return facts.is_idle ? Activity::blocked : Activity::busy;
}

}  // namespace

Site classify(const Sample& before, const Sample& after, Duration between) {
    const auto subject = subject_of(before, after, between);
    Facts facts{
        before,
        after,
        subject,
        is_idle(before, after, between),
        !subject.has_moved(),
        address_tried(before, after),
        wait_of(after, subject)};
    const auto activity = activity_of(facts);
    if (activity == Activity::unknown) return {activity, "", detail_of(after)};
    auto site = site_of(after, subject, activity == Activity::waits_for_peers);
    if (activity == Activity::connects && !facts.address.empty())
        site += (site.empty() ? "to " : ", to ") + facts.address;
    if (!subject.is_known() && after.in_collective.value_or(false)) site = "a collective call";
    return {
        activity,
        shortened(printable_line(site), most_site_bytes),
        shortened(printable_line(detail_of(after)), most_detail_bytes),
        activity == Activity::waits_for_peers && !facts.is_idle};
}

}  // namespace ddprun::agent::health
