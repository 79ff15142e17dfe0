// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/process/ddprun/job.hpp"

#include <unistd.h>

#include <chrono>
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

/// The workers end when the file `go` exists.
inline std::string until_go(const TempDir& dir) {
    return "echo pid $$\necho up $WORLD_SIZE in $DDPRUN_ROUND\nwhile [ ! -e " +
           dir.path().string() + "/go ]; do sleep 0.1; done\necho done in $DDPRUN_ROUND\n";
}

/// Starts three nodes, of which the first leads, and waits until all run.
inline std::vector<Running> start_three(
    const TempDir& dir, const Etcd& etcd, const Words& options) {
    std::vector<Running> nodes;
    nodes.push_back(start_job(dir, etcd.options(options), until_go(dir)));
    nodes[0].wait_for_line("rendezvous.leader_changed .*epoch=1");
    for (int i = 0; i < 2; ++i)
        nodes.push_back(start_job(dir, etcd.options(options), until_go(dir)));
    for (auto& node : nodes)
        node.wait_for_line("up 3 in 0");
    return nodes;
}

/// Waits until the other nodes continue without the first: under the next leader, and then in
/// another round.
inline void wait_until_others_go_on(std::vector<Running>& nodes) {
    using std::chrono::seconds;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
        nodes[i].wait_for_line("rendezvous.leader_changed .*epoch=2", seconds{60});
        nodes[i].wait_for_line("up 2 in", seconds{90});
    }
}

}  // namespace ddprun::test
