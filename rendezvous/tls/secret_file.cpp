// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret_file.hpp"

#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/tls/file_rules.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

namespace ddprun::tls {
namespace secret_file {
namespace {

FileStamp stamp_of(const struct stat& facts) {
    constexpr std::int64_t ns_per_second = 1'000'000'000;
    return {
        facts.st_dev,
        facts.st_ino,
        facts.st_mtim.tv_sec * ns_per_second + facts.st_mtim.tv_nsec,
        facts.st_size};
}

/// Why this file is not accepted as a file with a secret; empty: it is accepted.
std::string objection_to(const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return "is no regular file";
    if (auto objection = objection_to_owner(facts); !objection.empty()) return objection;
    if (auto objection = objection_to_writers(facts); !objection.empty()) return objection;
    // A secret mounted by Kubernetes belongs to root, and the group or all users of the container
    // can read it.
    if (facts.st_uid != 0 && (facts.st_mode & (S_IRGRP | S_IROTH)) != 0)
        return "can be read by other users: chmod go-r it";
    return {};
}

/// As `objection_to`, for a file that every user may read.
std::string objection_to_public(const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return "is no regular file";
    return objection_to_writers(facts);
}

/// Reads the whole file, but at most one byte more than `most`.
std::optional<std::string> read_all(int descriptor, std::size_t most) {
    std::string text(most + 1, '\0');
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

/// The rules for a file.
struct Rules {
    std::size_t most_bytes = limits::max_secret_file_bytes;
    /// No other user may read it.
    bool is_private = true;
    bool is_no_link = false;
};

struct Text {
    std::string text;
    FileStamp stamp;
};

Result<Text> read_text(const std::string& origin, const std::string& path, const Rules& rules) {
    // O_NONBLOCK, so that opening a pipe does not wait for its writer.
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (rules.is_no_link ? O_NOFOLLOW : 0);
    const Descriptor file{::open(path.c_str(), flags)};
    if (file.get() < 0) return wrong_file(origin, path, system_code(errno).message());
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0)
        return wrong_file(origin, path, system_code(errno).message());
    const auto objection = rules.is_private ? objection_to(facts) : objection_to_public(facts);
    if (!objection.empty()) return wrong_file(origin, path, objection);
    auto text = read_all(file.get(), rules.most_bytes);
    if (!text) return wrong_file(origin, path, system_code(errno).message());
    if (text->size() > rules.most_bytes)
        return wrong_file(
            origin, path, "has more than " + std::to_string(rules.most_bytes) + " bytes");
    return Text{std::move(*text), stamp_of(facts)};
}

Result<SecretSource> read(const std::string& origin, const std::string& path, bool is_no_link) {
    Rules rules;
    rules.is_no_link = is_no_link;
    const auto read = read_text(origin, path, rules);
    if (!read) return read.error();
    auto secrets = parse_secrets(read->text);
    if (!secrets) return wrong_file(origin, path, secrets.error().context);
    return SecretSource{origin, path, std::move(*secrets), read->stamp, is_no_link};
}

/// Reads a file whose text is one word, without the line feed at its end.
Result<std::string> read_line(
    const std::string& origin, const std::string& path, const Rules& rules) {
    auto read = read_text(origin, path, rules);
    if (!read) return read.error();
    auto& text = read->text;
    while (text.ends_with('\n') || text.ends_with('\r'))
        text.pop_back();
    if (text.empty()) return wrong_file(origin, path, "is empty");
    return std::move(text);
}

/// Existing folders that others may enter are not changed.
bool make_folders(const std::string& path) {
    for (auto slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1))
        if (::mkdir(path.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST) return false;
    return true;
}

/// Makes a complete file or none: the file gets its name when it is fully written. If several
/// processes do this at the same time, only one file gets the name, even on a network file system.
int make(const std::string& path) {
    if (!make_folders(path)) return errno;
    std::array<std::uint8_t, 32> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        return errno;
    auto unfinished = path + ".XXXXXX";
    // mkostemp sets mode 0600.
    const Descriptor file{::mkostemp(unfinished.data(), O_CLOEXEC)};
    if (file.get() < 0) return errno;
    const auto line = secret_line(random);
    const bool is_written =
        ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
        ::fsync(file.get()) == 0;
    int problem = is_written ? 0 : errno;
    if (is_written && ::link(unfinished.c_str(), path.c_str()) != 0 && errno != EEXIST)
        problem = errno;
    ::unlink(unfinished.c_str());
    return problem;
}

}  // namespace
}  // namespace secret_file

Result<SecretSource> read_secret_file(const std::string& origin, const std::string& path) {
    return secret_file::read(origin, path, false);
}

Result<std::string> read_password_file(const std::string& origin, const std::string& path) {
    return secret_file::read_line(origin, path, {});
}

Result<std::string> read_token_file(const std::string& origin, const std::string& path) {
    secret_file::Rules rules;
    rules.is_private = false;
    return secret_file::read_line(origin, path, rules);
}

Result<std::string> read_certificate_file(
    const std::string& origin, const std::string& path, bool has_key) {
    secret_file::Rules rules;
    rules.most_bytes = limits::max_certificate_file_bytes;
    rules.is_private = has_key;
    auto read = secret_file::read_text(origin, path, rules);
    if (!read) return read.error();
    return std::move(read->text);
}

Result<SecretSource> read_or_make_secret_file(const std::string& origin, const std::string& path) {
    struct stat facts {};
    if (::lstat(path.c_str(), &facts) != 0 && errno == ENOENT)
        if (const int problem = secret_file::make(path))
            return wrong_file(origin, path, "cannot be made: " + system_code(problem).message());
    return secret_file::read(origin, path, true);
}

struct Secrets::State {
    explicit State(SecretSource first) : source(std::move(first)), keys(keys_of(source)) {}

