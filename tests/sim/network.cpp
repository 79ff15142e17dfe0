// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/network.hpp"

#include <algorithm>

namespace ddprun::sim {

std::shared_ptr<Link> Network::connect(const std::string& client, const std::string& server) {
    std::erase_if(links_, [](const std::weak_ptr<Link>& link) { return link.expired(); });
    auto link = std::make_shared<Link>(*this, client, server);
    links_.push_back(link);
    return link;
}

bool Network::passes(const std::string& from, const std::string& to) const {
    if (off_.contains(from) || off_.contains(to)) return false;
    if (from == to) return true;
    return !isolated_.contains(from) && !isolated_.contains(to) && !cuts_.contains({from, to});
}

bool Network::connects(const std::string& one, const std::string& other) const {
    return passes(one, other) && passes(other, one);
}

void Network::cut(const std::string& from, const std::string& to) {
    cuts_.insert({from, to});
    disturb();
}

void Network::heal(const std::string& from, const std::string& to) {
    cuts_.erase({from, to});
    release();
}

void Network::isolate(const std::string& place) {
    isolated_.insert(place);
    disturb();
}

void Network::readmit(const std::string& place) {
    isolated_.erase(place);
    std::erase_if(
        cuts_, [&](const auto& cut) { return cut.first == place || cut.second == place; });
    release();
}

void Network::switch_off(const std::string& place) {
    off_.insert(place);
    disturb();
}

void Network::switch_on(const std::string& place) {
    off_.erase(place);
    release();
}

Duration Network::travel(const std::string& bytes) {
    const auto number = [](Duration length) { return static_cast<int>(length.count() / 1'000); };
    const auto latency =
        std::chrono::microseconds{world_.any(number(weather_.shortest), number(weather_.longest))};
    if (weather_.bytes_per_second == 0) return latency;
    return latency +
           from_seconds(
               static_cast<double>(bytes.size()) / static_cast<double>(weather_.bytes_per_second));
}

Duration Network::resend_delay() {
    const auto longest =
        std::chrono::duration_cast<std::chrono::milliseconds>(weather_.slowest_resend);
    return std::chrono::milliseconds{world_.any(0, static_cast<int>(longest.count()))};
}

void Network::release() {
    const auto links = links_;
    for (const auto& weak : links)
        if (const auto link = weak.lock()) link->release();
}

}  // namespace ddprun::sim
