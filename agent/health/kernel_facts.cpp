// SPDX-License-Identifier: Apache-2.0
#include "agent/health/kernel_facts.hpp"

#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace ddprun::agent::health {
namespace {

template <class Number>
std::optional<Number> whole_number(std::string_view digits, int base = 10) {
    Number number{};
    const auto* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, number, base);
    if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
    return number;
}

/// The text behind "NAME:" of the line that begins so.
std::string_view field_in(std::string_view text, std::string_view name) {
    for (const auto line : split(text, '\n'))
        if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
            return trimmed(line.substr(name.size() + 1));
    return {};
}

std::uint64_t count_in(std::string_view text, std::string_view name) {
    return whole_number<std::uint64_t>(field_in(text, name)).value_or(0);
}

/// A system call: which of its arguments says what it is about.
struct KnownCall {
    int number;
    std::string_view name;
    SubjectKind kind = SubjectKind::none;
    std::size_t argument = 0;
};

using enum SubjectKind;

/// Those in which a worker may stay. aarch64 has only the newer ones of some families.
constexpr KnownCall known_calls[] = {
    {SYS_read, "read", descriptor},
    {SYS_write, "write", descriptor},
    {SYS_readv, "readv", descriptor},
    {SYS_writev, "writev", descriptor},
    {SYS_pread64, "pread64", descriptor},
    {SYS_pwrite64, "pwrite64", descriptor},
    {SYS_recvfrom, "recvfrom", descriptor},
    {SYS_recvmsg, "recvmsg", descriptor},
    {SYS_sendto, "sendto", descriptor},
    {SYS_sendmsg, "sendmsg", descriptor},
    {SYS_connect, "connect", descriptor},
    {SYS_accept, "accept", descriptor},
    {SYS_accept4, "accept4", descriptor},
    {SYS_fsync, "fsync", descriptor},
    {SYS_fdatasync, "fdatasync", descriptor},
    {SYS_syncfs, "syncfs", descriptor},
    {SYS_ftruncate, "ftruncate", descriptor},
    {SYS_fallocate, "fallocate", descriptor},
    {SYS_flock, "flock", descriptor},
    {SYS_fcntl, "fcntl", descriptor},
    {SYS_ioctl, "ioctl", descriptor},
    {SYS_close, "close", descriptor},
    {SYS_lseek, "lseek", descriptor},
    {SYS_fstat, "fstat", descriptor},
    {SYS_getdents64, "getdents64", descriptor},
    {SYS_sendfile, "sendfile", descriptor, 1},
    {SYS_copy_file_range, "copy_file_range", descriptor},
    {SYS_ppoll, "ppoll", descriptors},
    {SYS_openat, "openat", path, 1},
    {SYS_newfstatat, "newfstatat", path, 1},
    {SYS_statx, "statx", path, 1},
    {SYS_faccessat, "faccessat", path, 1},
    {SYS_readlinkat, "readlinkat", path, 1},
    {SYS_unlinkat, "unlinkat", path, 1},
    {SYS_mkdirat, "mkdirat", path, 1},
    {SYS_renameat2, "renameat2", path, 1},
    {SYS_statfs, "statfs", path},
    {SYS_truncate, "truncate", path},
    {SYS_chdir, "chdir", path},
    {SYS_execve, "execve", path},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_pselect6, "pselect6"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_restart_syscall, "restart_syscall"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_madvise, "madvise"},
    {SYS_mprotect, "mprotect"},
    {SYS_msync, "msync"},
    {SYS_brk, "brk"},
    {SYS_sync, "sync"},
    {SYS_msgrcv, "msgrcv"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_io_uring_enter, "io_uring_enter"},
    {SYS_exit_group, "exit_group"},
#ifdef SYS_poll
    {SYS_poll, "poll", descriptors},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_open, "open", path},
    {SYS_stat, "stat", path},
    {SYS_lstat, "lstat", path},
    {SYS_access, "access", path},
    {SYS_readlink, "readlink", path},
    {SYS_unlink, "unlink", path},
    {SYS_mkdir, "mkdir", path},
    {SYS_rename, "rename", path},
    {SYS_pause, "pause"},
    {SYS_fork, "fork"},
    {SYS_vfork, "vfork"},
#endif
};

const KnownCall* known(const SystemCall& call) {
    const auto* const end = std::end(known_calls);
    const auto* const found = std::find_if(
        std::begin(known_calls), end, [&](const auto& each) { return each.number == call.number; });
    return found == end ? nullptr : found;
}

}  // namespace

std::optional<ProcessStat> parse_stat(std::string_view stat) {
    // "412 (name, which may hold anything) S parent ...": the last ) counts.
    const auto name_end = stat.rfind(')');
    if (name_end == std::string_view::npos) return std::nullopt;
    const auto words = split(trimmed(stat.substr(name_end + 1)), ' ');
    // By proc(5), where the state is number 3.
    const auto number = [&](std::size_t field) -> std::optional<std::uint64_t> {
        if (field - 3 >= words.size()) return std::nullopt;
        return whole_number<std::uint64_t>(words[field - 3]);
    };
    constexpr std::size_t started_field = 22;
    const auto started_at = number(started_field);
    if (words.front().size() != 1 || !started_at) return std::nullopt;
    ProcessStat process{words.front().front(), 0, *started_at};
    // utime, stime, cutime, cstime; the last two are signed.
    for (std::size_t field = 14; field <= 17; ++field) {
        const auto ticks = number(field);
        if (!ticks) return std::nullopt;
        process.cpu_ticks += *ticks;
    }
    return process;
}

int tracer_in(std::string_view status) {
    return whole_number<int>(field_in(status, "TracerPid")).value_or(0);
}

std::uint64_t io_bytes_in(std::string_view io) {
    return std::max(count_in(io, "rchar"), count_in(io, "read_bytes")) +
           std::max(count_in(io, "wchar"), count_in(io, "write_bytes"));
}

std::string wait_channel_in(std::string_view wchan) {
    constexpr std::size_t longest_symbol = 64;
    const auto name = trimmed(wchan).substr(0, longest_symbol);
    return name == "0" ? std::string{} : printable_line(name);
}

std::optional<SystemCall> parse_system_call(std::string_view syscall) {
    const auto words = split(trimmed(syscall), ' ');
    // "running"; "-1 0xstack 0xinstruction" outside of any; else a number and its arguments.
    const auto number = whole_number<int>(words.front());
    if (!number || *number < 0) return std::nullopt;
    SystemCall call{*number, {}};
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
        if (i + 1 >= words.size() || !words[i + 1].starts_with("0x")) return std::nullopt;
        const auto argument = whole_number<std::uint64_t>(words[i + 1].substr(2), 16);
        if (!argument) return std::nullopt;
        call.arguments[i] = *argument;
    }
    return call;
}

std::string name_of(const SystemCall& call) {
    const auto* const found = known(call);
    if (found == nullptr) return "system call " + std::to_string(call.number);
    return std::string{found->name} + "(2)";
}

CallSubject subject_of(const SystemCall& call) {
    const auto* const found = known(call);
    if (found == nullptr || found->kind == none) return {};
    return {found->kind, call.arguments[found->argument]};
}

std::optional<std::string> variable_in(std::string_view environment, std::string_view name) {
    for (const auto each : split(environment, '\0'))
        if (each.starts_with(name) && each.substr(name.size()).starts_with('='))
            return std::string{each.substr(name.size() + 1)};
    return std::nullopt;
}

}  // namespace ddprun::agent::health
