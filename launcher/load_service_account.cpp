// SPDX-License-Identifier: Apache-2.0
#include "launcher/load_service_account.hpp"

#include "launcher/resolve/lease_options.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/tls/secret_file.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

const std::string origin = "--rdzv-backend=k8s";

Failure with_advice(const Failure& failure) {
    return {
        failure.code,
        failure.context +
            "; the pod needs its service account's token: no automountServiceAccountToken of "
            "false, or service_account=FOLDER in --rdzv-conf"};
}

/// Visible ASCII only, so that the token cannot change other parts of a request.
bool is_token(const std::string& text) {
    return std::all_of(
        text.begin(), text.end(), [](char letter) { return letter > ' ' && letter <= '~'; });
}

}  // namespace

Result<witness::EngineAccess> load_service_account(const std::string& folder) {
    witness::EngineAccess access;
    const auto authority = folder + "/ca.crt";
    auto text = tls::read_certificate_file(origin, authority, false);
    if (!text) return with_advice(text.error());
    tls::Certificates files;
    files.authorities = {origin + ": '" + authority + "'", std::move(*text)};
    auto credentials = tls::Credentials::read(files);
    if (!credentials) return credentials.error();
    access.credentials = std::move(*credentials);
    const auto path = folder + "/token";
    auto token = tls::read_token_file(origin, path);
    if (!token) return with_advice(token.error());
    if (!is_token(*token))
        return Failure{system_code(EINVAL), origin + ": '" + path + "': contains no token"};
    access.token = std::move(*token);
    return access;
}

Result<std::string> load_namespace(const std::string& folder) {
    const auto path = folder + "/namespace";
    auto text = tls::read_certificate_file(origin, path, false);
    if (!text) return with_advice(text.error());
    auto name = std::string{trimmed(*text)};
    if (!is_label(name))
        return Failure{
            system_code(EINVAL), origin + ": '" + path + "': contains no name of a namespace"};
    return name;
}

}  // namespace ddprun::launcher
