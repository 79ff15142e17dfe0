// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret_file.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace ddprun::tls {
namespace secret_file {
namespace {

/// Closes on every way out.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

private:
    int number_;
};

Failure wrong(const std::string& origin, const std::string& path, const std::string& what) {
    return {system_code(EINVAL), origin + ": '" + path + "': " + what};
}

FileStamp stamp_of(const struct stat& facts) {
    constexpr std::int64_t ns_per_second = 1'000'000'000;
    return {
        facts.st_dev,
        facts.st_ino,
        facts.st_mtim.tv_sec * ns_per_second + facts.st_mtim.tv_nsec,
        facts.st_size};
}

/// Empty: the file may have a secret.
std::string objection_to(const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return "is no regular file";
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0) return "belongs to another user";
    if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "can be written by other users: chmod go-w it";
    // A mounted Secret is root's, and readable to the group or to all of the container.
    if (facts.st_uid != 0 && (facts.st_mode & (S_IRGRP | S_IROTH)) != 0)
        return "can be read by other users: chmod go-r it";
    return {};
}

/// All of it, up to the limit and one byte more.
std::optional<std::string> read_all(int descriptor) {
    std::string text(limits::max_secret_file_bytes + 1, '\0');
    std::size_t used = 0;
    while (used < text.size()) {
        const auto size = ::read(descriptor, &text[used], text.size() - used);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return std::nullopt;
        if (size == 0) break;
        used += static_cast<std::size_t>(size);
    }
    text.resize(used);
    return text;
}

Result<SecretSource> read(const std::string& origin, const std::string& path, int flags) {
    // Without waiting for the writer of a pipe.
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags)};
    if (file.number() < 0) return wrong(origin, path, system_code(errno).message());
    struct stat facts {};
    if (::fstat(file.number(), &facts) != 0)
        return wrong(origin, path, system_code(errno).message());
    if (const auto objection = objection_to(facts); !objection.empty())
        return wrong(origin, path, objection);
    const auto text = read_all(file.number());
    if (!text) return wrong(origin, path, system_code(errno).message());
    if (text->size() > limits::max_secret_file_bytes)
        return wrong(
            origin,
            path,
            "has more than " + std::to_string(limits::max_secret_file_bytes) + " bytes");
    auto secrets = parse_secrets(*text);
    if (!secrets) return wrong(origin, path, secrets.error().context);
    return SecretSource{origin, path, std::move(*secrets), stamp_of(facts)};
}

/// Folders that others may enter already stay as they are.
bool make_folders(const std::string& path) {
    for (auto slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1))
        if (::mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST) return false;
    return true;
}

/// A whole file, or none: the name is given to it when it is written. Of several that are made at
/// the same time one gets the name, on a network file system too.
int make(const std::string& path) {
    if (!make_folders(path)) return errno;
    std::array<std::uint8_t, 32> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        return errno;
    auto unfinished = path + ".XXXXXX";
    // Mode 0600.
    const Descriptor file{::mkostemp(unfinished.data(), O_CLOEXEC)};
    if (file.number() < 0) return errno;
    const auto line = secret_line(random);
    const bool is_written =
        ::write(file.number(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
        ::fsync(file.number()) == 0;
    int problem = is_written ? 0 : errno;
    if (is_written && ::link(unfinished.c_str(), path.c_str()) != 0 && errno != EEXIST)
        problem = errno;
    ::unlink(unfinished.c_str());
    return problem;
}

}  // namespace
}  // namespace secret_file

Result<SecretSource> read_secret_file(const std::string& origin, const std::string& path) {
    return secret_file::read(origin, path, 0);
}

Result<SecretSource> read_or_make_secret_file(const std::string& origin, const std::string& path) {
    struct stat facts {};
    if (::lstat(path.c_str(), &facts) != 0 && errno == ENOENT)
        if (const int problem = secret_file::make(path))
            return secret_file::wrong(
                origin, path, "cannot be made: " + system_code(problem).message());
    return secret_file::read(origin, path, O_NOFOLLOW);
}

void Secrets::refresh() {
    struct stat facts {};
    const bool is_checked = !source_.path.empty() && ::stat(source_.path.c_str(), &facts) == 0;
    const auto stamp = is_checked ? secret_file::stamp_of(facts) : source_.stamp;
    if (stamp != source_.stamp && stamp != unread_) {
        auto read = read_secret_file(source_.origin, source_.path);
        if (read) {
            source_ = std::move(*read);
            keys_.clear();
            unread_.reset();
        } else {
            unread_ = stamp;
            log::warning(
                "secret.not_read",
                {{"reason", read.error().context}, {"effect", "the secrets before it still hold"}});
        }
    }
    if (keys_.empty()) derive();
}

void Secrets::derive() {
    for (const auto& secret : source_.secrets)
        keys_.push_back(tls::control_key(secret));
}

Key Secrets::control_key() {
    refresh();
    return keys_.front();
}

std::optional<Key> Secrets::find_control_key(std::string_view identity) {
    refresh();
    const auto found = std::find_if(
        keys_.begin(), keys_.end(), [&](const Key& key) { return key.identity == identity; });
    return found == keys_.end() ? std::nullopt : std::optional{*found};
}

Key Secrets::peer_key(const Nonce& callee) {
    refresh();
    return tls::peer_key(source_.secrets.front(), callee);
}

std::optional<Key> Secrets::find_peer_key(std::string_view identity, const Nonce& callee) {
    refresh();
    for (const auto& secret : source_.secrets)
        if (auto key = tls::peer_key(secret, callee); key.identity == identity) return key;
    return std::nullopt;
}

}  // namespace ddprun::tls
