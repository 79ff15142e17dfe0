// SPDX-License-Identifier: Apache-2.0
#include "launcher/explain/network_page.hpp"

#include "agent/report/printable.hpp"
#include "rendezvous/base/printable.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/text.hpp"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace ddprun::launcher {
namespace network_page_text {
namespace {

constexpr std::size_t value_column = 24;
constexpr std::uint64_t mebibyte = 1024 * 1024;
/// Docker's default, which a DataLoader with several workers fills.
constexpr std::uint64_t least_shm_bytes = 64 * mebibyte;
constexpr int usual_mtu = 1500;
constexpr std::int64_t most_clock_difference_s = 2;

class Page {
public:
    void good(const std::string& name, const std::string& value) { line("ok   ", name, value); }
    void bad(const std::string& name, const std::string& value, const std::string& advice) {
        line("BAD  ", name, value);
        page_.text += std::string(value_column, ' ') + "-> " +
                      agent::wrapped(printable(advice), value_column + 3) + '\n';
        ++page_.problem_count;
    }
    NetworkPage take() { return std::move(page_); }

private:
    void line(const char* mark, const std::string& name, const std::string& value) {
        auto text = mark + name;
        text.resize(value_column, ' ');
        page_.text += text + agent::wrapped(printable(value), value_column) + '\n';
    }

