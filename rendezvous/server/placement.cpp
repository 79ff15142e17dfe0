// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/placement.hpp"

#include "rendezvous/base/limits.hpp"

#include <algorithm>
#include <string_view>

namespace ddprun::server {
namespace {

/// As in PlacementFacts::held_by.
constexpr std::string_view daemon_name = "ddprun-rendezvous (";

enum class Share : std::uint8_t { none, some, all };

/// How many addresses of the name belong to this machine. All addresses of 127.0.0.0/8 do, even if
/// the interface does not report them.
Share own_share(const PlacementFacts& facts) {
    const auto is_own = [&](const std::string& address) {
        return is_loopback(address) ||
               std::find(facts.own.begin(), facts.own.end(), address) != facts.own.end();
    };
    const auto count = std::count_if(facts.resolved.begin(), facts.resolved.end(), is_own);
    if (count == 0) return Share::none;
    return static_cast<std::size_t>(count) == facts.resolved.size() ? Share::all : Share::some;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words)
        text += (text.empty() ? "" : ", ") + word;
    return text;
}

std::string in_use(const PlacementFacts& facts) {
    return "port " + std::to_string(facts.endpoint.port) + " is in use on this machine" +
           (facts.held_by.empty() ? "" : " by " + facts.held_by);
}

/// The options with which the daemon of this machine serves the job.
std::string way_to_the_daemon(const PlacementFacts& facts) {
    if (!facts.held_by.starts_with(daemon_name)) return {};
    return "; for that server to be the job's give --rdzv-backend=c10d --rdzv-conf=is_host=0";
}

/// Decides to listen, unless the port is in use.
Placement listen_unless_in_use(const PlacementFacts& facts, std::string why) {
    const auto on = [&](std::uint16_t port) { return listen_on(facts.endpoint.host, "", port); };
    if (!facts.is_port_in_use) return Listen{on(facts.endpoint.port), std::move(why)};
    if (facts.max_nodes == 1)
        return Listen{
            on(0),
            in_use(facts) + "; a job of one node takes a free port instead" +
                way_to_the_daemon(facts)};
    if (facts.is_host == true)
        return Refuse{
            in_use(facts) +
            ", and is_host says that this node serves there; stop the other or "
            "choose another port in --rdzv-endpoint"};
    return Connect{in_use(facts) + ", so its holder is taken for the job's server"};
}

Placement decide_static(const PlacementFacts& facts) {
    if (facts.node_rank != 0) return Connect{"node rank 0 serves, with static rendezvous"};
    // The holder's answer shows which node has the place. The holder may also be an earlier
    // incarnation of this node that is just ending. The wait is short: the port may belong to
    // another listener of a ddprun, which does not answer.
    const bool may_answer = facts.is_held_by_ddprun() && facts.max_nodes > 1 &&
                            facts.unanswered_for < limits::unanswered_timeout;
    if (facts.is_port_in_use && may_answer)
        return Connect{in_use(facts) + ", which is asked whether this node has its place"};
    if (facts.is_port_in_use)
        return Refuse{
            in_use(facts) +
            ", and this node is to serve there; stop the other, choose another --master-port, or "
            "give this node its --node-rank if it is not node 0" +
            way_to_the_daemon(facts)};
    return Listen{
        listen_on(facts.endpoint.host, "", facts.endpoint.port),
        "node rank 0 serves, with static rendezvous"};
}

}  // namespace

bool PlacementFacts::is_held_by_ddprun() const {
    return held_by.starts_with("ddprun (") || held_by.starts_with(daemon_name);
}

ListenOn listen_on(std::string_view written_host, std::string_view address, std::uint16_t port) {
    const auto host = address.empty() ? written_host : address;
    if (host == "localhost" || host == "127.0.0.1" || host == "::1")
        return {ListenOn::Scope::loopback, "", port};
    // Another loopback address (127.0.0.2) is used as written: a socket at 127.0.0.1 does not
    // accept its callers.
    if (!address.empty() || is_loopback(host))
        return {ListenOn::Scope::address, std::string{host}, port};
    return {ListenOn::Scope::everywhere, "", port};
}

Placement decide(const PlacementFacts& facts) {
    const auto& host = facts.endpoint.host;
    if (facts.is_static) return decide_static(facts);
    if (facts.endpoint.port == 0) {
        if (facts.max_nodes > 1)
            return Refuse{
                "port 0 means any free port, which other nodes cannot know: give "
                "--rdzv-endpoint a port when --nnodes is more than 1"};
        return listen_unless_in_use(facts, "a job of one node serves itself on a free port");
    }
    if (facts.is_host == true)
        return listen_unless_in_use(facts, "is_host says that this node serves");
    if (facts.is_host == false) return Connect{"is_host says that another node serves"};
    if (facts.resolved.empty()) return Connect{host + " does not resolve to an address yet"};

    switch (own_share(facts)) {
        case Share::all:
            return listen_unless_in_use(
                facts, host + " is this machine (" + joined(facts.resolved) + ")");
        case Share::some:
            return Connect{
                "only some addresses of " + host + " (" + joined(facts.resolved) +
                ") are on this machine, so it does not serve; say is_host=1 in --rdzv-conf on "
                "the node that shall, and is_host=0 on the others"};
        case Share::none: break;
    }
    if (facts.node_rank == 0 && facts.unanswered_for >= limits::unanswered_timeout)
        return listen_unless_in_use(
            facts,
            "no server answers at " + facts.endpoint.to_string() + " (" + joined(facts.resolved) +
                ", not this machine), and --node-rank 0 serves then");
    return Connect{host + " (" + joined(facts.resolved) + ") is not this machine"};
}

}  // namespace ddprun::server
