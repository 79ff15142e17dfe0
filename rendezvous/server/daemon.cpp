// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon.hpp"

#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/net/threads.hpp"
#include "rendezvous/server/daemon_options.hpp"
#include "rendezvous/server/log_writer.hpp"
#include "rendezvous/server/rendezvous_server.hpp"
#include "rendezvous/server/service_manager.hpp"
#include "rendezvous/server/tenant_bounds.hpp"
#include "rendezvous/server/unproved_callers.hpp"
#include "rendezvous/tls/secret_file.hpp"
#include "rendezvous/tls/session.hpp"
#include "rendezvous/tls/tenant_directory.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::server {
namespace daemon {
namespace {

/// Descriptors for the daemon itself, its store, and a few callers.
constexpr int needed_descriptors = 32;

/// Blocks the signals that end the daemon, for `sigwait`, and returns them. A signal that was
/// ignored at the start (nohup) stays ignored.
sigset_t hold_back_signals() {
    sigset_t awaited;
    sigemptyset(&awaited);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        struct sigaction found {};
        sigaction(signal, nullptr, &found);
        if (found.sa_handler != SIG_IGN) sigaddset(&awaited, signal);
    }
    pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    return awaited;
}

/// While it exists, no thread that logs waits for standard error.
class LogToWriter {
public:
    LogToWriter() {
        log::set_sink([this](std::string line) { writer_.write(std::move(line)); });
    }
    ~LogToWriter() { log::set_sink(nullptr); }
    LogToWriter(const LogToWriter&) = delete;
    LogToWriter& operator=(const LogToWriter&) = delete;

private:
    LogWriter writer_{STDERR_FILENO};
};

int refuse(int code, const std::string& reason) {
    std::fprintf(stderr, "ddprun-rendezvous: %s\n", reason.c_str());
    return code;
}

/// Describes why the server did not start, with the process that holds a port in use, or with the
/// inherited sockets.
std::string describe(Failure failure, std::uint16_t port, const Activation& activation) {
    if (const auto count = activation.sockets.size(); count > 0)
        failure.context = "LISTEN_FDS=" + std::to_string(count) + ": " + failure.context;
    const bool is_in_use = failure.code == boost::asio::error::address_in_use;
    const auto holder = is_in_use ? net::listener_on_port(port) : std::string{};
    if (!holder.empty()) failure.context += " (held by " + holder + ")";
    return failure.describe();
}

bool is_beyond_loopback(const DaemonOptions& options) {
    return options.host != "localhost" && !is_loopback(options.host);
}

Result<SecretsOrigin> read_tenants(const DaemonOptions& options) {
    auto folder = tls::read_tenant_folder("--secret-dir", options.secret_dir);
    if (!folder) return folder.error();
    log::info(
        "security.tenants",
        {{"count", folder->tenants.all().size()}, {"folder", options.secret_dir}});
    return SecretsOrigin{std::move(*folder)};
}

Result<SecretsOrigin> read_secrets(const DaemonOptions& options) {
    const bool has_file = !options.secret_file.empty();
    const bool has_tenants = !options.secret_dir.empty();
    const char* variable = std::getenv(tls::secret_variable);
    if (!has_file && !has_tenants && variable == nullptr) return SecretsOrigin{};
    if (!has_file && !has_tenants && options.is_insecure)
        return Failure{system_code(EINVAL), "--insecure: leave it out beside DDPRUN_SECRET"};
    if (auto checked = tls::check_openssl(); !checked) return checked.error();
    if ((has_file || has_tenants) && variable != nullptr)
        log::warning(
            "option.ignored",
            {{"reason",
              has_tenants ? "DDPRUN_SECRET: the secrets of --secret-dir are used"
                          : "DDPRUN_SECRET: the secret of --secret-file is used"}});
    if (has_tenants) return read_tenants(options);
    auto read = has_file ? tls::read_secret_file("--secret-file", options.secret_file)
                         : tls::secrets_of_variable(variable);
    if (!read) return read.error();
    return SecretsOrigin{std::move(*read)};
}

}  // namespace
}  // namespace daemon

int run_daemon(int argc, const char* const* argv) {
    const auto parsed = parse_daemon_options(argc, argv);
    if (const auto* exit = std::get_if<ExitNow>(&parsed)) {
        std::fputs(exit->text.c_str(), exit->code == 0 ? stdout : stderr);
        return exit->code;
    }
    const auto& options = std::get<DaemonOptions>(parsed);
    log::set_level(options.log_level);
    const auto taken = take_activation();
    if (const auto* mistake = std::get_if<std::string>(&taken))
        return daemon::refuse(exit_codes::usage, *mistake);
    const auto& activation = std::get<Activation>(taken);
    if (!activation.sockets.empty() && options.is_place_given)
        return daemon::refuse(
            exit_codes::usage,
            "--host, --port: leave them out, LISTEN_FDS=" +
                std::to_string(activation.sockets.size()) + " has sockets that listen already");
    if (const auto lacking = net::lacking_descriptors(daemon::needed_descriptors); !lacking.empty())
        return daemon::refuse(exit_codes::internal_error, lacking);
    auto secrets = daemon::read_secrets(options);
    if (!secrets) return daemon::refuse(exit_codes::usage, secrets.error().context);
    net::prepare_descriptors();
    net::prepare_threads();
    const auto awaited = daemon::hold_back_signals();
    const daemon::LogToWriter log_to_writer;

    RendezvousServer::Options server_options;
    server_options.listen = listen_on("", options.host, options.port);
    server_options.version = build::version;
    server_options.inherited = activation.sockets;
    server_options.accepted = options.accepted;
    server_options.secrets = std::move(*secrets);
    const bool has_secret = !std::holds_alternative<std::monostate>(server_options.secrets);
    RendezvousServer server(std::move(server_options));
    if (const auto port = server.start(); !port)
        return daemon::refuse(1, daemon::describe(port.error(), options.port, activation));
    const log::Field callers{"callers", limits::max_unproved_callers};
    const log::Field handshakes{"handshakes", limits::max_tls_handshakes};
    const log::Field unproved{"most_mib", most_unproved_bytes / (1024 * 1024)};
    if (!options.secret_dir.empty())
        log::info(
            "security.bounds",
            {callers, handshakes, unproved, {"tenant_mib", most_tenant_bytes / (1024 * 1024)}});
    else if (has_secret)
        log::info("security.bounds", {callers, handshakes, unproved});
    if (!has_secret && !options.is_insecure && daemon::is_beyond_loopback(options))
        log::warning(
            "security.none",
            {{"effect", "every program that reaches the port can join, stop and read every job"},
             {"next_step",
              "--secret-file=FILE closes it, --insecure leaves it open without this"}});
    notify_manager(activation.notify_socket, "READY=1");
    int signal = 0;
    sigwait(&awaited, &signal);
    log::info("rendezvous.detached", {{"signal", signal}});
    notify_manager(activation.notify_socket, "STOPPING=1");
    server.drain();
    return 0;
}

}  // namespace ddprun::server
