// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/groups/call_trace.hpp"

#include "rendezvous/base/hex.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <string_view>

namespace ddprun::groups {

namespace {

/// The coarse clock, of a few milliseconds' resolution, costs a tenth of an exact one.
std::int64_t now_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

const char* name_of(CallTrace::State state) {
    switch (state) {
        case CallTrace::State::launched: return "launched";
        case CallTrace::State::running: return "running";
        case CallTrace::State::done: return "done";
        case CallTrace::State::failed: return "failed";
    }
    return "unknown";
}

const char* queue_name(Collective::Kind kind) {
    if (kind == Collective::Kind::send) return "send";
    return kind == Collective::Kind::recv ? "recv" : "collective";
}

Collective collective_of(const CallTrace::Entry& entry) {
    Collective collective;
    collective.kind = entry.kind;
    collective.type = entry.type;
    collective.op = entry.op;
    collective.root = entry.root;
    collective.receiver = entry.receiver;
    collective.count = entry.count;
    collective.sequence = entry.sequence;
    return collective;
}

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (code < ' ') {
            result += "\\u00";
            result += hex_digits[code >> 4U];
            result += hex_digits[code & 15U];
        } else {
            result += c;
        }
    }
    return result + '"';
}

void append_line(std::string& text, const CallTrace::Entry& entry) {
    text += R"({"queue": )" + quoted(queue_name(entry.kind));
    text += R"(, "number": )" + std::to_string(entry.sequence);
    text += R"(, "call": )" + quoted(describe(collective_of(entry)));
    text += R"(, "state": )" + quoted(name_of(entry.state));
    text += R"(, "launched_ms": )" + std::to_string(entry.launched_ms);
    text += R"(, "ended_ms": )" + std::to_string(entry.ended_ms) + "}\n";
}

/// Removes a trace that was only partly written: the next one would begin within its last line. It
/// stays when another group has written behind it.
void remove_end(int file, off_t bytes) {
    struct stat status {};
    const auto end = ::lseek(file, 0, SEEK_CUR);
    if (::fstat(file, &status) != 0 || status.st_size != end) return;
    // When this fails, the trace stays incomplete, which its reader reports.
    [[maybe_unused]] const auto ignored = ::ftruncate(file, end - bytes);
}

}  // namespace

CallTrace::CallTrace() : entries_(std::make_unique_for_overwrite<Entry[]>(room)) {}

std::uint64_t CallTrace::launched(const Collective& collective) {
    entries_[count_ % room] = {
        collective.kind,
        collective.type,
        collective.op,
        State::launched,
        collective.root,
        collective.receiver,
        collective.count,
        collective.sequence,
        now_ms(),
        0};
    return ++count_;
}

void CallTrace::running(std::uint64_t number) {
    if (auto* const entry = find(number)) entry->state = State::running;
}

void CallTrace::ended(std::uint64_t number, bool is_success) {
    auto* const entry = find(number);
    if (!entry) return;
    entry->state = is_success ? State::done : State::failed;
    entry->ended_ms = now_ms();
}

std::vector<CallTrace::Entry> CallTrace::latest() const {
    std::vector<Entry> entries;
    for (auto number = count_ > room ? count_ - room : 0; number < count_; ++number)
        entries.push_back(entries_[number % room]);
    return entries;
}

CallTrace::Entry* CallTrace::find(std::uint64_t number) {
    const bool is_there = number > 0 && number + room > count_;
    return is_there ? &entries_[(number - 1) % room] : nullptr;
}

std::string text_of(const TraceTitle& title, const std::vector<CallTrace::Entry>& calls) {
    std::string text = R"({"ddprun_calls": 1, "rank": )" + std::to_string(title.rank);
    text += R"(, "world_size": )" + std::to_string(title.world_size);
    text += R"(, "round": )" + std::to_string(title.round);
    text += R"(, "group": )" + quoted(title.group);
    text += R"(, "error": )" + quoted(title.error) + "}\n";
    for (const auto& call : calls)
        append_line(text, call);
    return text;
}

std::string trace_path(const std::string& error_file) {
    constexpr std::string_view own_folder = "/error.json";
    const std::string_view path = error_file;
    if (!path.ends_with(own_folder)) return {};
    return std::string{path.substr(0, path.size() - own_folder.size())} + "/calls.jsonl";
}

bool append_trace(const std::string& path, const std::string& text) {
    const int file =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file < 0) return false;
    const auto written = ::write(file, text.data(), text.size());
    const bool is_whole = written == static_cast<ssize_t>(text.size());
    if (!is_whole && written > 0) remove_end(file, written);
    ::close(file);
    return is_whole;
}

}  // namespace ddprun::groups
