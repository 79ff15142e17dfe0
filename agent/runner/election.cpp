// SPDX-License-Identifier: Apache-2.0
#include "agent/runner/election.hpp"

#include "rendezvous/base/log.hpp"
#include "rendezvous/base/machine.hpp"
#include "rendezvous/witness/etcd_client.hpp"
#include "rendezvous/witness/kubernetes_client.hpp"

#include <memory>
#include <utility>
#include <variant>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

/// The pause between two readings of the files: every request fails while the engine is out of
/// reach.
constexpr Duration read_access_interval = 2s;

}  // namespace

Election::Engine Election::outside_engine(
    boost::asio::io_context& io,
    const ElectionPlan& plan,
    const std::string& run_id,
    const std::string& nonce) {
    Engine engine;
    engine.read_access = plan.read_access;
    if (const auto* etcd = std::get_if<EtcdPlan>(&plan.engine)) {
        engine.name = "etcd";
        engine.client = std::make_unique<witness::EtcdClient>(
            io, etcd->members, witness::etcd::keys_of(etcd->prefix, run_id), plan.access);
    } else {
        engine.name = "Kubernetes";
        engine.client = std::make_unique<witness::KubernetesClient>(
            io,
            std::get<witness::kubernetes::LeasePlace>(plan.engine),
            witness::kubernetes::Job{run_id, nonce},
            plan.access);
    }
    return engine;
}

Election::Election(boost::asio::io_context& io, Engine engine, std::string nonce, Hooks hooks)
    : hooks_(std::move(hooks)),
      engine_(std::move(engine.client)),
      read_access_(std::move(engine.read_access)),
      driver_(
          io,
          "election",
          Lease{{std::move(engine.name), std::move(nonce), engine.ttl}},
          [this](Lease::Effect& effect) { perform(effect); }),
      is_first_placed_(engine.is_first_placed) {
    if (read_access_) files_.emplace(io);
}

void Election::seek(bool is_first_try) {
    driver_.post(Lease::Sought{is_first_try});
}

void Election::step_down(std::uint64_t epoch, std::uint64_t known_epoch) {
    driver_.post(Lease::SteppedDown{epoch, known_epoch});
}

void Election::record(const coordinator::Record& record) {
    driver_.post(Lease::EndDecided{record.epoch, record.number, record.ends});
}

void Election::leave(bool is_job_over) {
    driver_.post(Lease::Left{is_job_over});
}

void Election::perform(Lease::Effect& effect) {
    std::visit(
        Overloaded{
            [&](Lease::Ask& request) { ask(std::move(request)); },
            [&](Lease::OpenServer) {
                auto opened = hooks_.open_server(engine_->local_address());
                if (opened) own_endpoint_ = opened->to_string();
                driver_.post(Lease::ServerOpened{
                    opened ? Result<std::string>{own_endpoint_} : opened.error()});
            },
            [&](const Lease::Found& found) {
                const auto endpoint = parse_endpoint(found.leader.endpoint, 0);
                if (!endpoint)
                    return hooks_.on_not_found(
                        "the leader's recorded address is not legible: " + found.leader.endpoint);
                note_leader(found.leader.endpoint, found.leader.epoch);
                hooks_.on_found(*endpoint);
            },
            [&](const Lease::Elected& elected) {
                note_leader(own_endpoint_, elected.epoch);
                hooks_.on_elected(elected);
            },
            [&](const Lease::Extended& extended) {
                hooks_.on_extended(extended.epoch, extended.until);
            },
            [&](const Lease::Recorded& recorded) { hooks_.on_recorded(recorded.number); },
            [&](Lease::Deposed& deposed) { hooks_.on_deposed(std::move(deposed.reason)); },
            [&](Lease::NotFound& not_found) { hooks_.on_not_found(std::move(not_found.reason)); },
            [&](Lease::Released) { hooks_.on_released(); },
        },
        effect);
}

void Election::ask(Lease::Ask ask) {
    engine_->ask(
        std::move(ask.what), [this, id = ask.request](Result<witness::LeaseAnswer> answer) {
            if (!answer && may_read_access()) read_access();
            driver_.post(Lease::Answered{id, std::move(answer)});
        });
}

bool Election::may_read_access() const {
    return files_ && !is_reading_ && driver_.now() >= may_read_access_at_;
}

/// The certificates, the password or the token may have been renewed since they were read: the
/// engine then refuses the old ones, or has a certificate of another authority. The next request
/// uses the new ones.
void Election::read_access() {
    is_reading_ = true;
    files_->post([this, read = read_access_]() -> BlockingThread::Answer {
        return [this, access = read()]() mutable {
            is_reading_ = false;
            may_read_access_at_ = driver_.now() + read_access_interval;
            if (access) return engine_->use(std::move(*access));
            log::warning("rendezvous.engine_files_not_read", {{"reason", access.error().context}});
        };
    });
}

/// Logs a change of the leader. The first leader that this node finds is none, unless it is another
/// one than the node had without an election.
void Election::note_leader(const std::string& endpoint, std::uint64_t epoch) {
    const auto before = std::exchange(noted_epoch_, epoch);
    if (before == epoch) return;
    const bool is_change = before != 0 || (is_first_placed_ && epoch > 1);
    log::write(
        is_change ? log::Level::warning : log::Level::debug,
        "rendezvous.leader_changed",
        {{"leader", endpoint}, {"epoch", epoch}});
}

}  // namespace ddprun::agent
