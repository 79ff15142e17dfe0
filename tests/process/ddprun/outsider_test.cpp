// SPDX-License-Identifier: Apache-2.0
// A job with a secret on two hosts, and a third host without it. What it may be answered is in
// SECURITY.md: a TLS alert, or nothing; at the rendezvous port also that a secret is needed, the
// code 401 for a page, and "ok" of /healthz.
#include "agent/supervise/neighbours.hpp"
#include "rendezvous/base/limits.hpp"
#include "rendezvous/control/codec.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/tls/keys.hpp"
#include "rendezvous/tls/session.hpp"
#include "tests/process/ddprun/job.hpp"
#include "tests/process/support/network_pair.hpp"
#include "tests/process/support/raw_client.hpp"
#include "tests/process/support/skip.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::test;

namespace {

const std::string run_id = "outsider-job";
const std::string planted_key = "planted-key";
/// What of the job no other host may read.
const std::vector<std::string> words_of_the_job{
    run_id, planted_key, "/met/", "DDPRUN/", "ddprun-store/", "ddprun-vouch/", "nonce"};
constexpr std::size_t mebi = 1024 * 1024;

// ---- the job ------------------------------------------------------------------------------------

/// Its two nodes have one home. Rank 1 waits in the store of the round for a key of rank 0, which
/// sets it when the test lets the job end.
class SecureJob {
public:
    SecureJob(const NetworkPair& hosts, const std::string& endpoint_of_b, const Words& options_of_b)
        : hosts_(hosts),
          path_(dir_.write_script(
              "worker",
              "#!/bin/sh\necho up rank $RANK pid $$\n"
              "if [ $RANK = 1 ]; then " +
                  stub_in_shell("wait_in_store") + ' ' + planted_key +
                  " 600; exit; fi\n"
                  "until [ -e " +
                  dir_.path().string() + "/end ]; do sleep 0.02; done\n" +
                  stub_in_shell("meet_in_store") + ' ' + planted_key + '\n')),
          a(node(hosts.a(), hosts.a().address, {})),
          b(node(hosts.b(), endpoint_of_b, options_of_b)) {
        for (auto* each : {&a, &b}) {
            const auto line = each->wait_for_line("up rank [01] pid");
            if (contains(line, "rank 1")) each->wait_for_line("^waiting$");
        }
    }

    /// It ends as if the two were alone: no worker was started a second time.
    void end() {
        dir_.write("end", "");
        for (auto* node : {&a, &b}) {
            CHECK(node->wait_for_code() == 0);
            const auto& out = node->out();
            CHECK(out.find("up rank") == out.rfind("up rank"));
        }
        CHECK(contains(a.out() + b.out(), "rank 0 met 2 at 127.0.0.1"));
        CHECK(no_descendants_left());
    }

private:
    Running node(
        const NetworkPair::Host& host, const std::string& endpoint, const Words& options) const {
        Running::Options how;
        how.arguments =
            Words{"--nnodes=2", "--secure", "--rdzv-id=" + run_id, "--rdzv-endpoint=" + endpoint} +
            options + Words{"--no-python", path_};
        how.environment["HOME"] = dir_.path().string();
        how.network_namespace = host.name;
        return Running(program("ddprun"), how);
    }

