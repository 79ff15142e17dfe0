// SPDX-License-Identifier: Apache-2.0
// The answers are written after the published schema of coordination.k8s.io/v1 and metav1.Status.
#include "rendezvous/witness/kubernetes_gateway.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

// The short names of this file's helpers are its own, also where several files are one unit.
namespace kubernetes_gateway_test {

using namespace ddprun;
using namespace ddprun::witness;
using kubernetes::Facts;
using kubernetes::Method;
using kubernetes::Write;
using Json = nlohmann::json;
using std::chrono_literals::operator""s;

namespace {

const kubernetes::LeasePlace place{{"10.96.0.1", 443}, "ml", "bert"};
const kubernetes::Job job{"bert", "aa"};
const std::string path = "/apis/coordination.k8s.io/v1/namespaces/ml/leases/bert";
const std::string time_of_write = "2026-11-21T12:03:07.113000Z";

/// A Lease that the process b holds in epoch 7; another program has given it a label.
Json led_by_b() {
    return Json::parse(R"({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {
            "name": "bert",
            "namespace": "ml",
            "uid": "f0c5c8a4-6f0e-4f6e-9d0e-1c5f6a1b2c3d",
            "resourceVersion": "5211",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "labels": {"team": "nlp"},
            "annotations": {
                "ddprun/run-id": "bert",
                "ddprun/endpoint": "10.0.0.2:20001",
                "ddprun/epoch": "7",
                "ddprun/ended": "aXQgZW5kZWQ=",
                "example.com/other": "kept"}},
        "spec": {
            "holderIdentity": "bb",
            "leaseDurationSeconds": 10,
            "acquireTime": "2026-11-21T11:59:00.000000Z",
            "renewTime": "2026-11-21T12:03:00.000000Z",
            "leaseTransitions": 3}})");
}
Json released() {
    auto lease = led_by_b();
    lease["spec"]["holderIdentity"] = "";
    lease["metadata"]["annotations"].erase("ddprun/endpoint");
    return lease;
}
Json led_by_itself() {
    auto lease = led_by_b();
    lease["spec"]["holderIdentity"] = "aa";
    return lease;
}
const Candidacy own{{"10.0.0.2:20001", "aa", 7}};

std::string status(const std::string& reason, const std::string& message, int code) {
    return Json{
        {"kind", "Status"},
        {"apiVersion", "v1"},
        {"status", "Failure"},
        {"message", message},
        {"reason", reason},
        {"code", code}}
        .dump();
}
const std::string not_found =
    status("NotFound", R"(leases.coordination.k8s.io "bert" not found)", 404);

kubernetes::Lease read(const Json& json) {
    auto lease = kubernetes::read_lease(place, 200, json.dump());
    REQUIRE_MESSAGE(lease.has_value(), (lease ? "" : lease.error().context));
    REQUIRE(lease->has_value());
    return **lease;
}
Facts facts(const Json& json, bool is_expired = false) {
    return {read(json), is_expired, time_of_write, 10};
}
Facts no_lease() {
    return {std::nullopt, false, time_of_write, 10};
}

template <class Answer>
Answer answered(const LeaseRequest& request, const Facts& by) {
    auto step = kubernetes::step(place, job, request, by);
    REQUIRE(step.has_value());
    REQUIRE(std::holds_alternative<LeaseAnswer>(*step));
    return std::get<Answer>(std::get<LeaseAnswer>(*step));
}
Write written(const LeaseRequest& request, const Facts& by) {
    auto step = kubernetes::step(place, job, request, by);
    REQUIRE(step.has_value());
    REQUIRE(std::holds_alternative<Write>(*step));
    return std::get<Write>(*step);
}
std::string refusal(const Json& json) {
    auto lease = kubernetes::read_lease(place, 200, json.dump());
    if (!lease) return lease.error().context;
    auto step = kubernetes::step(place, job, ReadRecord{}, {**lease, false, time_of_write, 10});
    REQUIRE_FALSE(step.has_value());
    return step.error().context;
}

}  // namespace

