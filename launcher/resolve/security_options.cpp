// SPDX-License-Identifier: Apache-2.0
#include "launcher/resolve/security_options.hpp"

#include "launcher/resolve/resolving.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

/// The value is in no message.
Result<SecretChoice> of_variable(std::string_view value) {
    auto secrets = tls::parse_secrets(value);
    if (!secrets)
        return Failure{
            secrets.error().code, secret_variable + ": " + secrets.error().context};
    return SecretChoice{
        SecretChoice::Place::variable, secret_variable, {}, std::move(*secrets), false};
}

Result<SecretChoice> of_own_file(const Environment& environment, const Given& secure) {
    const auto home = value_of(environment, "HOME");
    if (!home)
        return Failure{
            system_code(EINVAL),
            secure.origin +
                ": HOME is not set, and the secret is in ~/.config/ddprun/secret; use "
                "--rdzv-secret-file=PATH"};
    return SecretChoice{
        SecretChoice::Place::own_file,
        secure.origin,
        std::string{*home} + "/.config/ddprun/secret",
        {},
        false};
}

}  // namespace

Result<SecretChoice> choose_secret(const Options& options, const Environment& environment) {
    if (const auto file = options.find("rdzv-secret-file"))
        return SecretChoice{SecretChoice::Place::file, file->origin, file->text, {}, false};
    if (const auto variable = value_of(environment, secret_variable)) return of_variable(*variable);
    if (options.has_flag("secure")) return of_own_file(environment, *options.find("secure"));
    return SecretChoice{};
}

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
    if (file && variable)
        job.note(
            log::Level::warning,
            "option.ignored",
            secret_variable + ": the secret of " + file->origin + " is used");
    auto choice = choose_secret(job.options, job.system.environment);
    if (!choice) return choice.error();
    job.spec.secret = std::move(*choice);
    if (!has_secret) job.spec.secret.is_missed = !is_insecure && nodes.max + nodes.spares > 1;
    return {};
}

}  // namespace ddprun::launcher