    const NetworkPair& hosts_;
    TempDir dir_;
    std::string path_;

public:
    Running a;
    Running b;
};

// ---- its ports ----------------------------------------------------------------------------------

/// A process and all below it; those that end meanwhile are left out.
std::vector<int> tree_of(int pid) {
    std::vector<int> all{pid};
    const auto text = std::to_string(pid);
    std::istringstream children(read_file("/proc/" + text + "/task/" + text + "/children"));
    for (int child = 0; children >> child;)
        for (const int each : tree_of(child))
            all.push_back(each);
    return all;
}

std::set<std::string> sockets_of(const Running& node) {
    std::set<std::string> sockets;
    for (const int pid : tree_of(node.pid())) {
        error_code ec;
        std::filesystem::directory_iterator files("/proc/" + std::to_string(pid) + "/fd", ec);
        for (; !ec && files != std::filesystem::directory_iterator{}; files.increment(ec)) {
            error_code gone;
            sockets.insert(std::filesystem::read_symlink(files->path(), gone).string());
        }
    }
    return sockets;
}

struct Connection {
    std::string local;
    std::uint16_t port = 0;
    std::string remote;
    std::string state;
};

/// The TCP sockets of a node's processes, with addresses as the kernel prints them.
std::vector<Connection> connections_of(const Running& node) {
    const auto sockets = sockets_of(node);
    std::vector<Connection> found;
    for (const std::string table : {"tcp", "tcp6"}) {
        std::istringstream lines(
            read_file("/proc/" + std::to_string(node.pid()) + "/net/" + table));
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string skipped;
            std::string local;
            std::string inode;
            Connection one;
            words >> skipped >> local >> one.remote >> one.state;
            for (int i = 0; i < 6; ++i)
                words >> inode;
            const auto colon = local.find(':');
            if (colon == local.npos || !sockets.contains("socket:[" + inode + "]")) continue;
            one.local = local.substr(0, colon);
            one.port = static_cast<std::uint16_t>(std::stoi(local.substr(colon + 1), nullptr, 16));
            found.push_back(std::move(one));
        }
    }
    return found;
}

/// The ports at which other hosts can connect to a node.
std::set<std::uint16_t> open_ports(const Running& node) {
    const std::set<std::string> loopback{
        "0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"};
    std::set<std::uint16_t> ports;
    for (const auto& one : connections_of(node))
        if (one.state == "0A" && !loopback.contains(one.local)) ports.insert(one.port);
    return ports;
}

/// Whether a node has an open connection to one of the addresses of the third host.
bool holds_connection_to_third(const Running& node) {
    for (const auto& one : connections_of(node))
        for (const std::string third : {"01014D0A:", "01024D0A:"})
            if (one.state != "0A" && contains(one.remote, third)) return true;
    return false;
}

std::size_t most_memory(const Running& node) {
    const auto status = read_file("/proc/" + std::to_string(agent_of(node)) + "/status");
    return std::stoul(status.substr(status.find("VmHWM:") + 6)) * 1024;
}

// ---- what passes between the two hosts ----------------------------------------------------------

