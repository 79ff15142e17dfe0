// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/report/report_frame.hpp"
#include "launcher/hosts/fan_out.hpp"
#include "launcher/hosts/host_script.hpp"
#include "launcher/hosts/whole_lines.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// A program, its arguments and its environment.
struct HostCommand {
    /// A path.
    std::string program;
    /// argv, argv[0] included.
    std::vector<std::string> arguments;
    /// "NAME=value"
    std::vector<std::string> environment;
    /// The limit of open descriptors for the program: this process may have raised its own.
    std::optional<rlimit> descriptor_limit;
};

/// Runs the process that leads to the node of one host for FanOut (ssh, or ddprun itself on this
/// machine), with three pipes to it. The process has its own session: a terminal's Ctrl-C is sent
/// to the nodes as a signal, and must not cut the connections.
class HostConnection {
public:
    struct Callbacks {
        std::function<void(FanOut::Event event)> post;
        /// Output of the node, once the job has begun.
        std::function<void(int descriptor, std::string text)> output;
        std::function<bool()> is_output_full;
    };
    struct Identity {
        int host = 0;
        std::string token;
        bool is_ssh = true;
        /// This host is the only one, so its output is passed on byte for byte as it arrives.
        bool is_alone = false;
    };

    HostConnection(boost::asio::io_context& io, Identity identity, Callbacks callbacks);
    ~HostConnection();
    HostConnection(const HostConnection&) = delete;
    HostConnection& operator=(const HostConnection&) = delete;

    /// Returns an errno.
    int start(const HostCommand& command);
    pid_t pid() const { return pid_; }
    void send(std::shared_ptr<const std::string> bytes);
    /// From now on all bytes are output of the node.
    void begin_node() { has_begun_ = true; }
    void read_on();
    void kill() const;
    /// The process has ended and was reaped.
    void reaped(int status);

private:
    struct Stream {
        Stream(boost::asio::io_context& io, int shown_on) : pipe(io), descriptor(shown_on) {}

        boost::asio::posix::stream_descriptor pipe;
        int descriptor;
        WholeLines lines;
        std::array<char, 64 * 1024> chunk{};
        bool is_reading = false;
    };

    void read(Stream& stream);
    ssize_t read_now(Stream& stream);
    void drain(Stream& stream);
    void take(Stream& stream, std::string_view bytes);
    void take_answers();
    void show(Stream& stream, const std::string& text);
    void write_next();

    Identity identity_;
    Callbacks callbacks_;
    boost::asio::posix::stream_descriptor input_;
    Stream out_;
    Stream err_;
    std::deque<std::shared_ptr<const std::string>> unsent_;
    bool has_begun_ = false;
    AnswerReader answers_;
    agent::FrameReader frames_;
    /// The end of what ssh, or a start-up file of the host, wrote before the job began.
    std::string words_;
    pid_t pid_ = -1;
};

}  // namespace ddprun::launcher
