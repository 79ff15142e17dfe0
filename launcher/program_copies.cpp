// SPDX-License-Identifier: Apache-2.0
#include "launcher/program_copies.hpp"

#include "launcher/hosts/old_copies.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* program_name = "ddprun";

/// Follows no link, and rejects a folder to which another user may write.
std::optional<struct stat> look_at_own(const fs::path& path, mode_t kind) {
    struct stat status {};
    const bool is_own = ::lstat(path.c_str(), &status) == 0 && (status.st_mode & S_IFMT) == kind &&
                        status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    return is_own ? std::optional{status} : std::nullopt;
}

/// The folder contains only the program: an unfinished copy has another file beside it.
bool is_finished_copy(const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator entry{folder, error}, end; !error && entry != end;
         entry.increment(error))
        if (entry->path().filename() != program_name) return false;
    return !error && look_at_own(folder / program_name, S_IFREG);
}

std::vector<ProgramCopy> copies_in(const fs::path& cache) {
    std::vector<ProgramCopy> copies;
    std::error_code error;
    for (fs::directory_iterator entry{cache, error}, end; !error && entry != end;
         entry.increment(error)) {
        const auto name = entry->path().filename().string();
        if (!is_copy_name(name)) continue;
        if (const auto folder = look_at_own(entry->path(), S_IFDIR))
            copies.push_back({name, folder->st_mtim.tv_sec});
    }
    return copies;
}

/// Removes a copy that no process uses. Each process of a copy holds a shared lock on it, on
/// whichever host, if the file system has locks between hosts. A copy that is executed on this host
/// also cannot be opened for writing.
void remove_unless_used(const fs::path& folder) {
    if (!is_finished_copy(folder)) return;
    const auto program = folder / program_name;
    const int opened = ::open(program.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (opened < 0) return;
    // Checked again under the lock: another host may just have begun to put a copy there.
    if (::flock(opened, LOCK_EX | LOCK_NB) == 0 && is_finished_copy(folder) &&
        ::unlink(program.c_str()) == 0)
        ::rmdir(folder.c_str());
    ::close(opened);
}

}  // namespace

void keep_few_program_copies(const std::string& own_target) {
    const fs::path program{own_target};
    const auto folder = program.parent_path();
    const auto cache = folder.parent_path();
    const auto own = folder.filename().string();
    if (program.filename() != program_name || !is_copy_name(own) ||
        !look_at_own(cache, S_IFDIR))
        return;
    // Stays open: the lock lasts until this process and the agent forked from it have ended.
    const int opened = ::open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (opened < 0 || ::flock(opened, LOCK_SH | LOCK_NB) != 0) return;
    for (const auto& name : old_copies(copies_in(cache), own, std::time(nullptr)))
        remove_unless_used(cache / name);
}

}  // namespace ddprun::launcher