/// The first bytes of each connection between two hosts, as recorded at the cable.
class Recording {
public:
    explicit Recording(const NetworkPair::Host& host)
        : socket_(in_network(host.name, [&] {
              const int socket =
                  ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
              sockaddr_ll where{};
              where.sll_family = AF_PACKET;
              where.sll_protocol = htons(ETH_P_ALL);
              where.sll_ifindex = static_cast<int>(::if_nametoindex(host.name.c_str()));
              const int bytes = 64 * static_cast<int>(mebi);
              ::setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
              REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
              return socket;
          })) {}
    ~Recording() { ::close(socket_); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    /// Reads what has been recorded since.
    void update() {
        std::vector<char> packet(128 * 1024);
        for (;;) {
            const auto size = ::recv(socket_, packet.data(), packet.size(), 0);
            if (size < 0) return;
            take({packet.data(), static_cast<std::size_t>(size)});
        }
    }

    /// What the callers of this port of a host have said, connection by connection.
    std::vector<std::string> said_to(const std::string& address, std::uint16_t port) const {
        std::vector<std::string> found;
        for (const auto& [flow, said] : flows_)
            if (flow.to == ::inet_addr(address.c_str()) && flow.to_port == htons(port) &&
                !said.bytes.empty())
                found.push_back(said.bytes);
        return found;
    }
    bool has(const std::string& word) const {
        for (const auto& [flow, said] : flows_)
            if (contains(said.bytes, word)) return true;
        return false;
    }

private:
    struct Flow {
        std::uint32_t from;
        std::uint32_t to;
        std::uint16_t from_port;
        std::uint16_t to_port;
        auto operator<=>(const Flow&) const = default;
    };
    struct Said {
        std::uint32_t next = 0;
        std::string bytes;
    };

    void take(std::string_view packet) {
        iphdr ip{};
        if (packet.size() < sizeof ip) return;
        std::memcpy(&ip, packet.data(), sizeof ip);
        const std::size_t ip_size = ip.ihl * 4U;
        tcphdr tcp{};
        if (ip.version != 4 || ip.protocol != IPPROTO_TCP || packet.size() < ip_size + sizeof tcp)
            return;
        std::memcpy(&tcp, packet.data() + ip_size, sizeof tcp);
        const auto text = packet.substr(std::min(packet.size(), ip_size + tcp.doff * 4U));
        auto& said = flows_[{ip.saddr, ip.daddr, tcp.source, tcp.dest}];
        const auto number = ntohl(tcp.seq);
        if (tcp.syn != 0) said.next = number + 1;
        // What is sent again is left out.
        if (number != said.next) return;
        said.next += static_cast<std::uint32_t>(text.size());
        said.bytes += text;
    }

    int socket_;
    std::map<Flow, Said> flows_;
};

// ---- what a host without the secret says --------------------------------------------------------

std::string random_bytes(std::size_t size) {
    std::minstd_rand random(18);
    std::string bytes(size, '\0');
    for (auto& byte : bytes)
        byte = static_cast<char>(random() >> 8);
    return bytes;
}

/// The first bytes of a TLS client that has no key at all.
std::string hello_without_key() {
    Running python{
        "python3",
        Words{
            "-c",
            "import ssl, sys\n"
            "context = ssl.create_default_context()\n"
            "said = ssl.MemoryBIO()\n"
            "try:\n"
            "    context.wrap_bio(ssl.MemoryBIO(), said, server_hostname='a').do_handshake()\n"
            "except ssl.SSLWantReadError:\n"
            "    sys.stdout.buffer.write(said.read())\n"}};
    REQUIRE(python.wait_for_code() == 0);
    REQUIRE(python.out().starts_with("\x16\x03"));
    return python.out();
}

std::string hello_with(const tls::Key& key) {
    return tls::Session::for_client(key).take_output();
}

control::Join joining() {
    control::Join join;
    join.run_id = run_id;
    join.node.nonce = Nonce{{1}};
    join.node.host = "elsewhere";
    join.nodes = {2, 2, 0};
    join.store_port = 20'000;
    return join;
}

std::string control_with(const control::AgentMessage& message) {
    return std::string{control::preamble} + control::encode(message);
}

const std::string validate_and_ping{"\0\xCE\xF7\x85\x3C\x0D\x01\x02\x03\x04", 10};
const std::string get_key = std::string{"\x03\x0b\0\0\0\0\0\0\0", 9} + planted_key;
const std::string open_tunnel{
    "ddprun-store/1\n"
    "\0\0\0\x01\x01\0\0\0\x02\x30\x39",
    26};

/// How each protocol begins.
std::map<std::string, std::string> beginnings() {
    const tls::Secret other{std::string(43, 'O')};
    using What = control::JobCommand::What;
    return {
        {"nothing", ""},
        {"a join in clear text", control_with(joining())},
        {"a command in clear text", control_with(control::JobCommand{What::stop, run_id})},
        {"a client of PyTorch's store", validate_and_ping + get_key},
        {"the page /", "GET / HTTP/1.1\r\n\r\n"},
        {"the page /status", "GET /status HTTP/1.1\r\n\r\n"},
        {"the page /timeline", "GET /timeline?job=" + run_id + " HTTP/1.1\r\n\r\n"},
        {"the page /metrics",
         "GET /metrics HTTP/1.1\r\nAuthorization: Bearer " + tls::page_token(other) + "\r\n\r\n"},
        {"TLS without a key", hello_without_key()},
        {"TLS with another secret", hello_with(tls::control_key(other))},
        {"TLS with another secret to an agent", hello_with(tls::peer_key(other, Nonce{{1}}))},
        {"TLS with another secret to a store", hello_with(tls::store_key(other, "1", 0))},
        {"a probe of a node", agent::encode(agent::PeerProbe{Nonce{{1}}, Nonce{{2}}, 0})},
        {"a tunnel in clear text", open_tunnel},
    };
}

bool is_fatal_alert(const std::string& answer) {
    return answer.size() == 7 && answer.starts_with("\x15\x03") &&
           answer.substr(3, 3) == std::string{"\0\x02\x02", 3};
}

/// The only message in clear text: a secret is needed.
bool is_refusal(const std::string& answer) {
    control::ServerMessageDecoder decoder;
    decoder.append(answer);
    const auto message = decoder.next();
    if (!message || !*message) return false;
    const auto* refused = std::get_if<control::Refused>(&**message);
    return refused != nullptr && refused->needs_secret && answer == control::encode(**message);
}

bool is_allowed(const std::string& answer, bool is_rendezvous) {
    for (const auto& word : words_of_the_job)
        if (contains(answer, word)) return false;
    if (answer.empty() || is_fatal_alert(answer)) return true;
    return is_rendezvous && (answer.starts_with("HTTP/1.1 4") || is_refusal(answer));
}

// ---- the third host in between ------------------------------------------------------------------

/// The third host in the place of the server: a member's connections pass through it.
class Between {
public:
    Between(const ThirdHost& third, std::string server)
        : server_(std::move(server)),
          thread_([this, &third] { serve(third.name()); }) {
        // Its port is there once the thread listens.
        REQUIRE(holds_within(fact_timeout, [&] { return is_listening_.load(); }));
    }
    ~Between() {
        io_.stop();
        thread_.join();
    }
    Between(const Between&) = delete;
    Between& operator=(const Between&) = delete;

