// SPDX-License-Identifier: Apache-2.0
#include "agent/health/stack_text.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <vector>

namespace ddprun::agent::health {
namespace {

constexpr std::size_t most_threads_named = 8;

/// Threads in the same place.
struct ThreadGroup {
    std::vector<int> tids;
    const std::vector<PythonFrame>* frames;
};

std::vector<ThreadGroup> groups_of(const Sample& sample) {
    std::vector<ThreadGroup> groups;
    const auto add = [&](const PythonThread& thread) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
            return *group.frames == thread.frames;
        });
        if (same == groups.end())
            groups.push_back({{thread.tid}, &thread.frames});
        else
            same->tids.push_back(thread.tid);
    };
    for (const bool is_main : {true, false})
        for (const auto& thread : sample.threads)
            if ((thread.tid == sample.pid) == is_main) add(thread);
    return groups;
}

std::string heading_of(const ThreadGroup& group, int main_tid) {
    const auto named =
        short_list(group.tids, {most_threads_named}, [](int tid) { return std::to_string(tid); });
    std::string text = group.tids.size() > 1 ? "threads " : "thread ";
    if (group.tids.front() == main_tid) text = "main " + text;
    text += named;
    if (group.frames->empty()) text += ": no Python code";
    return text;
}

std::vector<std::string> lines_of(const Sample& sample) {
    std::vector<std::string> lines;
    for (const auto& group : groups_of(sample)) {
        lines.push_back(heading_of(group, sample.pid));
        for (const auto& frame : *group.frames) {
            auto line = "  " + frame.function + " (" + frame.file;
            if (frame.line > 0) line += ":" + std::to_string(frame.line);
            lines.push_back(line + ")");
        }
    }
    return lines;
}

}  // namespace

std::string_view in_words(control::Activity activity) {
    using control::Activity;
    switch (activity) {
        case Activity::unknown: return "unknown";
        case Activity::moving: return "moving";
        case Activity::busy: return "busy";
        case Activity::waits_for_peers: return "waits for other ranks";
        case Activity::waits_for_store: return "waits for the store";
        case Activity::connects: return "connects";
        case Activity::blocked: return "blocked";
        case Activity::stopped: return "stopped";
        case Activity::in_kernel: return "in the kernel";
        case Activity::traced: return "in a debugger";
        case Activity::ended: return "has ended";
    }
    return {};
}

std::string stack_text(const Sample& sample, std::size_t most_bytes) {
    if (sample.threads.empty()) return "no Python stack: " + sample.no_frames;
    constexpr std::size_t rest_bytes = 32;
    const auto lines = lines_of(sample);
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (text.size() + lines[i].size() + 1 + rest_bytes > most_bytes)
            return text + "and " + std::to_string(lines.size() - i) + " more lines";
        text += lines[i] + (i + 1 < lines.size() ? "\n" : "");
    }
    return text;
}

}  // namespace ddprun::agent::health
