// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/checkpoint/file.hpp"

#include "worker_sdk/src/checkpoint/format.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

namespace ddprun::checkpoint {
namespace {

constexpr std::string_view name_prefix = "checkpoint-";
constexpr std::string_view name_suffix = ".ddp";

class OpenFile {
public:
    OpenFile(const std::string& path, int flags, mode_t mode = 0)
        : number_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() {
        if (number_ >= 0) ::close(number_);
    }

    bool is_open() const { return number_ >= 0; }
    int number() const { return number_; }

    /// Some file systems report a failed write only here.
    bool close() {
        const int number = number_;
        number_ = -1;
        return ::close(number) == 0;
    }

private:
    int number_;
};

/// Fewer bytes than requested only at the end of the file; nothing on error.
std::optional<std::size_t> read_up_to(int file, std::byte* target, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
        const auto got = ::read(file, target + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        done += static_cast<std::size_t>(got);
    }
    return done;
}

bool write_all(int file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return true;
}

Failure system_failure(const std::string& what) {
    return {system_code(errno), what};
}

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Result<> write_and_flush(const std::string& path, std::span<const std::byte> bytes) {
    OpenFile file{path, O_WRONLY | O_CREAT | O_TRUNC, 0666};
    if (!file.is_open()) return system_failure("create " + path);
    if (!write_all(file.number(), bytes)) return system_failure("write " + path);
    if (::fsync(file.number()) != 0) return system_failure("flush " + path);
    if (!file.close()) return system_failure("close " + path);
    return {};
}

Result<> flush_folder(const std::string& path) {
    const OpenFile folder{path, O_RDONLY | O_DIRECTORY};
    // Some network file systems cannot flush a folder and return EINVAL; the rename is done
    // nevertheless.
    if (!folder.is_open() || (::fsync(folder.number()) != 0 && errno != EINVAL))
        return system_failure("flush folder " + path);
    return {};
}

}  // namespace

std::string file_name(Position position) {
    char text[64];
    std::snprintf(
        text,
        sizeof text,
        "checkpoint-%010llu-%012llu.ddp",
        static_cast<unsigned long long>(position.round),
        static_cast<unsigned long long>(position.step));
    return text;
}

std::optional<Position> position_in(std::string_view name) {
    if (!name.starts_with(name_prefix) || !name.ends_with(name_suffix)) return std::nullopt;
    if (name.size() > 64) return std::nullopt;
    name.remove_prefix(name_prefix.size());
    name.remove_suffix(std::min(name.size(), name_suffix.size()));
    Position position;
    const auto* end = name.data() + name.size();
    const auto round = std::from_chars(name.data(), end, position.round);
    if (round.ec != std::errc{} || round.ptr == end || *round.ptr != '-') return std::nullopt;
    const auto step = std::from_chars(round.ptr + 1, end, position.step);
    if (step.ec != std::errc{} || step.ptr != end) return std::nullopt;
    return position;
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
    const OpenFile file{path, O_RDONLY | O_NONBLOCK};
    if (!file.is_open()) return system_failure(path);
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) return system_failure(path);
    if (S_ISDIR(status.st_mode)) return Failure{system_code(EISDIR), path};
    if (!S_ISREG(status.st_mode)) return Failure{Fault::not_a_checkpoint, path};

    std::vector<std::byte> bytes(preamble_bytes);
    const auto preamble = read_up_to(file.number(), bytes.data(), bytes.size());
    if (!preamble) return system_failure(path);
    bytes.resize(*preamble);
    const auto size = file_size_in(bytes);
    if (!size) return Failure{size.error().code, path};
    const auto actual = static_cast<std::uint64_t>(status.st_size);
    if (actual < *size) return Failure{Fault::cut_short, path};
    if (actual > *size || *size < preamble_bytes) return Failure{Fault::malformed, path};

    bytes.resize(*size);
    const auto rest =
        read_up_to(file.number(), bytes.data() + preamble_bytes, bytes.size() - preamble_bytes);
    if (!rest) return system_failure(path);
    bytes.resize(preamble_bytes + *rest);
    return bytes;
}

Result<> write_file(const std::string& path, std::span<const std::byte> bytes) {
    const auto folder = folder_of(path);
    const auto name = path.substr(path.rfind('/') + 1);
    const auto unfinished =
        folder + "/" + std::string{unfinished_prefix} + std::to_string(::getpid()) + "-" + name;
    if (auto written = write_and_flush(unfinished, bytes); !written) {
        ::unlink(unfinished.c_str());
        return written;
    }
    if (::rename(unfinished.c_str(), path.c_str()) != 0) {
        auto failure = system_failure("rename to " + path);
        ::unlink(unfinished.c_str());
        return failure;
    }
    return flush_folder(folder);
}

}  // namespace ddprun::checkpoint