    /// From now on a byte of what passes on the present connections is changed. What is said on the
    /// next one is repeated, two have their encryption stripped; all later ones pass.
    void attack() { next_ = 1; }
    int attacks_made() const { return next_ - 1; }

    /// What a member has said on the connections whose encryption was stripped.
    std::vector<std::string> heard() const {
        const std::lock_guard lock(mutex_);
        return heard_;
    }

private:
    using Socket = std::shared_ptr<net::Tcp::socket>;

    void serve(const std::string& host) {
        enter_network(host);
        auto acceptor = *net::listen(io_, "", limits::default_rendezvous_port);
        boost::asio::co_spawn(io_, accept(acceptor), boost::asio::detached);
        is_listening_ = true;
        io_.run();
    }

    boost::asio::awaitable<void> accept(net::Tcp::acceptor& acceptor) {
        for (;;) {
            auto [ec, socket] = co_await acceptor.async_accept(net::as_values);
            if (ec) co_return;
            const int number = next_;
            if (number > 0) next_ = number + 1;
            auto member = std::make_shared<net::Tcp::socket>(std::move(socket));
            boost::asio::co_spawn(io_, treat(std::move(member), number), boost::asio::detached);
        }
    }

    boost::asio::awaitable<void> treat(Socket member, int number) {
        if (number == 2) co_return co_await strip(*member, std::string{tls::no_encryption_here});
        if (number == 3) {
            control::Refused refused;
            refused.needs_secret = true;
            co_return co_await strip(*member, control::encode(control::ServerMessage{refused}));
        }
        auto server = std::make_shared<net::Tcp::socket>(io_);
        const net::Tcp::endpoint where(
            boost::asio::ip::make_address(server_), limits::default_rendezvous_port);
        if (auto [ec] = co_await server->async_connect(where, net::as_values); ec) co_return;
        boost::asio::co_spawn(io_, pass(server, member, -1), boost::asio::detached);
        co_await pass(member, server, number);
    }

    boost::asio::awaitable<void> pass(Socket from, Socket to, int number) {
        for (;;) {
            std::array<char, 16 * 1024> bytes{};
            auto [ec, size] =
                co_await from->async_read_some(boost::asio::buffer(bytes), net::as_values);
            if (ec) break;
            std::string said(bytes.data(), size);
            if (number == 0 && next_ > 0) said.back() = static_cast<char>(said.back() ^ 1);
            if (number == 1) said += said;
            if (auto [failed, count] = co_await boost::asio::async_write(
                    *to, boost::asio::buffer(said), net::as_values);
                failed)
                break;
        }
        net::close(*from);
        net::close(*to);
    }

