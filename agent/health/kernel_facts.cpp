// SPDX-License-Identifier: Apache-2.0
#include "agent/health/kernel_facts.hpp"

#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <asm/unistd.h>  // only the numbers

#include <algorithm>
#include <vector>

namespace ddprun::agent::health {
namespace {

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

/// A system call, and which of its arguments describes its object.
struct KnownCall {
    int number;
    std::string_view name;
    SubjectKind kind = SubjectKind::none;
    std::size_t argument = 0;
};

using enum SubjectKind;

/// System calls in which a worker may block. aarch64 has only the newer ones of some families.
constexpr KnownCall known_calls[] = {
    {__NR_read, "read", descriptor},
    {__NR_write, "write", descriptor},
    {__NR_readv, "readv", descriptor},
    {__NR_writev, "writev", descriptor},
    {__NR_pread64, "pread64", descriptor},
    {__NR_pwrite64, "pwrite64", descriptor},
    {__NR_recvfrom, "recvfrom", descriptor},
    {__NR_recvmsg, "recvmsg", descriptor},
    {__NR_sendto, "sendto", descriptor},
    {__NR_sendmsg, "sendmsg", descriptor},
    {__NR_connect, "connect", descriptor},
    {__NR_accept, "accept", descriptor},
    {__NR_accept4, "accept4", descriptor},
    {__NR_fsync, "fsync", descriptor},
    {__NR_fdatasync, "fdatasync", descriptor},
    {__NR_syncfs, "syncfs", descriptor},
    {__NR_ftruncate, "ftruncate", descriptor},
    {__NR_fallocate, "fallocate", descriptor},
    {__NR_flock, "flock", descriptor},
    {__NR_fcntl, "fcntl", descriptor},
    {__NR_ioctl, "ioctl", descriptor},
    {__NR_close, "close", descriptor},
    {__NR_lseek, "lseek", descriptor},
    {__NR_fstat, "fstat", descriptor},
    {__NR_getdents64, "getdents64", descriptor},
    {__NR_sendfile, "sendfile", descriptor, 1},
    {__NR_copy_file_range, "copy_file_range", descriptor},
    {__NR_ppoll, "ppoll", descriptors},
    {__NR_openat, "openat", path, 1},
    {__NR_newfstatat, "newfstatat", path, 1},
    {__NR_statx, "statx", path, 1},
    {__NR_faccessat, "faccessat", path, 1},
    {__NR_readlinkat, "readlinkat", path, 1},
    {__NR_unlinkat, "unlinkat", path, 1},
    {__NR_mkdirat, "mkdirat", path, 1},
    {__NR_renameat2, "renameat2", path, 1},
    {__NR_statfs, "statfs", path},
    {__NR_truncate, "truncate", path},
    {__NR_chdir, "chdir", path},
    {__NR_execve, "execve", path},
    {__NR_epoll_pwait, "epoll_pwait"},
    {__NR_pselect6, "pselect6"},
    {__NR_futex, "futex"},
    {__NR_nanosleep, "nanosleep"},
    {__NR_clock_nanosleep, "clock_nanosleep"},
    {__NR_restart_syscall, "restart_syscall"},
    {__NR_wait4, "wait4"},
    {__NR_waitid, "waitid"},
    {__NR_rt_sigsuspend, "rt_sigsuspend"},
    {__NR_rt_sigtimedwait, "rt_sigtimedwait"},
    {__NR_sched_yield, "sched_yield"},
    {__NR_mmap, "mmap"},
    {__NR_munmap, "munmap"},
    {__NR_madvise, "madvise"},
    {__NR_mprotect, "mprotect"},
    {__NR_msync, "msync"},
    {__NR_brk, "brk"},
    {__NR_sync, "sync"},
    {__NR_msgrcv, "msgrcv"},
    {__NR_semtimedop, "semtimedop"},
    {__NR_io_uring_enter, "io_uring_enter"},
    {__NR_exit_group, "exit_group"},
#ifdef __NR_poll
    {__NR_poll, "poll", descriptors},
    {__NR_select, "select"},
    {__NR_epoll_wait, "epoll_wait"},
    {__NR_open, "open", path},
    {__NR_stat, "stat", path},
    {__NR_lstat, "lstat", path},
    {__NR_access, "access", path},
    {__NR_readlink, "readlink", path},
    {__NR_unlink, "unlink", path},
    {__NR_mkdir, "mkdir", path},
    {__NR_rename, "rename", path},
    {__NR_pause, "pause"},
    {__NR_fork, "fork"},
    {__NR_vfork, "vfork"},
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
    // "412 (name, which may contain anything) S parent ...": the name ends at the last ).
    const auto name_end = stat.rfind(')');
    if (name_end == std::string_view::npos) return std::nullopt;
    const auto words = split(trimmed(stat.substr(name_end + 1)), ' ');
    // Field numbers as in proc(5), in which the state is field 3.
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

std::optional<Duration> run_time_in(std::string_view schedstat) {
    const auto nanoseconds = whole_number<std::int64_t>(split(trimmed(schedstat), ' ').front());
    if (!nanoseconds || *nanoseconds < 0) return std::nullopt;
    return Duration{*nanoseconds};
}

std::optional<int> only_child_in(std::string_view children) {
    const auto words = split(trimmed(children), ' ');
    if (words.size() != 1) return std::nullopt;
    return whole_number<int>(words.front());
}

std::string wait_channel_in(std::string_view wchan) {
    constexpr std::size_t longest_symbol = 64;
    const auto name = trimmed(wchan).substr(0, longest_symbol);
    return name == "0" ? std::string{} : printable_line(name);
}

std::optional<SystemCall> parse_system_call(std::string_view syscall) {
    const auto words = split(trimmed(syscall), ' ');
    // "running"; or "-1 0xstack 0xinstruction" outside of a system call; else a number and its
    // arguments.
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
