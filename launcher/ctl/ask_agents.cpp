// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/ask_agents.hpp"

#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/descriptor.hpp"
#include "rendezvous/base/endpoint.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/percent.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/client/blocking_socket.hpp"
#include "rendezvous/client/client_error.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/net/abstract_address.hpp"
#include "rendezvous/net/local_users.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace ddprun::launcher::ctl {
namespace {

constexpr const char* table_path = "/proc/net/unix";

Result<std::string> read_table() {
    const Descriptor file{::open(table_path, O_RDONLY | O_CLOEXEC)};
    if (!file) return Failure{system_code(errno), table_path};
    std::string text;
    std::array<char, 64 * 1024> part{};
    while (text.size() < limits::max_local_socket_table_bytes) {
        const auto size = ::read(file.get(), part.data(), part.size());
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return Failure{system_code(errno), table_path};
        if (size == 0) break;
        text.append(part.data(), static_cast<std::size_t>(size));
    }
    return text;
}

/// Opens a non-blocking connection to a local socket.
Result<Descriptor> connect_to(const std::string& name) {
    if (name.size() > net::AbstractAddress::most_bytes)
        return Failure{system_code(ENAMETOOLONG), {}};
    const net::AbstractAddress address(name);
    Descriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return Failure{system_code(errno), {}};
    if (::connect(socket.get(), address.get(), address.size) != 0)
        return Failure{system_code(errno), {}};
    return socket;
}

/// The user of the process that listens at the other end.
std::optional<unsigned> listener_of(const Descriptor& socket) {
    ucred about{};
    socklen_t size = sizeof about;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &about, &size) != 0)
        return std::nullopt;
    return about.uid;
}

/// Which agents this process may query: root any agent, another user only its own.
bool may_ask(unsigned user) {
    const auto own_user = ::getuid();
    return own_user == 0 || (user == own_user && net::means_one_user(user).value_or(false));
}

/// Other errors, a full queue or a closed connection may come from a busy agent, or be caused by
/// another user.
bool is_gone(const Failure& failure) {
    return failure.code == system_code(ECONNREFUSED);
}

/// One request on one connection.
struct Call {
    Descriptor socket;
    control::CommandReplyDecoder decoder = {};
    AgentAnswer answer = {};

    bool is_open() const { return static_cast<bool>(socket); }
    void end(std::string problem) {
        answer.problem = std::move(problem);
        socket = Descriptor{};
    }
    void send(const std::string& frame);
    void receive();
};

void Call::send(const std::string& frame) {
    // The first bytes on a new connection always fit.
    const auto sent = ::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(frame.size())) end("it closed the connection");
}

void Call::receive() {
    std::array<char, 16 * 1024> bytes{};
    const auto size = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return end("it closed the connection");
    decoder.append({bytes.data(), static_cast<std::size_t>(size)});
    auto reply = decoder.next();
    if (!reply) return end("its answer is not understood: " + reply.error().describe());
    if (!*reply) return;
    answer.reply = std::move(**reply);
    socket = Descriptor{};
}