    NetworkPage page_;
};

std::string error_text(int number) {
    return system_code(number).message();
}

std::string mebibytes(std::uint64_t bytes) {
    return std::to_string(bytes / mebibyte) + " MiB";
}

void add_names(Page& page, const NetworkFacts& facts) {
    if (facts.own_name_problem.empty())
        page.good("own name", facts.host_name);
    else
        page.bad(
            "own name",
            facts.own_name_problem,
            "Gloo listens where this name leads: ddprun sets GLOO_SOCKET_IFNAME; better give it "
            "this machine's address in /etc/hosts");
    if (facts.endpoint.port == 0) return page.good("endpoint", "none: a job of this node alone");
    const auto name = facts.endpoint.to_string();
    if (facts.resolved.empty())
        page.bad(
            "endpoint",
            name + " has no address",
            "use the name or the address by which this machine reaches the first node");
    else
        page.good("endpoint", name + " is " + short_list(facts.resolved, {4}));
}

void add_server(Page& page, const NetworkFacts& facts) {
    if (facts.endpoint.port == 0) return;
    page.good("placement", facts.placement);
    const auto port = std::to_string(facts.endpoint.port);
    if (facts.is_serving) {
        if (facts.listen_error == 0) return page.good("listen", "port " + port + " is free");
        return page.bad(
            "listen",
            "port " + port + ": " + error_text(facts.listen_error) +
                (facts.holder.empty() ? "" : ", " + facts.holder),
            "give another port in --rdzv-endpoint, on all nodes");
    }
    if (facts.resolved.empty()) return;
    const auto& reach = facts.reach;
    if (reach.connect_error != 0)
        return page.bad(
            "reach",
            facts.endpoint.to_string() + ": " + error_text(reach.connect_error),
            "start the first node first; if it runs, a firewall is between: let TCP port " + port +
                " pass, and the --port-range of each node");
    if (!reach.is_ddprun)
        return page.bad(
            "reach",
            facts.endpoint.to_string() + " answers, but not as ddprun",
            "another program has that port: give another one in --rdzv-endpoint, on all nodes");
    page.good("reach", facts.endpoint.to_string() + " answers");
    if (!reach.clock_difference_s) return;
    const auto difference = *reach.clock_difference_s;
    const auto value = std::to_string(std::abs(difference)) + " s " +
                       (difference < 0 ? "behind" : "ahead of") + " this one";
    if (std::abs(difference) <= most_clock_difference_s)
        page.good(
            "clock there", "the same, within " + std::to_string(most_clock_difference_s) + " s");
    else
        page.bad(
            "clock there",
            value,
            "ddprun needs no equal clocks, but logs and files cannot be compared: run an NTP "
            "client on both");
}

/// Nothing has to run at a further endpoint yet; a refusal shows that its host is reached.
void add_place(Page& page, const std::string& name, const OtherPlace& place) {
    const auto text = place.endpoint.to_string();
    const auto& reach = place.reach;
    if (place.resolved.empty())
        return page.bad(
            name, text + " has no address", "use a name or an address that every node resolves");
    const bool is_refused = reach.connect_error == ECONNREFUSED;
    if (is_refused && place.kind == OtherPlace::Kind::witness)
        return page.bad(
            name,
            text + ": " + error_text(reach.connect_error),
            "start ddprun-rendezvous there; if it runs, a firewall is between");
    if (is_refused)
        return page.good(
            name, text + " is " + short_list(place.resolved, {4}) + ", where no ddprun runs now");
    if (reach.connect_error != 0)
        return page.bad(
            name,
            text + ": " + error_text(reach.connect_error),
            "that machine is down, or a firewall is between: let TCP port " +
                std::to_string(place.endpoint.port) + " pass");
    if (!reach.is_ddprun)
        return page.bad(
            name,
            text + " answers, but not as ddprun",
            "another program has that port: give another one, on all nodes");
    page.good(name, text + " answers");
}

void add_other_places(Page& page, const NetworkFacts& facts) {
    int number = 1;
    for (const auto& place : facts.others)
        add_place(
            page,
            place.kind == OtherPlace::Kind::witness ? "witness"
                                                    : "endpoint " + std::to_string(++number),
            place);
}

void add_interface(Page& page, const NetworkFacts& facts) {
    const auto range = std::to_string(facts.first_port) + "-" + std::to_string(facts.last_port);
    if (facts.ports_free == 0)
        page.bad(
            "own ports",
            "none of " + std::to_string(facts.ports_tried) + " tried of " + range + " is free",
            "give another --port-range");
    else
        page.good("own ports", range + ", free ones among the first");
    for (const auto& entry : facts.unknown_interfaces)
        page.bad(
            "interface", entry + " is no interface here", "unset it, or name one of `ip link`");
    if (facts.endpoint.port == 0 || facts.resolved.empty()) return;
    if (facts.interface.empty())
        return page.bad(
            "interface",
            "no way to " + short_list(facts.resolved, {2}),
            "look at `ip route get " + facts.resolved.front() + "`");
    const auto value =
        facts.interface + " (" + facts.address + "), MTU " + std::to_string(facts.mtu);
    if (facts.mtu < usual_mtu)
        page.bad(
            "interface",
            value,
            "packets of other hosts may be lost silently: set the MTU of the path, 1500 or more, "
            "on both ends");
    else
        page.good("interface", value);
}

void add_machine(Page& page, const NetworkFacts& facts) {
    const auto shm = mebibytes(facts.shm_bytes) + ", " + mebibytes(facts.shm_free_bytes) + " free";
    if (facts.shm_bytes <= least_shm_bytes || facts.shm_free_bytes < least_shm_bytes / 4)
        page.bad(
            "/dev/shm",
            shm,
            "data loaders and NCCL use it: docker run --shm-size=8g or --ipc=host; in a pod an "
            "emptyDir of medium Memory at /dev/shm");
    else
        page.good("/dev/shm", shm);
    const auto memlock = facts.memlock_bytes ? mebibytes(*facts.memlock_bytes) : "unlimited";
    if (facts.memlock_bytes && facts.has_infiniband)
        page.bad(
            "locked memory",
            memlock + ", and there is InfiniBand",
            "NCCL registers memory with it: ulimit -l unlimited, docker run --ulimit memlock=-1");
    else
        page.good("locked memory", memlock);
    if (facts.file_problem.empty())
        page.good("open files", std::to_string(facts.file_limit));
    else
        page.bad("open files", std::to_string(facts.file_limit), facts.file_problem);
    page.good("GPUs", std::to_string(facts.gpu_count));
}

}  // namespace
}  // namespace network_page_text

NetworkPage network_page(const NetworkFacts& facts) {
    network_page_text::Page page;
    network_page_text::add_names(page, facts);
    network_page_text::add_server(page, facts);
    network_page_text::add_other_places(page, facts);
    network_page_text::add_interface(page, facts);
    network_page_text::add_machine(page, facts);
    return page.take();
}

}  // namespace ddprun::launcher