    boost::asio::awaitable<void> strip(net::Tcp::socket& member, std::string answer) {
        std::string all;
        for (;;) {
            std::array<char, 16 * 1024> bytes{};
            auto [ec, size] =
                co_await member.async_read_some(boost::asio::buffer(bytes), net::as_values);
            if (ec) break;
            if (all.empty())
                co_await boost::asio::async_write(
                    member, boost::asio::buffer(answer), net::as_values);
            all.append(bytes.data(), size);
        }
        const std::lock_guard lock(mutex_);
        heard_.push_back(std::move(all));
    }

    boost::asio::io_context io_;
    std::string server_;
    std::atomic<bool> is_listening_{false};
    /// Of the next connection; 0 before the attack.
    std::atomic<int> next_{0};
    mutable std::mutex mutex_;
    std::vector<std::string> heard_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("a host without the secret reads no byte of a job of two others, and disturbs nothing") {
    if (const auto why = NetworkPair::why_not(); !why.empty()) return skip(why);
    net::prepare_descriptors();
    const NetworkPair hosts;
    const ThirdHost third(hosts);
    Recording recording(hosts.b());
    SecureJob job(hosts, hosts.a().address, {});
    const auto memory_a = most_memory(job.a);
    const auto memory_b = most_memory(job.b);

    struct Port {
        std::string address;
        std::uint16_t number;
        bool is_rendezvous() const { return number == limits::default_rendezvous_port; }
    };
    std::vector<Port> ports;
    for (const auto port : open_ports(job.a))
        ports.push_back({hosts.a().address, port});
    for (const auto port : open_ports(job.b))
        ports.push_back({hosts.b().address, port});
    const auto callers_of = [&](const Port& port, const std::vector<std::string>& all) {
        std::vector<std::unique_ptr<RawClient>> callers;
        for (const auto& said : all) {
            callers.push_back(in_network(third.name(), [&] {
                return std::make_unique<RawClient>(port.number, port.address);
            }));
            callers.back()->say(said);
        }
        return callers;
    };
    // Waits for the ends only when all has been said: some callers have 10 s.
    const auto answers_to = [&](const Port& port, const std::vector<std::string>& all) {
        std::vector<std::string> answers;
        for (const auto& caller : callers_of(port, all))
            answers.push_back(caller->hear_to_the_end());
        return answers;
    };
    // The rendezvous, the port for probes of each node, the one of the tunnel to the store; and the
    // one that the other node keeps for a store of its own, at which no caller is accepted.
    REQUIRE(ports.size() == 5);
    std::vector<std::unique_ptr<RawClient>> one_each;
    for (const auto& port : ports)
        one_each.push_back(std::move(callers_of(port, {"GET / HTTP/1.1\r\n\r\n"}).front()));
    const auto is_served = [](const auto& caller) { return caller->can_hear(); };
    REQUIRE(holds_within(fact_timeout, [&] {
        return std::count_if(one_each.begin(), one_each.end(), is_served) == 4;
    }));
    const auto kept =
        std::find_if_not(one_each.begin(), one_each.end(), is_served) - one_each.begin();
    const auto kept_port = ports[static_cast<std::size_t>(kept)];
    ports.erase(ports.begin() + kept);
    one_each.clear();

    std::vector<std::string> first_bytes;
    std::vector<std::string> bursts{std::string(mebi, '\0'), random_bytes(mebi)};
    for (const auto& [name, said] : beginnings()) {
        first_bytes.push_back(said);
        // A megabyte after it, from ten callers at a time.
        bursts.insert(bursts.end(), 10, said + std::string(mebi, 'x'));
    }
    const auto waiting = callers_of(kept_port, first_bytes);
    recording.update();
    std::size_t hellos = 0;
    for (const auto& port : ports) {
        CAPTURE(port.address);
        CAPTURE(port.number);
        for (const auto& answer : answers_to(port, first_bytes)) {
            CAPTURE(answer);
            CHECK(is_allowed(answer, port.is_rendezvous()));
        }
        for (const auto& answer : answers_to(port, bursts))
            CHECK(is_allowed(answer, port.is_rendezvous()));
        // Replays get the server's part of a handshake again, with other keys, and no more.
        for (const auto& from : ports) {
            const auto said = recording.said_to(from.address, from.number);
            for (const auto& answer : answers_to(port, said)) {
                const bool is_hello = answer.starts_with("\x16\x03\x03") && answer.size() < 512;
                if (is_hello) ++hellos;
                CHECK((is_hello || is_allowed(answer, false)));
            }
        }
    }
    // Of the other node to the server and of one node to the other's store.
    CHECK(hellos >= 2);
    CHECK(
        answers_to(
            {hosts.a().address, limits::default_rendezvous_port}, {"GET /healthz HTTP/1.1\r\n\r\n"})
            .front()
            .ends_with("\r\n\r\nok\n"));

    // The programs themselves, with another secret and without one.
    const TempDir dir;
    const auto wrong = dir.write("secret", "ddprun-secret-1:" + std::string(43, 'O') + "\n");
    REQUIRE(::chmod(wrong.c_str(), 0600) == 0);
    const auto on_third = [&](const std::string& name, const Words& words) {
        Running::Options how;
        how.arguments = words;
        how.environment["HOME"] = dir.path().string();
        how.network_namespace = third.name();
        return Running(program(name), how);
    };
    const Words there{"--rdzv-endpoint=" + hosts.a().address};
    const Words secret{"--rdzv-secret-file=" + wrong};
    const Words node = Words{"--nnodes=2", "--rdzv-id=" + run_id} + there;
    const Words worker{"--no-python", "/bin/true"};
    auto none = on_third("ddprun", node + worker);
    auto other = on_third("ddprun", node + secret + worker);
    for (const auto& words :
         {Words{"ps"},
          Words{"status", run_id},
          Words{"drain", run_id, "0"},
          Words{"stop", run_id}}) {
        CHECK(on_third("ddprunctl", words + there).wait_for_code() == 2);
        CHECK(on_third("ddprunctl", words + there + secret).wait_for_code() == 4);
    }
    CHECK(none.wait_for_code() == 83);
    CHECK(other.wait_for_code() == 83);

    for (const auto* each : {&job.a, &job.b})
        CHECK(holds_within(fact_timeout, [&] { return !holds_connection_to_third(*each); }));
    // `most_mib` of security.bounds.
    CHECK(most_memory(job.a) - memory_a < 288 * mebi);
    CHECK(most_memory(job.b) - memory_b < 288 * mebi);
    job.end();
    for (const auto* each : {&job.a, &job.b})
        CHECK_FALSE(contains(each->err(), "rendezvous.lost"));
    for (const auto& caller : waiting)
        CHECK(caller->hear_to_the_end().empty());
    recording.update();
    for (const auto& word : words_of_the_job)
        CHECK_FALSE(recording.has(word));
}

TEST_CASE("a host between a member and its server can delay what they say, and nothing else") {
    if (const auto why = NetworkPair::why_not(); !why.empty()) return skip(why);
    const NetworkPair hosts;
    const ThirdHost third(hosts);
    Between between(third, hosts.a().address);
    SecureJob job(hosts, third.address_for_b(), {"--local-addr=" + hosts.b().address});
    between.attack();
    job.b.wait_for_line("rendezvous.lost");
    job.b.wait_for_line("rendezvous.resumed");
    CHECK(between.attacks_made() >= 4);
    // A client hello alone, whatever the answer.
    const auto heard = between.heard();
    CHECK(heard.size() == 2);
    for (const auto& said : heard) {
        REQUIRE(said.size() > 5);
        CHECK(said.starts_with("\x16\x03"));
        const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(said[i]); };
        CHECK(said.size() == 5U + byte(3) * 256U + byte(4));
    }
    job.end();
}
