// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/driver.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::test {
namespace {

/// Records when it was called, and sets its next deadline at that time.
class Remembering {
public:
    struct Asked {};
    struct DeadlinePassed {};
    using Event = std::variant<Asked, DeadlinePassed>;
    struct Nothing {};
    using Effect = std::variant<Nothing>;

    void handle(Event event, Instant now, std::vector<Effect>&) {
        if (std::holds_alternative<DeadlinePassed>(event)) {
            deadline.reset();
            return;
        }
        asked_at.push_back(now);
        deadline = now;
    }
    std::optional<Instant> next_deadline() const { return deadline; }

    std::vector<Instant> asked_at;
    std::optional<Instant> deadline;
};

std::string describe(const Remembering::Event&) {
    return "an event";
}
std::string describe(const Remembering::Effect&) {
    return "an effect";
}

}  // namespace

TEST_CASE("the events of a batch have one time, and its end arms the timer") {
    boost::asio::io_context io;
    int settled = 0;
    net::Driver<Remembering> driver(
        io, "tested", {}, [](auto&) {}, [&] { ++settled; });
    const auto later_than = [](Instant moment) {
        while (Clock::now() == moment) {
        }
    };

    driver.begin_batch();
    driver.post(Remembering::Asked{});
    later_than(driver.machine().asked_at.front());
    driver.post(Remembering::Asked{});
    CHECK(settled == 0);
    driver.end_batch();

    const auto& asked_at = driver.machine().asked_at;
    CHECK(asked_at.at(0) == asked_at.at(1));
    CHECK(settled == 1);
    io.run();
    CHECK_FALSE(driver.machine().deadline);

    driver.post(Remembering::Asked{});
    CHECK(asked_at.at(2) > asked_at.at(1));
    CHECK(settled == 3);
}

}  // namespace ddprun::test
