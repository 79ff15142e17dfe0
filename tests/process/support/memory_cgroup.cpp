// SPDX-License-Identifier: Apache-2.0
#include "tests/process/support/memory_cgroup.hpp"

#include "tests/process/support/wait.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace ddprun::test {
namespace {

bool write_text(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
}

}  // namespace

MemoryCgroup::MemoryCgroup(int limit_mebibytes) {
    const auto bytes = std::to_string(static_cast<long long>(limit_mebibytes) * 1024 * 1024);
    if (make("/sys/fs/cgroup/memory", "memory.limit_in_bytes", bytes)) {
        // Otherwise the excess goes to swap, and no process is killed.
        write_text(folder_ + "/memory.memsw.limit_in_bytes", bytes);
        return;
    }
    if (make("/sys/fs/cgroup", "memory.max", bytes)) {
        write_text(folder_ + "/memory.swap.max", "0");
        return;
    }
    why_not_ = "no memory cgroup can be made under /sys/fs/cgroup";
}

MemoryCgroup::~MemoryCgroup() {
    if (folder_.empty()) return;
    // The folder is busy until the kernel has removed the last member.
    holds_within(fact_timeout, [&] { return ::rmdir(folder_.c_str()) == 0 || errno != EBUSY; });
}

bool MemoryCgroup::make(
    const std::string& parent, const std::string& limit_file, const std::string& limit) {
    // A new name each time, since a killed test may have left one.
    auto folder = parent + "/ddprun-test-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return false;
    if (!write_text(folder + "/" + limit_file, limit)) {
        ::rmdir(folder.c_str());
        return false;
    }
    folder_ = folder;
    return true;
}

}  // namespace ddprun::test