TEST_CASE("Lease: one object at the API server is read") {
    CHECK(kubernetes::read(place) == kubernetes::Call{Method::get, path});
    const auto lease = kubernetes::read_lease(place, 404, not_found);
    REQUIRE(lease.has_value());
    CHECK_FALSE(lease->has_value());
    const auto read_one = read(led_by_b());
    CHECK(read_one.version == "5211");
    CHECK(read_one.leader == Leader{"10.0.0.2:20001", "bb", 7});
    CHECK(read_one.duration == 10s);
    CHECK(read_one.ended == "it ended");
}

TEST_CASE("Lease: the record has a leader while it has a holder that has not expired") {
    CHECK_FALSE(answered<Record>(ReadRecord{}, no_lease()).held);
    const auto held = answered<Record>(ReadRecord{}, facts(led_by_b())).held;
    REQUIRE(held);
    CHECK(held->leader == Leader{"10.0.0.2:20001", "bb", 7});
    for (const auto& free : {facts(led_by_b(), true), facts(released())}) {
        const auto record = answered<Record>(ReadRecord{}, free);
        CHECK_FALSE(record.held);
        CHECK(record.epoch == 7);
    }
    // The one of this process is withdrawn, so it does not expire.
    CHECK(answered<Record>(ReadRecord{}, facts(led_by_itself(), true)).held);
}

