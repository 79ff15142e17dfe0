// SPDX-License-Identifier: Apache-2.0
#include "launcher/log_folder.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::launcher {
namespace {

Failure refused(const OutputSpec& spec, const std::string& path, const std::string& why) {
    return {system_code(EINVAL), spec.log_dir_origin + ": '" + path + "': " + why};
}

std::string reason(int error_number) {
    return system_code(error_number).message();
}

/// Makes a new folder that only this user can access.
Result<std::string> make_fresh_folder(const OutputSpec& spec) {
    const bool is_torchs = spec.plan.layout == agent::LogLayout::torchrun;
    auto path = spec.temporary_folder + (is_torchs ? "/torchelastic_XXXXXX" : "/ddprun_XXXXXX");
    if (::mkdtemp(path.data()) == nullptr)
        return refused(
            spec,
            spec.temporary_folder,
            "cannot make a folder there: " + reason(errno) + "; name one with --log-dir=FOLDER");
    return path;
}

Result<std::string> make_named_folder(const OutputSpec& spec) {
    const std::filesystem::path path{spec.log_dir};
    std::error_code failed;
    std::filesystem::create_directories(path, failed);
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(path, ignored);
    if (!is_folder && std::filesystem::exists(path, ignored))
        return refused(
            spec, spec.log_dir, "is a file; accepted is a folder, or /dev/null for none");
    if (!is_folder) return refused(spec, spec.log_dir, "cannot be made: " + failed.message());
    if (::access(path.c_str(), W_OK | X_OK) != 0)
        return refused(spec, spec.log_dir, "nothing can be written there: " + reason(errno));
    return spec.log_dir;
}

}  // namespace

Result<> make_log_folder(OutputSpec& spec, std::string& notice) {
    if (!spec.has_files) return {};
    auto path = spec.log_dir.empty() ? make_fresh_folder(spec) : make_named_folder(spec);
    if (!path) return path.error();
    // Absolute, since a worker may change its folder before it writes its error file.
    std::error_code failed;
    spec.plan.log_dir = std::filesystem::absolute(*path, failed).lexically_normal().string();
    if (failed) spec.plan.log_dir = *path;
    while (spec.plan.log_dir.size() > 1 && spec.plan.log_dir.back() == '/')
        spec.plan.log_dir.pop_back();
    if (spec.log_dir.empty())
        notice =
            "output of the workers goes to " + spec.plan.log_dir + "; choose with --log-dir=FOLDER";
    return {};
}

}  // namespace ddprun::launcher
