// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/http_timeline.hpp"

#include "rendezvous/base/printable.hpp"
#include "rendezvous/control/text.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::server {
namespace http_timeline {
namespace {

using Json = nlohmann::ordered_json;
using coordinator::Timeline;

/// Phases without time are left out.
Json to_json(const control::Goodput& spent) {
    auto seconds = Json::object();
    control::for_each_phase([&](control::GoodputPhase phase) {
        if (spent[phase] > Duration{})
            seconds[std::string{control::name_of(phase)}] = in_seconds(spent[phase]);
    });
    return seconds;
}

/// The length of a round that has not ended is left out, since it would change the page all the
/// time.
Json to_json(const Timeline::Round& round) {
    auto phases = Json::array();
    for (const auto phase : round.phases)
        phases.push_back(control::name_of(phase));
    Json shown{
        {"number", round.number},
        {"begin_s", in_seconds(round.begin.sum())},
        {"phases", std::move(phases)},
        {"changes", round.changes},
        {"end_s", nullptr},
    };
    if (!round.end) return shown;
    const auto& end = *round.end;
    shown["end_s"] = in_seconds(end.totals.sum());
    shown["cause"] = end.what.kind ? Json(control::name_of(*end.what.kind)) : Json(nullptr);
    shown["root_cause"] = end.what.kind ? Json(printable(end.what.root_cause)) : Json(nullptr);
    shown["seconds"] = to_json(round.spent());
    return shown;
}

Json to_json(const Timeline::Older& older) {
    auto causes = Json::object();
    for (const auto& [kind, count] : older.by_cause)
        causes[std::string{control::name_of(kind)}] = count;
    return {
        {"rounds", older.count},
        {"by_cause", std::move(causes)},
        {"seconds", to_json(older.spent)},
    };
}

/// None: not the number of a round.
std::optional<int> first_round(const HttpRequest& request) {
    const auto from = request.query.find("from");
    if (from == request.query.end()) return 0;
    const auto& text = from->second;
    int number = 0;
    const auto end = text.data() + text.size();
    const auto [stopped_at, failure] = std::from_chars(text.data(), end, number);
    if (failure != std::errc{} || stopped_at != end || number < 0) return std::nullopt;
    return number;
}

class TimelinePage final : public JobPage {
public:
    explicit TimelinePage(StatusQuery query) : query_(std::move(query)) {}

    StatusQuery query() const override { return query_; }

    /// Of several incarnations the newest is shown.
    void add(const coordinator::JobStatus& job) override {
        if (!job.is_newest || !job.timeline) return;
        auto rounds = Json::array();
        for (const auto& round : job.timeline->rounds)
            rounds.push_back(to_json(round));
        Json page{
            {"run_id", printable(job.run_id)},
            {"incarnation", printable(job.incarnation)},
            {"older", to_json(job.timeline->older)},
            {"rounds", std::move(rounds)},
        };
        if (!job.tenant.empty()) page["tenant"] = job.tenant;
        text_ = page.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }

    HttpResponse finish(const ServerStatus&) override {
        if (text_.empty()) return {404, "text/plain; charset=utf-8", "no job of this id here\n"};
        const auto tag = std::to_string(std::hash<std::string>{}(text_));
        return {200, "application/json", std::move(text_), '"' + tag + '"'};
    }

private:
    StatusQuery query_;
    std::string text_;
};

}  // namespace
}  // namespace http_timeline

std::unique_ptr<JobPage> timeline_page(const HttpRequest& request) {
    const auto job = request.query.find("job");
    const auto first = http_timeline::first_round(request);
    if (job == request.query.end() || job->second.empty() || !first) return nullptr;
    // No nodes are listed.
    return std::make_unique<http_timeline::TimelinePage>(
        StatusQuery{job->second, std::numeric_limits<std::size_t>::max(), first});
}

}  // namespace ddprun::server