TEST_CASE("Lease: it expires by the own clock since it was last seen to change") {
    kubernetes::Observation seen;
    auto lease = read(led_by_b());
    const Instant start{1'000s};
    seen.see(lease, start);
    seen.see(lease, start + 9s);
    CHECK_FALSE(seen.is_expired(lease, 10s, start + 9s));
    CHECK(seen.is_expired(lease, 10s, start + 10s));

    // A renewal, whatever time is in it.
    lease.renewed = "1999-01-01T00:00:00.000000Z";
    seen.see(lease, start + 10s);
    CHECK_FALSE(seen.is_expired(lease, 10s, start + 19s));
    CHECK(seen.is_expired(lease, 10s, start + 20s));
}

TEST_CASE("Lease: another program's write renews nothing, and a leader's does") {
    const Instant start{1'000s};
    // Whether it has expired 10 s after it was first seen, if this was written after 9 s.
    const auto is_expired_after = [&](const char* pointer, const Json& value) {
        auto json = led_by_b();
        kubernetes::Observation seen;
        seen.see(read(json), start);
        json["metadata"]["resourceVersion"] = "5212";
        json[Json::json_pointer{pointer}] = value;
        const auto lease = read(json);
        seen.see(lease, start + 9s);
        return seen.is_expired(lease, 10s, start + 10s);
    };
    CHECK(is_expired_after("/metadata/labels/team", "vision"));
    CHECK(is_expired_after("/metadata/annotations/example.com~1other", "changed"));
    CHECK_FALSE(is_expired_after("/spec/renewTime", time_of_write));
    CHECK_FALSE(is_expired_after("/spec/acquireTime", time_of_write));
    CHECK_FALSE(is_expired_after("/spec/holderIdentity", "cc"));
    CHECK_FALSE(is_expired_after("/spec/leaseDurationSeconds", 9));
    CHECK_FALSE(is_expired_after("/metadata/annotations/ddprun~1epoch", "8"));
}

TEST_CASE("Lease: a duration that another program has written ends no leadership early") {
    for (const int written_s : {1, 10, 15}) {
        CAPTURE(written_s);
        auto edited = led_by_b();
        edited["spec"]["leaseDurationSeconds"] = written_s;
        const auto lease = read(edited);
        kubernetes::Observation seen;
        const Instant start{1'000s};
        seen.see(lease, start);
        const auto wanted = written_s == 15 ? 15s : 10s;
        CHECK_FALSE(seen.is_expired(lease, 10s, start + wanted - 1s));
        CHECK(seen.is_expired(lease, 10s, start + wanted));
    }
    // The leader's next write restores it.
    auto edited = led_by_itself();
    edited["spec"]["leaseDurationSeconds"] = 1;
    for (const auto& request : {LeaseRequest{KeepLease{own}}, LeaseRequest{RecordEnd{own, "x", 1}}})
        CHECK(
            Json::parse(
                written(request, facts(edited)).call.body)["spec"]["leaseDurationSeconds"] == 10);
}

TEST_CASE("Lease: the first candidate creates it") {
    const auto write = written(Campaign{{{"10.0.0.1:20001", "aa", 1}, 1}, 0}, no_lease());
    CHECK(write.call.method == Method::post);
    CHECK(write.call.path == "/apis/coordination.k8s.io/v1/namespaces/ml/leases");
    CHECK(Json::parse(write.call.body) == Json::parse(R"({
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {
                "name": "bert",
                "namespace": "ml",
                "annotations": {
                    "ddprun/run-id": "bert",
                    "ddprun/endpoint": "10.0.0.1:20001",
                    "ddprun/epoch": "1"}},
            "spec": {
                "holderIdentity": "aa",
                "leaseDurationSeconds": 10,
                "acquireTime": "2026-11-21T12:03:07.113000Z",
                "renewTime": "2026-11-21T12:03:07.113000Z",
                "leaseTransitions": 0}})"));
    const auto won = std::get<Campaigned>(write.answer);
    CHECK(won.is_won);
    CHECK(won.ended.empty());
}

TEST_CASE(
    "Lease: the next candidate takes the version that it has read, and changes only its own") {
    const Campaign campaign{{{"10.0.0.1:20001", "aa", 8}, 1}, 0};
    const auto write = written(campaign, facts(led_by_b(), true));
    CHECK(write.call.method == Method::put);
    CHECK(write.call.path == path);
    auto wanted = led_by_b();
    wanted["metadata"]["annotations"]["ddprun/endpoint"] = "10.0.0.1:20001";
    wanted["metadata"]["annotations"]["ddprun/epoch"] = "8";
    wanted["spec"] = {
        {"holderIdentity", "aa"},
        {"leaseDurationSeconds", 10},
        {"acquireTime", time_of_write},
        {"renewTime", time_of_write},
        {"leaseTransitions", 4}};
    CHECK(Json::parse(write.call.body) == wanted);
    CHECK(std::get<Campaigned>(write.answer).ended == "it ended");

    const auto lost = answered<Campaigned>(campaign, facts(led_by_b()));
    CHECK_FALSE(lost.is_won);
    REQUIRE(lost.record.held);
    CHECK(lost.record.held->leader.nonce == "bb");
    // Another candidate of this epoch has led meanwhile.
    auto later = released();
    later["metadata"]["annotations"]["ddprun/epoch"] = "8";
    const auto late = answered<Campaigned>(campaign, facts(later));
    CHECK_FALSE(late.is_won);
    CHECK_FALSE(late.record.held);
}

TEST_CASE("Lease: an earlier job of another name leaves no ends to this one") {
    auto other = released();
    other["metadata"]["annotations"]["ddprun/run-id"] = "gpt";
    other["metadata"]["annotations"].erase("ddprun/epoch");
    CHECK(answered<Record>(ReadRecord{}, facts(other)).epoch == 0);
    const auto write = written(Campaign{{{"a:1", "aa", 1}, 1}, 0}, facts(other));
    const auto annotations = Json::parse(write.call.body)["metadata"]["annotations"];
    CHECK(annotations["ddprun/run-id"] == "bert");
    CHECK_FALSE(annotations.contains("ddprun/ended"));
    CHECK(std::get<Campaigned>(write.answer).ended.empty());
}

TEST_CASE("Lease: a job of another name that has no leader keeps its epoch") {
    auto led_by_gpt = led_by_b();
    led_by_gpt["metadata"]["annotations"]["ddprun/run-id"] = "gpt";
    auto left_by_gpt = released();
    left_by_gpt["metadata"]["annotations"]["ddprun/run-id"] = "gpt";
    for (const auto& found : {facts(led_by_gpt, true), facts(left_by_gpt)})
        for (const auto& request :
             {LeaseRequest{ReadRecord{}}, LeaseRequest{Campaign{{{"a:1", "aa", 1}, 1}, 0}}}) {
            const auto step = kubernetes::step(place, job, request, found);
            REQUIRE_FALSE(step.has_value());
            CHECK(
                step.error().context ==
                "the Lease ml/bert is still of the job 'gpt', which has no leader now: give each "
                "job a Lease of its own; if that job is over, remove the Lease: kubectl delete "
                "lease -n ml bert");
        }
}

TEST_CASE("Lease: a leader renews it and records ends in it while it is its own") {
    auto renewed = led_by_itself();
    renewed["spec"]["renewTime"] = time_of_write;
    const auto kept = written(KeepLease{own}, facts(led_by_itself()));
    CHECK(Json::parse(kept.call.body) == renewed);
    CHECK(std::get<Kept>(kept.answer).ttl_s == 10);

    renewed["metadata"]["annotations"]["ddprun/ended"] = "AP8K";
    const auto stored =
        written(RecordEnd{own, std::string{"\0\xff\n", 3}, 1}, facts(led_by_itself()));
    CHECK(Json::parse(stored.call.body) == renewed);
    CHECK(std::get<EndStored>(stored.answer).is_stored);

    auto of_later_epoch = led_by_itself();
    of_later_epoch["metadata"]["annotations"]["ddprun/epoch"] = "9";
    for (const auto& lost :
         {facts(led_by_b()), facts(of_later_epoch), facts(released()), no_lease()}) {
        CHECK(answered<Kept>(KeepLease{own}, lost).ttl_s == 0);
        CHECK_FALSE(answered<EndStored>(RecordEnd{own, "x", 1}, lost).is_stored);
        answered<Done>(Revoke{own}, lost);
        answered<Done>(Erase{own}, lost);
    }
}

TEST_CASE("Lease: a leader gives it back, and without its epoch when the job is over") {
    auto wanted = released();
    wanted["spec"]["leaseDurationSeconds"] = 1;
    wanted["spec"]["renewTime"] = time_of_write;
    CHECK(Json::parse(written(Revoke{own}, facts(led_by_itself())).call.body) == wanted);
    wanted["metadata"]["annotations"].erase("ddprun/epoch");
    CHECK(Json::parse(written(Erase{own}, facts(led_by_itself())).call.body) == wanted);
}

TEST_CASE("Lease: one that another program or job uses is left alone") {
    auto foreign = led_by_b();
    foreign["metadata"].erase("annotations");
    foreign["spec"]["holderIdentity"] = "kube-scheduler-1";
    CHECK(
        refusal(foreign) ==
        "the Lease ml/bert belongs to another program, its holder is 'kube-scheduler-1': give this "
        "job a Lease of its own");
    // Between two leaders of that program.
    for (const auto* field : {"acquireTime", "leaseTransitions"}) {
        auto free = foreign;
        free["spec"] = {{"holderIdentity", ""}, {field, led_by_b()["spec"][field]}};
        CHECK(
            refusal(free) ==
            "the Lease ml/bert belongs to another program: give this job a Lease of its own");
    }
    auto of_gpt = led_by_b();
    of_gpt["metadata"]["annotations"]["ddprun/run-id"] = "gpt";
    CHECK(refusal(of_gpt).starts_with("the Lease ml/bert is used by the job 'gpt': give each job"));
}

TEST_CASE("Lease: an empty one that was made before the job is taken") {
    auto empty = led_by_b();
    empty["metadata"].erase("annotations");
    for (const auto& spec :
         {Json(nullptr), Json::object(), Json::object({{"leaseDurationSeconds", 10}})}) {
        CAPTURE(spec.dump());
        empty["spec"] = spec;
        const auto record = answered<Record>(ReadRecord{}, facts(empty));
        CHECK_FALSE(record.held);
        CHECK(record.epoch == 0);
        const auto write = written(Campaign{{{"a:1", "aa", 1}, 1}, 0}, facts(empty));
        CHECK(write.call.method == Method::put);
        CHECK(Json::parse(write.call.body)["spec"]["holderIdentity"] == "aa");
    }
}

TEST_CASE("Lease: wrong objects are an error and no record") {
    const auto with = [](const char* pointer, const Json& value) {
        auto lease = led_by_b();
        lease[Json::json_pointer{pointer}] = value;
        return lease;
    };
    for (const auto& json :
         {with("/metadata/resourceVersion", 7),
          with("/metadata/annotations", "none"),
          with("/metadata/annotations/ddprun~1epoch", "seven"),
          with("/metadata/annotations/ddprun~1epoch", "0"),
          with("/metadata/annotations/ddprun~1endpoint", ""),
          with("/metadata/annotations/ddprun~1ended", "!!"),
          with("/spec/leaseDurationSeconds", 0),
          with("/spec/leaseDurationSeconds", -1),
          with("/spec/leaseDurationSeconds", 1'000'000),
          with("/spec/leaseDurationSeconds", "soon"),
          with("/kind", "Pod")}) {
        CAPTURE(json.dump());
        CHECK_FALSE(kubernetes::read_lease(place, 200, json.dump()).has_value());
    }
    // Also without a holder: the next leader would begin at epoch 1.
    for (const auto& epoch :
         {Json("seven"), Json("0"), Json("-1"), Json("8x"), Json(""), Json(0)}) {
        CAPTURE(epoch.dump());
        auto free = released();
        free["metadata"]["annotations"]["ddprun/epoch"] = epoch;
        const auto lease = kubernetes::read_lease(place, 200, free.dump());
        REQUIRE_FALSE(lease.has_value());
        CHECK(lease.error().context == "the Lease ml/bert has no legible annotation ddprun/epoch");
    }
    for (const std::string body : {"", "[]", "null", "<html>sign in</html>", "{\"kind\":7}"})
        for (const int code : {200, 404, 502}) {
            CAPTURE(body);
            const auto lease = kubernetes::read_lease(place, code, body);
            REQUIRE_FALSE(lease.has_value());
            CHECK(lease.error().context.find("no answer of Kubernetes' API") != std::string::npos);
        }
}

TEST_CASE("Lease: a refusal has the API server's message and the right that is needed") {
    const std::string message =
        R"(leases.coordination.k8s.io "bert" is forbidden: User "system:serviceaccount:ml:default" )"
        R"(cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "ml")";
    const auto text = kubernetes::describe_error(place, 403, status("Forbidden", message, 403));
    CHECK(text.starts_with("HTTP status 403, '" + message + "' (bind a Role with the verbs get, "));
    CHECK(text.find("get, create and update for leases") != std::string::npos);
    CHECK(kubernetes::describe_error(place, 401, status("Unauthorized", "Unauthorized", 401))
              .starts_with("HTTP status 401, 'Unauthorized' (it does not accept the token"));
    CHECK(kubernetes::outcome_of(200) == kubernetes::Outcome::performed);
    CHECK(kubernetes::outcome_of(201) == kubernetes::Outcome::performed);
    CHECK(kubernetes::outcome_of(409) == kubernetes::Outcome::outdated);
    CHECK(kubernetes::outcome_of(404) == kubernetes::Outcome::outdated);
    CHECK(kubernetes::outcome_of(403) == kubernetes::Outcome::refused);
    CHECK(kubernetes::outcome_of(500) == kubernetes::Outcome::refused);
}

}  // namespace kubernetes_gateway_test
