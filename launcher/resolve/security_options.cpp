// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/security_options.hpp"

#include "launcher/resolve/resolving.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

const std::string secret_variable = "DDPRUN_SECRET";

Result<> use_file(Resolving& job, const Given& file, bool has_variable) {
    if (has_variable)
        job.note(
            log::Level::warning,
            "option.ignored",
            secret_variable + ": the secret of " + file.origin + " is used");
    job.spec.secret = {SecretChoice::Place::file, file.origin, file.text, {}, false};
    return {};
}

/// The value is in no message.
Result<> use_variable(Resolving& job, std::string_view value) {
    auto secrets = tls::parse_secrets(value);
    if (!secrets)
        return Failure{secrets.error().code, secret_variable + ": " + secrets.error().context};
    job.spec.secret = {
        SecretChoice::Place::variable, secret_variable, {}, std::move(*secrets), false};
    return {};
}

Result<> use_own_file(Resolving& job, const Given& secure) {
    const auto home = value_of(job.system.environment, "HOME");
    if (!home)
        return Failure{
            system_code(EINVAL),
            secure.origin +
                ": HOME is not set, and the secret is in ~/.config/ddprun/secret; use "
                "--rdzv-secret-file=PATH"};
    job.spec.secret = {
        SecretChoice::Place::own_file,
        secure.origin,
        std::string{*home} + "/.config/ddprun/secret",
        {},
        false};
    return {};
}

}  // namespace

Result<> resolve_secret(Resolving& job) {
    // Workers, and what they start, have no use for it.
    job.spec.environment.erase(secret_variable);
    const auto& nodes = job.spec.nodes.value;
    const auto file = job.options.find("rdzv-secret-file");
    const auto variable = value_of(job.system.environment, secret_variable);
    const bool is_secure = job.options.has_flag("secure");
    const bool has_secret = file || variable || is_secure;
    const bool is_insecure = job.options.has_flag("insecure");
    if (is_insecure && has_secret)
        return Failure{
            system_code(EINVAL),
            job.options.find("insecure")->origin + ": leave it out beside " +
                (file        ? file->origin
                 : is_secure ? job.options.find("secure")->origin
                             : secret_variable)};
    if (is_secure && (file || variable))
        job.note(
            log::Level::warning,
            "option.ignored",
            job.options.find("secure")->origin + ": the secret of " +
                (file ? file->origin : secret_variable) + " is used");
    if (file) return use_file(job, *file, variable.has_value());
    if (variable) return use_variable(job, *variable);
    if (is_secure) return use_own_file(job, *job.options.find("secure"));
    job.spec.secret.is_missed = !is_insecure && nodes.max + nodes.spares > 1;
    return {};
}

}  // namespace ddprun::launcher
