// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_timeline.hpp"

#include "rendezvous/server/http_files.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <string>

namespace ddprun::server {
namespace {

using namespace std::chrono_literals;
using control::GoodputPhase;
using Kind = control::Cause::Kind;

HttpRequest asks(std::map<std::string, std::string> query) {
    return {HttpRequest::Method::get, "/timeline", std::move(query)};
}

coordinator::JobStatus job_of(const coordinator::Timeline& timeline) {
    coordinator::JobStatus job;
    job.run_id = "train";
    job.incarnation = "ab";
    job.timeline = {timeline.older(), {timeline.rounds().begin(), timeline.rounds().end()}};
    return job;
}

coordinator::Timeline two_rounds() {
    control::Goodput totals;
    coordinator::Timeline timeline;
    totals[GoodputPhase::forming] = 1s;
    timeline.begin_round(0, totals);
    timeline.reach(GoodputPhase::starting);
    totals[GoodputPhase::starting] = 2s;
    timeline.end_round({Kind::worker_failed, "rank 3 \x1b[31m"}, totals);
    timeline.begin_round(1, totals);
    timeline.reach(GoodputPhase::starting);
    timeline.reach(GoodputPhase::productive);
    return timeline;
}

}  // namespace

TEST_CASE("the timeline shows each round with its root cause, and the current one without an end") {
    const auto page = job_page(asks({{"job", "train"}}));
    REQUIRE(page);
    CHECK(page->query().first_round == 0);
    page->add(job_of(two_rounds()));
    const auto response = page->finish({});

    CHECK(response.status == 200);
    CHECK_FALSE(response.etag.empty());
    CHECK(response.body.find('\x1b') == std::string::npos);
    CHECK(
        response.body.find(R"({"run_id":"train","incarnation":"ab",)"
                           R"("older":{"rounds":0,"by_cause":{},"seconds":{}},"rounds":[)"
                           R"({"number":0,"begin_s":1.0,"phases":["starting"],"changes":0,)"
                           R"("end_s":3.0,"cause":"worker_failed","root_cause":"rank 3 )") == 0);
    CHECK(
        response.body.find(R"("seconds":{"starting":2.0}},)"
                           R"({"number":1,"begin_s":3.0,"phases":["starting","productive"],)"
                           R"("changes":1,"end_s":null}]})") != std::string::npos);
}

TEST_CASE("an unchanged timeline has the version of before, a changed one another") {
    const auto version_of = [](const coordinator::Timeline& timeline) {
        const auto page = job_page(asks({{"job", "train"}}));
        page->add(job_of(timeline));
        return page->finish({}).etag;
    };
    auto timeline = two_rounds();
    const auto before = version_of(timeline);
    CHECK(version_of(two_rounds()) == before);
    timeline.reach(GoodputPhase::saving);
    CHECK(version_of(timeline) != before);
}

TEST_CASE(
    "a timeline without a job or with a round that is none is refused, an unknown job not found") {
    const auto refused = [](std::map<std::string, std::string> query) {
        const auto request = asks(std::move(query));
        return !job_page(request) && plain_answer(request).status == 400;
    };
    CHECK(refused({}));
    CHECK(refused({{"job", ""}}));
    for (const char* from : {"-1", "", "x", "1x", " 1", "99999999999999999999"})
        CHECK(refused({{"job", "train"}, {"from", from}}));

    const auto page = job_page(asks({{"job", "gone"}, {"from", "5"}}));
    REQUIRE(page);
    CHECK(page->query().first_round == 5);
    CHECK(page->finish({}).status == 404);
}

TEST_CASE("of several incarnations the timeline is that of the newest") {
    const auto page = job_page(asks({{"job", "train"}}));
    auto older = job_of({});
    older.is_newest = false;
    older.incarnation = "old";
    page->add(job_of(two_rounds()));
    page->add(older);
    CHECK(page->finish({}).body.find("old\"") == std::string::npos);
}

TEST_CASE("the page is three files with a version each, which load nothing from elsewhere") {
    for (const char* path : {"/", "/page.css", "/page.js"}) {
        const auto file = page_file(path);
        REQUIRE(file);
        CHECK(file->status == 200);
        CHECK_FALSE(file->etag.empty());
        CHECK(file->body.find("http:") == std::string::npos);
        CHECK(file->body.find("https:") == std::string::npos);
        CHECK(file->body.find("innerHTML") == std::string::npos);
    }
    CHECK(page_file("/")->body.find("page.js") != std::string::npos);
    CHECK_FALSE(page_file("/page"));
}

}  // namespace ddprun::server
