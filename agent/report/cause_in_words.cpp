// SPDX-License-Identifier: Apache-2.0
#include "agent/report/cause_in_words.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/base/text.hpp"

#include <sysexits.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string_view>

namespace ddprun::agent {
namespace cause_in_words_file {
namespace {

using control::WorkerEnd;

constexpr std::uint64_t mib = 1024ULL * 1024;

struct Row {
    int number;
    std::string_view words;
};

/// Signals with a general explanation. Signals that need facts of the machine are not here.
constexpr Row signal_rows[] = {
    {SIGABRT,
     "the program aborted itself (a failed assertion, an uncaught C++ exception, a watchdog): "
     "the end of its output says why"},
    {SIGILL, "the program has instructions that this processor does not know"},
    {SIGFPE, "an integer was divided by zero in native code"},
    {SIGPIPE, "it wrote into a pipe that has no reader any more"},
    {SIGALRM, "its own timer (alarm) expired"},
    {SIGXCPU, "its limit on processor time was reached: see ulimit -t"},
    {SIGXFSZ, "its limit on the size of a file was reached: see ulimit -f"},
    {SIGSYS, "it made a system call that its sandbox (seccomp) forbids"},
    {SIGTRAP, "it reached a breakpoint without a debugger"},
    {SIGTERM, "not sent by ddprun: a person, the scheduler or another program sent it"},
    {SIGINT, "not sent by ddprun: a person, the scheduler or another program sent it"},
    {SIGHUP, "not sent by ddprun: a person, the scheduler or another program sent it"},
    {SIGQUIT, "not sent by ddprun: a person, the scheduler or another program sent it"},
};

/// Exit codes with a commonly agreed meaning.
constexpr Row code_rows[] = {
    {exit_codes::usage, "what Python and most programs say of wrong arguments or a missing script"},
    {EX_USAGE, "by sysexits.h: wrong arguments"},
    {EX_DATAERR, "by sysexits.h: its input is wrong"},
    {EX_NOINPUT, "by sysexits.h: an input file is missing or cannot be read"},
    {EX_NOUSER, "by sysexits.h: a user does not exist"},
    {EX_NOHOST, "by sysexits.h: a host does not exist"},
    {EX_UNAVAILABLE, "by sysexits.h: a service or a program that it needs is not there"},
    {EX_SOFTWARE, "by sysexits.h: a mistake inside the program itself"},
    {EX_OSERR, "by sysexits.h: the system refused something, such as a new process"},
    {EX_OSFILE, "by sysexits.h: a file of the system is missing or wrong"},
    {EX_CANTCREAT, "by sysexits.h: an output file cannot be made"},
    {EX_IOERR, "by sysexits.h: reading or writing failed"},
    {EX_TEMPFAIL, "by sysexits.h: a failure that may pass: try again"},
    {EX_PROTOCOL, "by sysexits.h: the other side of a connection broke the protocol"},
    {EX_NOPERM, "by sysexits.h: it lacks a permission"},
    {EX_CONFIG, "by sysexits.h: its configuration is wrong"},
    {120, "Python could not write the rest of its output when it ended"},
    {exit_codes::not_executable, "what a shell says of a program that it cannot execute"},
    {exit_codes::not_found, "what a shell says of a program that it does not find"},
};

constexpr Row not_executed_rows[] = {
    {ENOENT, "the program, or the interpreter that its first line names, does not exist"},
    {EACCES, "it may not be executed (chmod +x), or its file system is mounted noexec"},
    {ENOEXEC, "it is no program for this machine: another processor, or a script without #!"},
    {ETXTBSY, "it is open for writing"},
    {E2BIG, "its arguments and environment are too long together"},
};

template <std::size_t N>
std::string words_of(const Row (&rows)[N], int number) {
    for (const auto& row : rows)
        if (row.number == number) return std::string{row.words};
    return {};
}

std::string limit_text(const MachineFacts& facts) {
    if (!facts.memory_limit_bytes) return {};
    return " (memory limit " + bytes_text(*facts.memory_limit_bytes) + ")";
}

CauseInWords of_sigkill(const MachineFacts& facts) {
    if (!facts.oom_line.empty())
        return {
            "out of memory",
            "the kernel killed it for lack of memory" + limit_text(facts) + ": \"" +
                facts.oom_line + "\""};
    if (facts.oom_kills.value_or(0) > 0)
        return {
            "out of memory",
            "the kernel killed " + std::to_string(*facts.oom_kills) +
                (*facts.oom_kills == 1 ? " process" : " processes") +
                " of this node for lack of memory" + limit_text(facts) + " in this round"};
    if (facts.oom_kills)
        return {
            "",
            "not sent by ddprun, and the kernel counts no kill for lack of memory: a person, the "
            "scheduler or the container's supervisor sent it"};
    return {
        "",
        "not sent by ddprun; if no person or scheduler sent it, the kernel was out of memory: see "
        "dmesg"};
}

CauseInWords of_sigbus(const MachineFacts& facts) {
    constexpr std::string_view advice =
        "enlarge it (docker: --shm-size; Kubernetes: an emptyDir of "
        "medium Memory) or use fewer data loaders";
    const auto& shared = facts.shared_memory;
    if (!shared || shared->size_bytes == 0)
        return {"", "a memory mapped file was shorter than it should be, or its disk is full"};
    const auto used = shared->size_bytes - std::min(shared->free_bytes, shared->size_bytes);
    const auto sizes = bytes_text(used) + " of " + bytes_text(shared->size_bytes) + " used";
    // The dead worker's memory may already be free again, so a few free pages do not rule out that
    // it was full.
    if (shared->free_bytes < std::max(shared->size_bytes / 50, 4 * mib))
        return {"/dev/shm is full", "/dev/shm is full, " + sizes + ": " + std::string{advice}};
    // Docker's default, far too small for data loaders.
    if (shared->size_bytes <= 64 * mib)
        return {
            "",
            "probably a full /dev/shm: it is small, " + sizes +
                " after this worker's end: " + std::string{advice}};
    const std::string other_file =
        "a memory mapped file was shorter than it should be, or its disk is full";
    if (used < shared->size_bytes / 2) return {"", other_file};
    return {"", other_file + "; /dev/shm has " + sizes};
}

CauseInWords of_killed(int signal, const MachineFacts& facts) {
    if (signal == SIGKILL) return of_sigkill(facts);
    if (signal == SIGBUS) return of_sigbus(facts);
    if (signal == SIGSEGV)
        return {
            "",
            "native code used memory that is not its own; PYTHONFAULTHANDLER=1 shows where in "
            "Python"};
    return {"", words_of(signal_rows, signal)};
}

CauseInWords of_exited(int code, const MachineFacts& facts) {
    // When a data loader is killed, its parent reports that with another exit code.
    if (facts.oom_kills.value_or(0) > 0) {
        auto cause = of_sigkill(facts);
        cause.sentence += "; perhaps a child of this worker";
        return {"", cause.sentence};
    }
    constexpr int lowest = exit_codes::killed_by(1);
    constexpr int highest = exit_codes::killed_by(64);
    if (code >= lowest && code <= highest)
        return {"", "what a shell says of a program killed by " + signal_name(code - lowest + 1)};
    return {"", words_of(code_rows, code)};
}

/// PyTorch writes "[rank3]: " before each line of a traceback.
std::string_view without_rank(std::string_view line) {
    const auto end = line.starts_with("[rank") ? line.find("]: ") : std::string_view::npos;
    return end == std::string_view::npos ? line : line.substr(end + 3);
}

/// The traceback of an exception group: Python writes a margin before its lines, then the
/// exceptions of the group, each with a deeper margin. Without its first line it is not recognized.
class GroupTraceback {
public:
    /// Returns the line without the margin; none: it belongs to the group's exceptions.
    std::optional<std::string_view> take(std::string_view line) {
        constexpr std::string_view begin = "  + Exception Group ";
        constexpr std::string_view margin = "  | ";
        if (line.starts_with(begin)) {
            state_ = State::frames;
            return line.substr(begin.size());
        }
        if (state_ == State::frames && line.starts_with(margin)) return line.substr(margin.size());
        if (state_ == State::closed && !is_of_exceptions(line)) state_ = State::none;
        if (state_ == State::none) return line;
        // A group that ends with a group has only the rule of the inner one.
        state_ = is_closing_rule(line) ? State::closed : State::exceptions;
        return std::nullopt;
    }

