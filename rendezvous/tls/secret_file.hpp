// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/tls/file_watch.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/secret.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// Secrets in files, read by the rules of docs/secrets.md. Shells.
namespace ddprun::tls {

/// Links are followed, since Kubernetes mounts a secret as a link. The file is opened once, and the
/// checks apply to the open file. The context of a failure is "ORIGIN: 'PATH': ERROR", its code
/// EINVAL.
Result<SecretSource> read_secret_file(const std::string& origin, const std::string& path);

/// The file of `--secure`, made with a new secret if there is none. If several nodes with one home
/// make it at the same time, all get the same secret. No link is followed.
Result<SecretSource> read_or_make_secret_file(const std::string& origin, const std::string& path);

/// Reads another program's password by the same rules, without the line feed at its end.
Result<std::string> read_password_file(const std::string& origin, const std::string& path);

/// Reads the token of a pod's service account. Other users may read the file but not write it: the
/// kubelet chooses its mode, and gives it to the pod's group when the pod has an `fsGroup`.
Result<std::string> read_token_file(const std::string& origin, const std::string& path);

/// Reads certificates, of at most `limits::max_certificate_file_bytes`. Other users may read the
/// file but not write it. A file with a key must follow the rules for secrets.
Result<std::string> read_certificate_file(
    const std::string& origin, const std::string& path, bool has_key);

/// The secrets that are valid now. A file is checked once each interval, and read again when it has
/// changed. If it is missing or cannot be read then, the earlier secrets stay valid, and
/// `secret.not_read` is logged once.
///
/// The file may be on a network file system that does not answer. Only a separate thread waits for
/// it: no function of this class blocks on it, not even the destructor. May be used from any
/// thread. Requires: `check_openssl` succeeded.
class Secrets {
public:
    explicit Secrets(SecretSource source, Duration interval = std::chrono::seconds{1});

    /// The key that this end uses.
    Key control_key() const;
    /// A key that the other end may use.
    std::optional<Key> find_control_key(std::string_view identity) const;
    /// The key for a call to the agent with this nonce.
    Key peer_key(const Nonce& callee) const;
    std::optional<Key> find_peer_key(std::string_view identity, const Nonce& callee) const;
    /// The key for a request to this voter.
    Key vote_key(const Nonce& voter) const;
    std::optional<Key> find_vote_key(std::string_view identity, const Nonce& voter) const;
    /// The key for a call to the agent that serves the store of this round.
    Key store_key(std::string_view incarnation, int round) const;
    std::optional<Key> find_store_key(
        std::string_view identity, std::string_view incarnation, int round) const;
    /// The token for requests of this end; and whether the token of another end's request is valid.
    std::string page_token() const;
    bool accepts_page_token(std::string_view token) const;
    const std::string& name() const { return name_; }

private:
    struct State;

    std::string name_;
    /// Shared with a check that may outlast this object.
    std::shared_ptr<State> state_;
    /// None: there is no file.
    std::optional<FileWatch> watch_;
};

}  // namespace ddprun::tls
