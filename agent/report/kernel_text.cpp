// SPDX-License-Identifier: Apache-2.0
#include "agent/report/kernel_text.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/base/whole_number.hpp"

#include <vector>

namespace ddprun::agent {
namespace kernel_text {
namespace {

std::string_view take_line(std::string_view& text) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
}

bool has_word(std::string_view list, std::string_view word) {
    for (const auto part : split(list, ','))
        if (part == word) return true;
    return false;
}

std::optional<std::uint64_t> number(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    return whole_number<std::uint64_t>(text);
}

/// A mounted cgroup file system: which part of the hierarchy it shows, and where.
struct Mount {
    std::string_view root;
    std::string_view point;
};

/// mountinfo: "31 23 0:26 / /sys/fs/cgroup rw,... - cgroup2 cgroup2 rw,..."
std::optional<Mount> find_mount(std::string_view mountinfo, int version) {
    while (!mountinfo.empty()) {
        const auto fields = split(take_line(mountinfo), ' ');
        std::size_t dash = 6;
        while (dash < fields.size() && fields[dash] != "-")
            ++dash;
        if (dash + 3 >= fields.size()) continue;
        const auto type = fields[dash + 1];
        const bool is_it = version == 2 ? type == "cgroup2"
                                        : type == "cgroup" && has_word(fields[dash + 3], "memory");
        if (is_it) return Mount{fields[3], fields[4]};
    }
    return std::nullopt;
}

/// The location of `path` of the hierarchy under `mount`; the mount itself when the path is outside
/// of it.
std::string place(const Mount& mount, std::string_view path) {
    std::string folder{mount.point};
    if (mount.root != "/") {
        const bool is_below = path.starts_with(mount.root) &&
                              (path.size() == mount.root.size() || path[mount.root.size()] == '/');
        if (!is_below) return folder;
        path.remove_prefix(mount.root.size());
    }
    // A process outside of its cgroup namespace's root is shown as "/../...".
    if (path.empty() || path == "/" || path.starts_with("/..")) return folder;
    return folder + std::string{path};
}

bool contains(std::string_view text, std::string_view words) {
    return text.find(words) != std::string_view::npos;
}

}  // namespace
}  // namespace kernel_text

using namespace kernel_text;

std::optional<MemoryCgroup> find_memory_cgroup(
    std::string_view proc_cgroup, std::string_view mountinfo) {
    std::optional<std::string_view> unified;
    while (!proc_cgroup.empty()) {
        // "4:memory:/path", "0::/path"
        const auto line = take_line(proc_cgroup);
        const auto first = line.find(':');
        const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        const auto controllers = line.substr(first + 1, second - first - 1);
        const auto path = line.substr(second + 1);
        if (controllers.empty()) unified = path;
        if (!has_word(controllers, "memory")) continue;
        const auto mount = find_mount(mountinfo, 1);
        if (mount) return MemoryCgroup{1, place(*mount, path), std::string{mount->point}};
    }
    if (!unified) return std::nullopt;
    const auto mount = find_mount(mountinfo, 2);
    if (!mount) return std::nullopt;
    return MemoryCgroup{2, place(*mount, *unified), std::string{mount->point}};
}

std::optional<std::uint64_t> oom_kill_count(std::string_view text) {
    constexpr std::string_view name = "oom_kill ";
    while (!text.empty()) {
        const auto line = take_line(text);
        if (line.starts_with(name)) return number(line.substr(name.size()));
    }
    return std::nullopt;
}

std::optional<std::uint64_t> memory_limit(std::string_view text) {
    // Version 1 shows "no limit" as the largest multiple of the page size.
    constexpr std::uint64_t no_limit = 1ULL << 60;
    const auto limit = number(text);
    return limit && *limit < no_limit ? limit : std::nullopt;
}

std::string_view kernel_message(std::string_view record) {
    const auto head = record.find(';');
    if (head == std::string_view::npos) return {};
    record.remove_prefix(head + 1);
    return take_line(record);
}

bool is_oom_kill_of(std::string_view message, int pid) {
    const bool is_oom = contains(message, "ut of memory") || contains(message, "oom-kill") ||
                        contains(message, "oom_reaper");
    const auto number = std::to_string(pid);
    return is_oom && (contains(message, "process " + number + " (") ||
                      contains(message, "pid=" + number + ","));
}

bool is_about_crash(std::string_view message, int pid) {
    const auto number = std::to_string(pid);
    // Such a line may be about any process: Xid 79 names none.
    if (contains(message, "NVRM: Xid")) return true;
    const bool is_crash = contains(message, "segfault at ") ||
                          contains(message, "general protection") || contains(message, "trap ") ||
                          contains(message, "traps: ");
    return is_crash && contains(message, "[" + number + "]");
}

}  // namespace ddprun::agent