    /// The line that was taken last is the group's own: notes and exceptions follow.
    void end_frames() {
        if (state_ == State::frames) state_ = State::exceptions;
    }

private:
    enum class State : std::uint8_t { none, frames, exceptions, closed };

    static std::string_view without_indent(std::string_view line) {
        return line.substr(std::min(line.find_first_not_of(' '), line.size()));
    }
    /// "    | ValueError: x", "    +---------------- 2 ----------------", or deeper.
    static bool is_of_exceptions(std::string_view line) {
        const auto text = without_indent(line);
        return line.starts_with("    ") && (text.starts_with("| ") || text.starts_with("+-"));
    }
    /// "    +------------------------------------", or deeper.
    static bool is_closing_rule(std::string_view line) {
        const auto text = without_indent(line);
        return is_of_exceptions(line) && text.front() == '+' &&
               text.find_first_not_of('-', 1) == std::string_view::npos;
    }

    State state_ = State::none;
};

/// "ValueError: x", "torch.cuda.OutOfMemoryError: x", "KeyboardInterrupt"; no sentence.
bool begins_with_class(std::string_view line) {
    const auto name = line.substr(0, line.find(':'));
    const auto is_of_name = [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '.';
    };
    return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
           std::all_of(name.begin(), name.end(), is_of_name);
}

constexpr std::string_view traceback = "Traceback (most recent call last):";

/// The traceback that follows belongs to a thread, or to an object's destructor: the program
/// continues, or ends for another reason.
bool begins_aside(std::string_view line) {
    return line.starts_with("Exception ignored") || line.starts_with("Exception in thread") ||
           line.starts_with("Error in atexit");
}

/// "[W1124 11:02:03.4 ProcessGroup.cpp:7]", "[rank0]:[W1124 ...": PyTorch's log.
bool is_torch_log(std::string_view line) {
    if (line.starts_with("[rank")) line.remove_prefix(std::min(line.find(']') + 2, line.size()));
    return line.size() > 2 && line[0] == '[' &&
           std::string_view{"IWEF"}.find(line[1]) != std::string_view::npos &&
           std::isdigit(static_cast<unsigned char>(line[2])) != 0;
}

/// Lines that Python, PyTorch and their libraries write between an uncaught exception and the end
/// of the process, including continuation lines of their messages.
bool may_follow_the_end(std::string_view line) {
    constexpr std::string_view beginnings[] = {
        " ",
        "\t",
        "CUDA kernel errors might be",
        "For debugging consider passing",
        "Compile with `TORCH_USE_CUDA_DSA`",
        "Device-side assertion",
        "Exception raised from ",
        "frame #",
        "Last error:",
        "ncclUnhandledCudaError",
        "ncclSystemError",
        "ncclInternalError",
        "ncclRemoteError",
        "sys:1: ",
        "terminate called without an active exception",
        "wandb: "};
    return line.empty() || begins_aside(line) || is_torch_log(line) ||
           std::any_of(
               std::begin(beginnings),
               std::end(beginnings),
               [&](std::string_view beginning) { return line.starts_with(beginning); }) ||
           (line.find(".py:") != std::string_view::npos &&
            line.find("Warning: ") != std::string_view::npos);
}

void append(std::string& sentence, const std::string& line) {
    if (line.empty()) return;
    if (!sentence.empty()) sentence += "; ";
    sentence += "the kernel says: \"" + line + "\"";
}

}  // namespace
}  // namespace cause_in_words_file

CauseInWords cause_in_words(const control::WorkerEnd& end, const MachineFacts& facts) {
    using namespace cause_in_words_file;
    CauseInWords cause;
    switch (end.kind) {
        case WorkerEnd::Kind::not_executed: return {"", words_of(not_executed_rows, end.value)};
        case WorkerEnd::Kind::killed: cause = of_killed(end.value, facts); break;
        case WorkerEnd::Kind::exited: cause = of_exited(end.value, facts); break;
    }
    append(cause.sentence, facts.crash_line);
    return cause;
}

std::string missing_module(
    const std::string& output, const std::string& python, const std::string& python_origin) {
    const auto text = trimmed(output, "\n");
    const auto last_line = text.substr(text.rfind('\n') + 1);
    // `python -m NAME` writes "PYTHON: No module named NAME"; text after a semicolon means that the
    // module exists but cannot be run.
    const bool is_missing = last_line.starts_with("ModuleNotFoundError: ") ||
                            (last_line.find(": No module named ") != std::string_view::npos &&
                             last_line.find(';') == std::string_view::npos);
    if (!is_missing) return {};
    return "not found by " + python + " (" + python_origin +
           "); --python=PATH chooses another Python";
}

std::string run_by(const std::string& python, const std::string& python_origin) {
    return "run by " + python + " (" + python_origin + "); --python=PATH chooses another Python";
}

std::optional<ShownException> exception_in(const std::string& output) {
    using namespace cause_in_words_file;
    std::optional<ShownException> found;
    // The line was written by PyTorch's hook, which gets only uncaught exceptions.
    bool is_uncaught = false;
    std::string_view before;
    bool is_aside = false;
    bool is_in_frames = false;
    GroupTraceback group;
    for (const auto whole : split(output, '\n')) {
        const auto unranked = without_rank(whole);
        const auto taken = group.take(unranked);
        if (!taken) continue;
        const auto line = *taken;
        const bool ends_frames = is_in_frames && !line.empty() && !line.starts_with(' ');
        if (line.starts_with("  File \"")) is_in_frames = true;
        if (line.starts_with(traceback)) {
            is_aside = begins_aside(before);
            if (found && !is_aside && !is_uncaught) found->is_end = false;
        } else if (ends_frames) {
            is_in_frames = false;
            group.end_frames();
            if (is_aside || is_uncaught) {
                is_aside = false;
            } else if (begins_with_class(line)) {
                is_uncaught = unranked.size() < whole.size();
                found = ShownException{shortened(line, limits::max_exception_bytes), true};
            } else if (found) {
                found->is_end = false;
            }
        } else if (found && !is_uncaught && !may_follow_the_end(line)) {
            found->is_end = false;
        }
        before = line;
    }
    return found;
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    std::array<char, 32> text{};
    std::snprintf(
        text.data(),
        text.size(),
        value < 10 && unit > 0 ? "%.2g %s" : "%.0f %s",
        value,
        units.at(unit));
    return text.data();
}

}  // namespace ddprun::agent
