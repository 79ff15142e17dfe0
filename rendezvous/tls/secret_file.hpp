// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Secrets in files, read by the rules of docs/secrets.md. Shells: for one thread each.
namespace ddprun::tls {

/// Links are followed: a mounted secret of Kubernetes is one. The file is opened once, and what is
/// open is checked. The context of a failure is "ORIGIN: 'PATH': what is wrong", its code EINVAL.
Result<SecretSource> read_secret_file(const std::string& origin, const std::string& path);

/// The file of `--secure`: made with a fresh secret if there is none. Of several nodes with one
/// home that make it at the same time all get the same. No link is followed.
Result<SecretSource> read_or_make_secret_file(const std::string& origin, const std::string& path);

/// The secrets that hold now: a file is read again when it has changed. One that cannot be read
/// then leaves those before, and is reported once (`secret.not_read`).
class Secrets {
public:
    explicit Secrets(SecretSource source) : source_(std::move(source)) {}

    /// The one that this end uses.
    Key control_key();
    /// One that the other end may use.
    std::optional<Key> find_control_key(std::string_view identity);
    /// The same for a call to the agent with this nonce.
    Key peer_key(const Nonce& callee);
    std::optional<Key> find_peer_key(std::string_view identity, const Nonce& callee);
    const std::string& name() const { return source_.name(); }

private:
    void refresh();
    void derive();

    SecretSource source_;
    /// Of `source_.secrets`, in order; empty before the first use.
    std::vector<Key> keys_;
    /// Read without success.
    std::optional<FileStamp> unread_;
};

}  // namespace ddprun::tls
