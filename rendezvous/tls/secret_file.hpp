// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

/// Secrets in files, read by the rules of docs/secrets.md. Shells.
namespace ddprun::tls {

/// Links are followed: a mounted secret of Kubernetes is one. The file is opened once, and what is
/// open is checked. The context of a failure is "ORIGIN: 'PATH': what is wrong", its code EINVAL.
Result<SecretSource> read_secret_file(const std::string& origin, const std::string& path);

/// The file of `--secure`: made with a fresh secret if there is none. Of several nodes with one
/// home that make it at the same time all get the same. No link is followed.
Result<SecretSource> read_or_make_secret_file(const std::string& origin, const std::string& path);

/// One by the same rules that has another program's password, without the line feed at its end.
Result<std::string> read_password_file(const std::string& origin, const std::string& path);

/// Certificates, of at most `limits::max_certificate_file_bytes`: other users may read the file and
/// not write it. One that has a key is by the rules of secrets.
Result<std::string> read_certificate_file(
    const std::string& origin, const std::string& path, bool has_key);

/// The secrets that hold now: a file is looked at once each interval, and read again when it has
/// changed. One that cannot be read then, or is not there, leaves those before and is reported once
/// (`secret.not_read`).
///
/// The file may be on a network file system that does not answer. A thread of its own waits for it:
/// no call here does, nor the destructor. From any thread. Requires: `check_openssl` succeeded.
class Secrets {
public:
    explicit Secrets(SecretSource source, Duration interval = std::chrono::seconds{1});
    ~Secrets();
    Secrets(const Secrets&) = delete;
    Secrets& operator=(const Secrets&) = delete;

    /// The one that this end uses.
    Key control_key() const;
    /// One that the other end may use.
    std::optional<Key> find_control_key(std::string_view identity) const;
    /// The same for a call to the agent with this nonce.
    Key peer_key(const Nonce& callee) const;
    std::optional<Key> find_peer_key(std::string_view identity, const Nonce& callee) const;
    /// The same for a call to the agent that serves the store of this round.
    Key store_key(std::string_view incarnation, int round) const;
    std::optional<Key> find_store_key(
        std::string_view identity, std::string_view incarnation, int round) const;
    /// The one to show; and whether one is shown that holds.
    std::string page_token() const;
    bool accepts_page_token(std::string_view token) const;
    const std::string& name() const { return name_; }

private:
    struct State;
    static void watch(const std::shared_ptr<State>& state, Duration interval);

    std::string name_;
    /// Shared with the thread, which may be waiting for the file when this object is gone.
    std::shared_ptr<State> state_;
    /// Only where there is a file.
    std::thread thread_;
};

}  // namespace ddprun::tls
