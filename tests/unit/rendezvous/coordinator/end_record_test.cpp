// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator/end_record.hpp"

#include "rendezvous/base/limits.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace ddprun;
using namespace ddprun::coordinator;

namespace {

control::JobResult failed(const std::string& reason) {
    control::JobResult result;
    result.outcome = control::Outcome::failed;
    result.exit_code = 3;
    result.root_cause = control::Cause{};
    result.root_cause->reason = reason;
    result.root_cause->worker = control::WorkerFailure{};
    result.root_cause->worker->message = "a line of the user's";
    return result;
}

}  // namespace

TEST_CASE("ends are found by each name of the job, and keep no text of workers") {
    EndRecord record;
    record.add({"first", "renamed"}, failed("rank 1 failed"));
    record.add({"second"}, {});
    const auto read = EndRecord::decode(record.encode());
    for (const auto* name : {"first", "renamed"}) {
        const auto* found = read.find(name);
        REQUIRE(found != nullptr);
        CHECK(*found == without_text(failed("rank 1 failed")));
        CHECK(found->root_cause->worker->message.empty());
    }
    REQUIRE(read.find("second") != nullptr);
    CHECK(read.find("second")->outcome == control::Outcome::succeeded);
    CHECK(read.find("third") == nullptr);
}

TEST_CASE("only the newest ends are kept") {
    EndRecord record;
    for (std::size_t i = 0; i <= EndRecord::most_ends; ++i)
        record.add({std::to_string(i)}, {});
    CHECK(record.find("0") == nullptr);
    CHECK(record.find("1") != nullptr);
}

TEST_CASE("of ends that are too long together, the newest are kept") {
    auto longest = failed(std::string(limits::max_free_text_bytes, 'x'));
    for (std::size_t i = 0; i < limits::max_reported_failures; ++i) {
        control::EndedWorker worker;
        worker.host = std::string(limits::max_name_bytes, 'h');
        worker.rank = worker.pid = std::numeric_limits<int>::max();
        longest.secondary_failures.push_back(std::move(worker));
    }
    EndRecord record;
    for (std::size_t i = 0; i < EndRecord::most_ends; ++i) {
        record.add({std::to_string(i)}, longest);
        const auto text = record.encode();
        CHECK(text.size() <= limits::max_end_record_bytes);
        const auto read = EndRecord::decode(text);
        REQUIRE(read.find(std::to_string(i)) != nullptr);
        CHECK(*read.find(std::to_string(i)) == without_text(longest));
        CHECK(read.find("0") == (i == 0 ? read.find(std::to_string(i)) : nullptr));
    }
}

TEST_CASE("what is no record of ends is none") {
    CHECK(EndRecord::decode("").find("") == nullptr);
    CHECK(EndRecord::decode("nonsense of some length").encode().empty());
    EndRecord record;
    record.add({"kept"}, {});
    CHECK(EndRecord::decode(record.encode() + "nonsense of some length").find("kept") != nullptr);
}
