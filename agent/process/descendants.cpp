// SPDX-License-Identifier: Apache-2.0
#include "agent/process/descendants.hpp"

#include "rendezvous/base/clock.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string_view>

namespace ddprun::agent {
namespace {

/// How many processes one walk records; the next walk finds the rest of a larger tree.
constexpr std::size_t walk_capacity = 8192;
constexpr Duration shortest_pause = std::chrono::microseconds(100);
constexpr Duration longest_pause = std::chrono::milliseconds(10);

/// A file or folder of /proc, closed at the end of the scope.
class ProcFile {
public:
    ProcFile(const char* path, int flags) : descriptor_(::open(path, flags | O_CLOEXEC)) {}
    ~ProcFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    ProcFile(const ProcFile&) = delete;
    ProcFile& operator=(const ProcFile&) = delete;

    bool is_open() const { return descriptor_ >= 0; }
    std::size_t read(std::span<char> into) {
        const auto size = ::read(descriptor_, into.data(), into.size());
        return size > 0 ? static_cast<std::size_t>(size) : 0;
    }
    std::size_t read_entries(std::span<char> into) {
        const auto size = ::syscall(SYS_getdents64, descriptor_, into.data(), into.size());
        return size > 0 ? static_cast<std::size_t>(size) : 0;
    }

private:
    int descriptor_;
};

using PathBuffer = std::array<char, 64>;

/// Calls `visit` with each child that this thread has started or inherited.
template <class Visit>
bool visit_children_of_thread(pid_t process, pid_t thread, Visit visit) {
    PathBuffer path;
    std::snprintf(path.data(), path.size(), "/proc/%d/task/%d/children", process, thread);
    ProcFile file(path.data(), O_RDONLY);
    if (!file.is_open()) return false;
    std::array<char, 1024> text;
    pid_t pid = 0;
    while (const auto size = file.read(text)) {
        for (const char c : std::string_view{text.data(), size}) {
            if (c >= '0' && c <= '9') {
                pid = pid * 10 + (c - '0');
            } else if (pid != 0) {
                visit(pid);
                pid = 0;
            }
        }
    }
    if (pid != 0) visit(pid);
    return true;
}

/// The same for all threads of a process. Returns false when /proc does not show them.
template <class Visit>
bool visit_children(pid_t process, Visit visit) {
    PathBuffer path;
    std::snprintf(path.data(), path.size(), "/proc/%d/task", process);
    ProcFile folder(path.data(), O_RDONLY | O_DIRECTORY);
    if (!folder.is_open()) return false;
    alignas(dirent64) std::array<char, 4096> entries;
    bool is_known = false;
    while (const auto size = folder.read_entries(entries)) {
        for (std::size_t at = 0; at < size;) {
            const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
            at += entry->d_reclen;
            const std::string_view name{entry->d_name};
            pid_t thread = 0;
            const auto parsed = std::from_chars(name.data(), name.data() + name.size(), thread);
            if (parsed.ec != std::errc{}) continue;  // "." and ".."
            if (visit_children_of_thread(process, thread, visit)) is_known = true;
        }
    }
    return is_known;
}

bool contains(Pids pids, pid_t pid) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

/// One process of a walk: whether it or an ancestor matches.
struct Found {
    pid_t pid;
    bool is_meant;
};

/// Visits every descendant except `excluded` and their descendants. Children are visited before
/// their parent, so that a parent that dies of the visit hides none of them. `is_meant(pid,
/// parent_is_meant)` is called on the way down. Returns false when /proc does not show the
/// processes.
template <class IsMeant, class Visit>
bool walk(Pids excluded, IsMeant is_meant, Visit visit) {
    // Static, since only the killing thread walks, and walks are never nested.
    static std::array<Found, walk_capacity> pending;
    std::size_t count = 0;
    const auto add = [&](pid_t pid, bool parent_is_meant) {
        if (count == pending.size() || contains(excluded, pid)) return;
        pending[count++] = {pid, is_meant(pid, parent_is_meant)};
    };
    if (!visit_children(::getpid(), [&](pid_t pid) { add(pid, false); })) return false;
    while (count > 0) {
        const auto found = pending[--count];
        visit_children(found.pid, [&](pid_t pid) { add(pid, found.is_meant); });
        if (found.is_meant) visit(found.pid);
    }
    return true;
}

template <class Visit>
bool walk_all(Pids excluded, Visit visit) {
    return walk(
        excluded, [](pid_t, bool) { return true; }, visit);
}

std::optional<ProcessEntry> read_entry(pid_t pid) {
    PathBuffer path;
    std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
    ProcFile file(path.data(), O_RDONLY);
    std::array<char, 512> text;
    if (!file.is_open()) return std::nullopt;
    const auto size = file.read(std::span{text}.first(text.size() - 1));
    text[size] = '\0';
    // "412 (name, which may contain anything) S parent group session ...": the name ends at the
    // last ).
    char* const name_begin = std::strchr(text.data(), '(');
    char* const name_end = std::strrchr(text.data(), ')');
    if (name_begin == nullptr || name_end == nullptr) return std::nullopt;
    ProcessEntry entry;
    entry.pid = pid;
    pid_t group = 0;
    if (std::sscanf(
            name_end + 1, " %c %d %d %d", &entry.state, &entry.parent, &group, &entry.session) != 4)
        return std::nullopt;
    const std::string_view name{
        name_begin + 1, static_cast<std::size_t>(name_end - name_begin - 1)};
    name.copy(entry.command.data(), entry.command.size() - 1);
    return entry;
}

bool is_alive(const ProcessEntry& entry) {
    constexpr std::string_view dead_states = "ZX";
    return dead_states.find(entry.state) == std::string_view::npos;
}

/// Stopped by a signal or by a debugger.
bool is_stopped(const ProcessEntry& entry) {
    return entry.state == 'T' || entry.state == 't';
}

void pause_for(Duration length) {
    const timespec pause{0, static_cast<long>(length.count())};
    ::nanosleep(&pause, nullptr);
}

void reap_ended_children(Pids excluded) {
    visit_children(::getpid(), [&](pid_t pid) {
        if (!contains(excluded, pid)) ::waitpid(pid, nullptr, WNOHANG);
    });
}

Stuck name_the_rest(Pids excluded) {
    Stuck stuck;
    walk_all(excluded, [&](pid_t pid) {
        const auto entry = read_entry(pid);
        if (!entry) return;
        if (stuck.count < Stuck::capacity) stuck.processes[stuck.count] = *entry;
        ++stuck.count;
    });
    return stuck;
}

}  // namespace

std::string ProcessEntry::describe() const {
    return std::string{command.data()} + " (pid " + std::to_string(pid) + ", state " + state + ")";
}

void become_subreaper() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool has_any_child() {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

int list_children(std::span<pid_t> pids) {
    std::size_t count = 0;
    const bool is_known = visit_children(::getpid(), [&](pid_t pid) {
        if (count < pids.size()) pids[count] = pid;
        ++count;
    });
    return is_known ? static_cast<int>(count) : -1;
}

KernelPlace kernel_place_of(pid_t pid) {
    PathBuffer path;
    std::snprintf(path.data(), path.size(), "/proc/%d/wchan", pid);
    ProcFile file(path.data(), O_RDONLY);
    KernelPlace place{};
    if (file.is_open()) file.read(std::span{place}.first(place.size() - 1));
    // "0": the process is running, or its place is hidden.
    if (place[0] == '0') place[0] = '\0';
    return place;
}

char state_of(pid_t pid) {
    return read_entry(pid).value_or(ProcessEntry{}).state;
}

std::vector<ProcessEntry> list_descendants() {
    std::vector<ProcessEntry> found;
    walk_all({}, [&](pid_t pid) {
        if (const auto entry = read_entry(pid)) found.push_back(*entry);
    });
    return found;
}

int signal_descendants(int signal, Pids excluded) {
    int reached = 0;
    walk_all(excluded, [&](pid_t pid) {
        const auto entry = read_entry(pid);
        if (entry && is_alive(*entry) && ::kill(pid, signal) == 0) ++reached;
    });
    return reached;
}

void stop_descendants(Duration timeout) {
    const auto deadline = Clock::now() + timeout;
    auto pause = shortest_pause;
    // Walked twice: a process that forks during the first walk has a new child in the second one.
    int stopped_walks = 0;
    for (;;) {
        bool are_stopped = true;
        walk_all({}, [&](pid_t pid) {
            const auto entry = read_entry(pid);
            if (!entry || !is_alive(*entry) || is_stopped(*entry)) return;
            are_stopped = false;
            ::kill(pid, SIGSTOP);
        });
        stopped_walks = are_stopped ? stopped_walks + 1 : 0;
        if (stopped_walks == 2 || Clock::now() >= deadline) return;
        if (are_stopped) continue;
        pause_for(pause);
        pause = std::min(pause * 2, longest_pause);
    }
}

int signal_session_of(pid_t session, int signal) {
    int reached = 0;
    const auto belongs = [&](pid_t pid, bool parent_belongs) {
        if (parent_belongs) return true;
        const auto entry = read_entry(pid);
        return entry && entry->session == session;
    };
    const bool is_known = walk({}, belongs, [&](pid_t pid) {
        const auto entry = read_entry(pid);
        if (entry && is_alive(*entry) && ::kill(pid, signal) == 0) ++reached;
    });
    // Without /proc only the leader's original process group can be signalled.
    if (!is_known && ::kill(-session, signal) == 0) return 1;
    return reached;
}

Stuck kill_descendants(Duration timeout, Pids excluded) {
    const auto deadline = Clock::now() + timeout;
    auto pause = shortest_pause;
    // The kernel's list of children may miss a process that starts or ends while it is read. So an
    // empty list counts only if the kernel has no child at all, or if it was read twice.
    int empty_walks = 0;
    for (;;) {
        int seen = 0;
        walk_all(excluded, [&](pid_t pid) {
            ::kill(pid, SIGKILL);
            ++seen;
        });
        reap_ended_children(excluded);
        if (!has_any_child()) return {};
        empty_walks = seen == 0 ? empty_walks + 1 : 0;
        if (empty_walks == 2) return {};
        if (Clock::now() >= deadline) return name_the_rest(excluded);
        pause_for(pause);
        pause = std::min(pause * 2, longest_pause);
    }
}

int reap_orphans(Pids watched) {
    // Orphans become children of the first living thread, started processes are children of the
    // spawner's thread. Only the first thread's children are examined, so a worker that ended
    // before its pid was reported is never mistaken for an orphan.
    int reaped = 0;
    const pid_t first_thread = ::getpid();
    visit_children_of_thread(first_thread, first_thread, [&](pid_t pid) {
        if (!contains(watched, pid) && ::waitpid(pid, nullptr, WNOHANG) == pid) ++reaped;
    });
    return reaped;
}

}  // namespace ddprun::agent
