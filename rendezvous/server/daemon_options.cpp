// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon_options.hpp"

#include "rendezvous/base/nearest.hpp"
#include "rendezvous/control/version_text.hpp"

#include <CLI/CLI.hpp>

#include <arpa/inet.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun::server {
namespace {

bool is_listenable(const std::string& host) {
    in6_addr ignored{};
    return host.empty() || host == "localhost" || inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

ExitNow misuse(const std::string& what) {
    return ExitNow{2, "ddprun-rendezvous: " + what + "\ntry 'ddprun-rendezvous --help'\n"};
}

/// The usage error for an unknown word of the command line.
ExitNow unknown(const CLI::App& app, const std::string& word) {
    if (!word.starts_with('-')) return misuse(word + ": it takes options only");
    const auto typed = std::string_view{word}.substr(0, word.find('='));
    std::vector<std::string> options;
    for (const auto* option : app.get_options())
        options.push_back(option->get_name());
    const std::vector<std::string_view> names{options.begin(), options.end()};
    const auto meant = nearest(typed, names);
    return misuse(
        std::string{typed} + ": unknown option" +
        (meant ? ": did you mean " + std::string{*meant} + "?" : ""));
}

/// Empty for a port. CLI11's message differs between its versions.
std::string port_error(const std::string& text) {
    std::uint16_t port = 0;
    const auto* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, port);
    // CLI11 takes a number that begins with 0 for an octal one.
    const bool is_octal = text.size() > 1 && text.front() == '0';
    if (parsed.ec == std::errc{} && parsed.ptr == end && !is_octal) return {};
    return text + ": a number from 0 to 65535";
}

}  // namespace

std::variant<DaemonOptions, ExitNow> parse_daemon_options(int argc, const char* const* argv) {
    DaemonOptions options;
    std::string level{log::level_name(options.log_level)};
    CLI::App app{
        "Rendezvous server for ddprun jobs, and c10d store for torchrun ones, on one port.\n"
        "SIGTERM detaches: jobs go on and find the next server at the same endpoint.\n"
        "Listening sockets of a service manager (LISTEN_FDS) are used instead of a port.\n",
        "ddprun-rendezvous"};
    app.add_option(
        "--host", options.host, "numeric address to listen on, or localhost (default: all)");
    app.add_option("--port", options.port, "port to listen on; 0 takes a free one")
        ->check(port_error, "0 to 65535")
        ->capture_default_str();
    app.add_option("--log-level", level, "trace, debug, info, warning or error")
        ->capture_default_str();
    bool has_legacy_c10d = false;
    app.add_flag(
        "--legacy-c10d", has_legacy_c10d, "serve store clients of PyTorch 2.1 too, not only newer");
    app.add_option(
        "--secret-file",
        options.secret_file,
        "agents must have the secret of this file; connections are encrypted");
    app.add_option(
        "--secret-dir",
        options.secret_dir,
        "a folder with a secret file for each tenant, whose jobs are its own");
    app.add_flag("--insecure", options.is_insecure, "no warning that there is no secret");
    app.set_version_flag("--version", control::version_text("ddprun-rendezvous"));
    app.allow_extras();
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        return ExitNow{0, app.help()};
    } catch (const CLI::CallForVersion& version) {
        return ExitNow{0, version.what()};
    } catch (const CLI::ParseError& error) {
        return misuse(error.what());
    }
    if (const auto extras = app.remaining(); !extras.empty()) return unknown(app, extras.front());
    if (!is_listenable(options.host))
        return misuse(
            "--host: " + options.host + ": a numeric address of this machine, or localhost");
    const auto known = log::parse_level(level);
    if (!known) return misuse("--log-level: " + level + ": trace, debug, info, warning or error");
    options.log_level = *known;
    if (has_legacy_c10d) options.accepted = wire::Accepted::legacy_too;
    // The path may come from a shell variable that is not set. The server would then be open.
    for (const auto* name : {"--secret-file", "--secret-dir"})
        if (app.count(name) > 0 && app.get_option(name)->as<std::string>().empty())
            return misuse(std::string{name} + ": the path is empty");
    if (options.is_insecure && !options.secret_file.empty())
        return misuse("--insecure: leave it out beside --secret-file");
    if (options.is_insecure && !options.secret_dir.empty())
        return misuse("--insecure: leave it out beside --secret-dir");
    if (!options.secret_file.empty() && !options.secret_dir.empty())
        return misuse(
            "--secret-file: leave it out beside --secret-dir, whose files are the secrets");
    options.is_place_given = app.count("--host") + app.count("--port") > 0;
    return options;
}

}  // namespace ddprun::server
