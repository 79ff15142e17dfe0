// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/error_file_reader.hpp"

#include "rendezvous/base/limits.hpp"

#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddprun::agent {
namespace {

/// The first `limits::max_error_file_bytes` of a regular file; a pipe of that name is not waited
/// for.
std::optional<std::string> read_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return std::nullopt;
    std::string text;
    struct stat about {};
    if (::fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
        std::array<char, 16 * 1024> chunk{};
        while (text.size() < limits::max_error_file_bytes) {
            const auto size = ::read(file, chunk.data(), chunk.size());
            if (size <= 0) break;
            text.append(chunk.data(), static_cast<std::size_t>(size));
        }
    }
    ::close(file);
    return text;
}

}  // namespace

void ErrorFileReader::read(std::string path, OnRead on_read) {
    boost::asio::post(
        thread_, [this, path = std::move(path), on_read = std::move(on_read)]() mutable {
            auto text = read_file(path);
            auto report = text ? parse_error_file(*text) : std::nullopt;
            if (text) ::unlink(path.c_str());
            boost::asio::post(
                agent_, [on_read = std::move(on_read), report = std::move(report)]() mutable {
                    on_read(std::move(report));
                });
        });
}

void ErrorFileReader::remove(std::vector<std::string> paths) {
    boost::asio::post(thread_, [paths = std::move(paths)] {
        for (const auto& path : paths)
            ::unlink(path.c_str());
    });
}

}  // namespace ddprun::agent
