// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/ddprun/elected_nodes.hpp"
#include "tests/process/ddprun/job.hpp"

#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

/// Jobs whose nodes elect the server by a real etcd.
namespace ddprun::test {

inline constexpr const char* etcd_program = "/usr/bin/etcd";

inline std::string why_no_etcd() {
    return ::access(etcd_program, X_OK) == 0 ? "" : "no etcd here (Debian's etcd-server)";
}

/// A real etcd on the loopback; its data is in a folder and outlives the process.
class Etcd {
public:
    /// `options` are added to those of every start.
    explicit Etcd(std::string protocol = "http", Words options = {})
        : protocol_(std::move(protocol)),
          options_(std::move(options)) {
        start();
    }

    void start() {
        const auto own = protocol_ + "://" + client_;
        const auto peer = "http://127.0.0.1:" + std::to_string(peer_port_);
        process_ = std::make_unique<Running>(
            etcd_program,
            Words{
                "--data-dir=" + dir_.path().string() + "/data",
                "--listen-client-urls=" + own,
                "--advertise-client-urls=" + own,
                "--listen-peer-urls=" + peer,
                "--initial-advertise-peer-urls=" + peer,
                "--initial-cluster=default=" + peer} +
                options_);
        process_->wait_for_line("ready to serve client requests|serving .*client requests");
    }
    void kill() {
        process_->signal(SIGKILL);
        process_->wait_for_exit();
    }
    void end() {
        process_->signal(SIGTERM);
        process_->wait_for_exit();
    }
    void stop() const { process_->signal(SIGSTOP); }
    void go_on() const { process_->signal(SIGCONT); }

    const std::string& client() const { return client_; }
    Words options(const Words& more) const { return options_by(client_, more); }
    Running start_node(const TempDir& dir, const Words& more, const std::string& script) const {
        return start_job(dir, options(more), script);
    }
    /// The options for a node that reaches etcd by `endpoint`, which may be a proxy.
    static Words options_by(const std::string& endpoint, const Words& more) {
        return Words{
                   "--rdzv-backend=etcd",
                   "--rdzv-id=tested",
                   "--rdzv-endpoint=" + endpoint,
                   "--rdzv-conf=last_call_timeout=60",
                   "--log-level=debug"} +
               more;
    }

private:
    std::string protocol_;
    Words options_;
    TempDir dir_;
    std::string client_ = "127.0.0.1:" + std::to_string(free_port());
    int peer_port_ = free_port();
    std::unique_ptr<Running> process_;
};

}  // namespace ddprun::test