    static std::vector<Key> keys_of(const SecretSource& source);
    FileStamp stamp_now() const;
    /// May block on the file. None: the present secrets stay valid, since the file is unchanged or
    /// cannot be read.
    std::optional<SecretSource> read_if_changed();
    void check();
    /// The key with this identity among those that `key_of` makes of the secrets.
    template <class KeyOf>
    std::optional<Key> find_key(std::string_view identity, KeyOf key_of) const {
        const std::lock_guard lock(mutex);
        for (const auto& secret : source.secrets)
            if (auto key = key_of(secret); key.identity == identity) return key;
        return std::nullopt;
    }

    mutable std::mutex mutex;
    // The mutex guards `source`. Only `check` changes it, so it is read there without the mutex.
    SecretSource source;
    /// The keys of `source.secrets`, in order.
    std::vector<Key> keys;
    /// The stamp of a version that could not be read. Used by `check` only.
    std::optional<FileStamp> unread;
};

std::vector<Key> Secrets::State::keys_of(const SecretSource& source) {
    std::vector<Key> keys;
    for (const auto& secret : source.secrets)
        keys.push_back(tls::control_key(secret));
    return keys;
}

/// Returns an empty stamp for a missing file.
FileStamp Secrets::State::stamp_now() const {
    struct stat facts {};
    const auto* path = source.path.c_str();
    const int result = source.is_no_link ? ::lstat(path, &facts) : ::stat(path, &facts);
    return result == 0 ? secret_file::stamp_of(facts) : FileStamp{};
}

std::optional<SecretSource> Secrets::State::read_if_changed() {
    const auto stamp = stamp_now();
    if (stamp == source.stamp) unread.reset();
    if (stamp == source.stamp || stamp == unread) return std::nullopt;
    auto read = secret_file::read(source.origin, source.path, source.is_no_link);
    unread.reset();
    if (read) return std::move(*read);
    unread = stamp;
    log::warning(
        "secret.not_read",
        {{"reason", read.error().context}, {"effect", "the secrets before it still hold"}});
    return std::nullopt;
}

void Secrets::State::check() {
    auto changed = read_if_changed();
    if (!changed) return;
    auto changed_keys = keys_of(*changed);
    const std::lock_guard lock(mutex);
    source = std::move(*changed);
    keys = std::move(changed_keys);
}

Secrets::Secrets(SecretSource source, Duration interval)
    : name_(source.name()),
      state_(std::make_shared<State>(std::move(source))) {
    if (!state_->source.path.empty())
        watch_.emplace([state = state_] { state->check(); }, interval);
}

Key Secrets::control_key() const {
    const std::lock_guard lock(state_->mutex);
    return state_->keys.front();
}

std::optional<Key> Secrets::find_control_key(std::string_view identity) const {
    const std::lock_guard lock(state_->mutex);
    const auto& keys = state_->keys;
    const auto found = std::find_if(
        keys.begin(), keys.end(), [&](const Key& key) { return key.identity == identity; });
    return found == keys.end() ? std::nullopt : std::optional{*found};
}

Key Secrets::peer_key(const Nonce& callee) const {
    const std::lock_guard lock(state_->mutex);
    return tls::peer_key(state_->source.secrets.front(), callee);
}

std::optional<Key> Secrets::find_peer_key(std::string_view identity, const Nonce& callee) const {
    return state_->find_key(
        identity, [&](const Secret& secret) { return tls::peer_key(secret, callee); });
}

Key Secrets::vote_key(const Nonce& voter) const {
    const std::lock_guard lock(state_->mutex);
    return tls::vote_key(state_->source.secrets.front(), voter);
}

std::optional<Key> Secrets::find_vote_key(std::string_view identity, const Nonce& voter) const {
    return state_->find_key(
        identity, [&](const Secret& secret) { return tls::vote_key(secret, voter); });
}

Key Secrets::store_key(std::string_view incarnation, int round) const {
    const std::lock_guard lock(state_->mutex);
    return tls::store_key(state_->source.secrets.front(), incarnation, round);
}

std::optional<Key> Secrets::find_store_key(
    std::string_view identity, std::string_view incarnation, int round) const {
    return state_->find_key(identity, [&](const Secret& secret) {
        return tls::store_key(secret, incarnation, round);
    });
}

std::string Secrets::page_token() const {
    const std::lock_guard lock(state_->mutex);
    return tls::page_token(state_->source.secrets.front());
}

bool Secrets::accepts_page_token(std::string_view token) const {
    if (token.empty()) return false;
    const std::lock_guard lock(state_->mutex);
    const auto& secrets = state_->source.secrets;
    return std::any_of(secrets.begin(), secrets.end(), [&](const Secret& secret) {
        return are_equal_tokens(tls::page_token(secret), token);
    });
}

}  // namespace ddprun::tls