/// Waits until each call has its answer, or the time is over.
void finish(std::vector<Call>& calls, Duration timeout) {
    const auto ends_at = Clock::now() + timeout;
    for (;;) {
        std::vector<pollfd> waits;
        std::vector<Call*> waiting;
        for (auto& call : calls) {
            if (!call.is_open()) continue;
            waits.push_back({call.socket.get(), POLLIN, 0});
            waiting.push_back(&call);
        }
        if (waits.empty()) return;
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(ends_at - Clock::now()).count();
        if (left <= 0) break;
        if (::poll(waits.data(), waits.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
        for (std::size_t i = 0; i < waits.size(); ++i)
            if (waits[i].revents != 0) waiting[i]->receive();
    }
    for (auto& call : calls)
        if (call.is_open()) call.end("no answer");
}

bool is_plain_in_query(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

/// Connects to the first address that accepts.
Result<client::BlockingSocket> connect_to_server(const Endpoint& endpoint, Instant until) {
    auto addresses = client::BlockingSocket::resolve(endpoint);
    if (!addresses) return addresses.error();
    Failure last{system_code(EADDRNOTAVAIL), endpoint.to_string()};
    for (const auto& address : *addresses) {
        auto socket = client::BlockingSocket::connect(address, until);
        if (socket) return socket;
        last = socket.error();
    }
    return last;
}

Result<std::string> http_get(
    const Endpoint& endpoint, const std::string& target, const std::string& token) {
    const auto until = Clock::now() + limits::http_timeout;
    auto socket = connect_to_server(endpoint, until);
    if (!socket) return socket.error();
    const auto request = "GET " + target + " HTTP/1.1\r\nHost: " + endpoint.to_string() +
                         (token.empty() ? "" : "\r\nAuthorization: Bearer " + token) +
                         "\r\nConnection: close\r\n\r\n";
    if (const auto sent = socket->send(request, until); !sent) return sent.error();
    std::string answer;
    while (answer.size() <= limits::max_page_bytes + limits::max_http_header_bytes) {
        const auto bytes = socket->receive(until);
        const bool is_end = !bytes && bytes.error().code == client::Error::server_closed;
        if (is_end) return answer;
        if (!bytes) return bytes.error();
        if (bytes->empty()) return Failure{system_code(ETIMEDOUT), endpoint.to_string()};
        answer += *bytes;
    }
    return Failure{system_code(EMSGSIZE), endpoint.to_string()};
}

}  // namespace

Result<FoundAgents> find_agents() {
    const auto table = read_table();
    if (!table) return table.error();
    FoundAgents found;
    std::vector<Call> calls;
    for (auto& socket : agent_sockets(*table)) {
        if (calls.size() == limits::max_command_agents) break;
        auto connection = connect_to(socket.name);
        if (!connection && is_gone(connection.error())) continue;
        const auto user = connection ? listener_of(*connection) : std::optional{socket.user};
        if (!user || !may_ask(*user)) {
            found.pids_of_others.push_back(socket.pid);
            continue;
        }
        found.agents.push_back({std::move(socket), *user});
        auto& call = calls.emplace_back();
        if (!connection) {
            call.end("no answer: " + connection.error().code.message());
            continue;
        }
        call.socket = std::move(*connection);
        call.send(control::encode(control::Command{control::ShowNode{}}));
    }
    finish(calls, limits::command_answer_timeout);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        auto& answer = calls[i].answer;
        auto* view = answer.reply ? std::get_if<control::NodeView>(&*answer.reply) : nullptr;
        if (view != nullptr)
            found.agents[i].view = std::move(*view);
        else
            found.agents[i].problem = answer.reply ? "refused" : answer.problem;
    }
    // Removes agents that have ended meanwhile.
    std::erase_if(found.agents, [](const FoundAgent& agent) {
        if (agent.view) return false;
        const auto again = connect_to(agent.socket.name);
        return !again && is_gone(again.error());
    });
    sort_for_list(found.agents);
    return found;
}

std::vector<AgentAnswer> ask_agents(const std::vector<Question>& questions, Duration timeout) {
    std::vector<Call> calls;
    for (const auto& [agent, command] : questions) {
        auto connection = connect_to(agent.socket.name);
        auto& call = calls.emplace_back();
        if (!connection)
            call.end(connection.error().describe());
        else if (listener_of(*connection) != agent.user)
            call.end("another user's process listens there now");
        else
            call.socket = std::move(*connection);
        if (call.is_open()) call.send(control::encode(command));
    }
    finish(calls, timeout);
    std::vector<AgentAnswer> answers;
    for (auto& call : calls)
        answers.push_back(std::move(call.answer));
    return answers;
}

std::vector<AgentAnswer> command_agents(
    const std::vector<FoundAgent>& agents, const control::Command& command, Duration timeout) {
    std::vector<Question> questions;
    for (const auto& agent : agents)
        questions.push_back({agent, command});
    return ask_agents(questions, timeout);
}

JobPage fetch_job_page(const control::NodeView& view) {
    const auto server = parse_endpoint(view.endpoint, 0);
    if (!server || server->port == 0) return {{}, "this node has reached no server yet"};
    const auto answer = http_get(
        *server, "/status?job=" + percent_encoded(view.run_id, is_plain_in_query), view.page_token);
    if (!answer) return {{}, answer.error().describe()};
    const auto end_of_head = answer->find("\r\n\r\n");
    const auto first_line = answer->substr(0, answer->find("\r\n"));
    if (end_of_head == std::string::npos || first_line.find(" 200 ") == std::string::npos)
        return {{}, first_line.empty() ? "an empty answer" : printable(first_line)};
    return {answer->substr(end_of_head + 4)};
}

}  // namespace ddprun::launcher::ctl
