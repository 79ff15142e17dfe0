// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/rendezvous_server.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"
#include "rendezvous/base/signal_masked_thread.hpp"
#include "rendezvous/base/start_failure.hpp"
#include "rendezvous/net/deadline.hpp"
#include "rendezvous/net/descriptors.hpp"
#include "rendezvous/net/tcp.hpp"
#include "rendezvous/server/control_server.hpp"
#include "rendezvous/server/http_connection.hpp"
#include "rendezvous/server/linger.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/server/pages.hpp"
#include "rendezvous/server/rejections.hpp"
#include "rendezvous/server/sniff.hpp"
#include "rendezvous/server/store_thread.hpp"
#include "rendezvous/server/unproved_callers.hpp"
#include "rendezvous/tls/session.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::server {
namespace {

/// Descriptors of an io_context: epoll, a timer, a wake-up; and the epoll of the store's clients.
constexpr int store_thread_descriptors = 4;

/// Sends a node with a secret the alert that this server has none, instead of closing without a
/// reason.
boost::asio::awaitable<void> refuse_encryption(net::Tcp::socket socket) {
    co_await boost::asio::async_write(
        socket, boost::asio::buffer(tls::no_encryption_here), net::as_values);
    co_await linger(socket);
}

}  // namespace

/// All state of the server's thread. The owner creates and destroys it while that thread does not
/// run.
class RendezvousServer::Core {
public:
    explicit Core(Options options);
    ~Core();

    Result<std::uint16_t> start();
    void interrupt(int signal, std::string reason, std::optional<Duration> grace);
    void lead(coordinator::Led led);
    void recorded(std::uint64_t number);
    void depose(std::string reason);
    void voters_changed(coordinator::Coordinator::VotersChanged changed);
    void witness_changed(std::optional<control::VoterPlace> witness);
    void report_if_idle();
    void drain();

private:
    Result<std::uint16_t> listen();
    Result<std::uint16_t> take_inherited();
    Result<std::uint16_t> listen_at(const std::string& address, std::uint16_t port);
    Result<std::uint16_t> serve(Result<net::Tcp::acceptor> acceptor);
    void warn_of_small_backlog(net::Tcp::acceptor& acceptor) const;
    void run();
    using Place = std::shared_ptr<UnprovedPlace>;

    void accept(net::Tcp::socket socket);
    /// Runs a conversation that a drain waits for.
    void attend(boost::asio::awaitable<void> conversation);
    boost::asio::awaitable<void> receive(net::Tcp::socket socket, int round, Place place);
    void dispatch(
        net::Tcp::socket socket, int round, Caller caller, std::string first_bytes, Place place);
    bool start_store();
    void reject(const std::string& peer, std::string_view reason);
    void begin_round();
    void retire_store();
    void begin_drain(std::function<void()> done);
    void part_drained();
    void end_drain_if_empty();
    void end_drain();
    boost::asio::awaitable<ServerStatus> status();
    /// The sum of the stores' answers so far, and the number of stores that have not answered yet.
    struct Survey {
        explicit Survey(boost::asio::io_context& io) : timeout(io) {}
        boost::asio::steady_timer timeout;
        StoreSurvey sum;
        int missing = 0;
    };
    std::shared_ptr<Survey> begin_survey();
    boost::asio::awaitable<std::optional<StoreSurvey>> survey_stores();

    Options options_;
    boost::asio::io_context io_{1};
    ControlServer control_;
    /// Started by the first c10d connection: most servers never get one.
    std::unique_ptr<StoreThread> store_;
    /// The stores of earlier rounds, whose clients are still reading their last replies.
    std::vector<std::unique_ptr<StoreThread>> retired_stores_;
    /// The number of rounds that have had their own store here.
    int round_ = 0;
    std::vector<std::shared_ptr<Listener>> listeners_;
    Pages pages_;
    std::shared_ptr<UnprovedCallers> unproved_ =
        std::make_shared<UnprovedCallers>(options_.most_unproved_callers);
    Rejections rejections_;
    std::uint64_t control_count_ = 0;
    std::uint64_t store_count_ = 0;
    std::uint64_t http_count_ = 0;
    Instant started_at_;
    /// Callers that are sniffed or read a page.
    std::size_t caller_count_ = 0;
    /// Set from the beginning of a drain until this object is destroyed.
    struct Drain {
        Drain(boost::asio::io_context& io, std::function<void()> on_done)
            : timeout(io),
              done(std::move(on_done)) {}
        boost::asio::steady_timer timeout;
        std::function<void()> done;
        /// How many of the two parts (coordinator and store) still have connections.
        int parts = 0;
    };
    std::optional<Drain> drain_;
    std::thread thread_;
};

RendezvousServer::Core::Core(Options options)
    : options_(std::move(options)),
      control_(
          io_,
          {options_.hosted_run_id,
           options_.is_elected,
           limits::max_nodes_per_tenant,
           options_.voter},
          options_.handshake_timeout,
          {options_.on_idle,
           [this](const std::string& peer, const std::string& reason) { reject(peer, reason); },
           [this] { begin_round(); },
           options_.on_stepped_down,
           options_.on_record,
           options_.on_change_voters},
          limits::max_control_bytes,
          std::move(options_.secrets)),
      pages_(
          io_,
          {[this](JobPage& page, const coordinator::Scope& scope, std::uint64_t after) {
               return control_.add_jobs(page, scope, after);
           },
           [this] { return status(); },
           [this] { return control_.now(); }}),
      started_at_(control_.now()) {}

RendezvousServer::Core::~Core() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
}

Result<std::uint16_t> RendezvousServer::Core::start() {
    auto port = options_.inherited.empty() ? listen() : take_inherited();
    if (!port) return port;
    thread_ = start_signal_masked_thread([this] { run(); });
    if (options_.inherited.empty())
        log::info("rendezvous.listening", {{"port", *port}});
    else
        log::info(
            "rendezvous.listening", {{"port", *port}, {"inherited", options_.inherited.size()}});
    return port;
}

void RendezvousServer::Core::run() {
    for (;;) {
        try {
            io_.run();
            return;
        } catch (const std::bad_alloc&) {
            control_.start_over();
        }
    }
}

Result<std::uint16_t> RendezvousServer::Core::listen() {
    const auto& on = options_.listen;
    if (on.scope == ListenOn::Scope::everywhere) return listen_at("", on.port);
    if (on.scope == ListenOn::Scope::address) return listen_at(on.address, on.port);
    // Whichever process listens at 127.0.0.1 is the server; ::1 is added if that address is
    // available.
    auto port = listen_at("127.0.0.1", on.port);
    if (port)
        std::ignore = listen_at("::1", *port);
    else if (port.error().code == boost::system::errc::address_not_available)
        return listen_at("::1", on.port);
    return port;
}

Result<std::uint16_t> RendezvousServer::Core::take_inherited() {
    Result<std::uint16_t> first = std::uint16_t{0};
    for (const int descriptor : options_.inherited) {
        const auto port = serve(net::take_listening(io_, descriptor));
        if (!port) return port;
        if (*first == 0) first = port;
    }
    return first;
}

Result<std::uint16_t> RendezvousServer::Core::listen_at(
    const std::string& address, std::uint16_t port) {
    return serve(net::listen(io_, address, port));
}

Result<std::uint16_t> RendezvousServer::Core::serve(Result<net::Tcp::acceptor> acceptor) {
    if (!acceptor) return acceptor.error();
    error_code ec;
    const auto bound = acceptor->local_endpoint(ec);
    if (ec) return Failure{ec, "listen"};
    if (listeners_.empty()) warn_of_small_backlog(*acceptor);
    // A daemon serves every user of the machine.
    const auto callers =
        options_.hosted_run_id ? Listener::Callers::own_user_on_loopback : Listener::Callers::any;
    listeners_.push_back(std::make_shared<Listener>(
        std::move(*acceptor),
        [this](net::Tcp::socket socket) { accept(std::move(socket)); },
        callers));
    listeners_.back()->start();
    return bound.port();
}

/// Only for a daemon, whose jobs may have any number of nodes. The nodes of a hosting `ddprun` are
/// usually few enough; otherwise `listener.overflowed` is logged.
void RendezvousServer::Core::warn_of_small_backlog(net::Tcp::acceptor& acceptor) const {
    if (options_.hosted_run_id) return;
    const auto granted = net::granted_backlog(acceptor);
    if (!granted || *granted >= limits::usual_accept_backlog) return;
    log::warning(
        "listener.backlog_small",
        {{"backlog", *granted},
         {"usual", limits::usual_accept_backlog},
         {"effect",
          "when more callers come at once, some must try again after a second or more: raise "
          "net.core.somaxconn"}});
}

/// Callers are not counted without a secret, since none has to prove anything then, or with the
/// store of a round, whose clients are many and brief.
void RendezvousServer::Core::accept(net::Tcp::socket socket) {
    net::prepare(socket);
    Place place;
    if (control_.has_secret() && !options_.has_store_of_round) {
        place = std::make_shared<UnprovedPlace>(
            unproved_,
            Handshakes::Caller{net::peer_network(socket), net::peer_address(socket)},
            control_.now());
        if (place->is_taken()) return reject(net::peer_name(socket), too_many_unproved);
    }
    attend(receive(std::move(socket), round_, std::move(place)));
}

void RendezvousServer::Core::attend(boost::asio::awaitable<void> conversation) {
    ++caller_count_;
    boost::asio::co_spawn(io_, std::move(conversation), [this](const std::exception_ptr&) {
        --caller_count_;
        end_drain_if_empty();
    });
}

void RendezvousServer::Core::interrupt(
    int signal, std::string reason, std::optional<Duration> grace) {
    control_.interrupt(signal, std::move(reason), grace);
}

void RendezvousServer::Core::lead(coordinator::Led led) {
    boost::asio::post(
        io_, [this, led = std::move(led)]() mutable { control_.lead(std::move(led)); });
}

void RendezvousServer::Core::recorded(std::uint64_t number) {
    boost::asio::post(io_, [this, number] { control_.recorded(number); });
}

void RendezvousServer::Core::depose(std::string reason) {
    boost::asio::post(io_, [this, reason = std::move(reason)] { control_.depose(reason); });
}

void RendezvousServer::Core::voters_changed(coordinator::Coordinator::VotersChanged changed) {
    boost::asio::post(io_, [this, changed = std::move(changed)]() mutable {
        control_.voters_changed(std::move(changed));
    });
}

void RendezvousServer::Core::witness_changed(std::optional<control::VoterPlace> witness) {
    boost::asio::post(io_, [this, witness = std::move(witness)]() mutable {
        control_.witness_changed(std::move(witness));
    });
}

void RendezvousServer::Core::report_if_idle() {
    boost::asio::post(io_, [this] { control_.report_if_idle(); });
}

boost::asio::awaitable<void> RendezvousServer::Core::receive(
    net::Tcp::socket socket, int round, Place place) {
    const auto peer = net::peer_name(socket);
    std::string bytes;
    auto caller = Caller::need_more;
    {
        net::Deadline deadline(
            socket.get_executor(), options_.handshake_timeout, [&socket] { net::close(socket); });
        if (place) place->close_with([&socket] { net::close(socket); });
        std::array<char, 4096> chunk{};
        while (caller == Caller::need_more) {
            const auto [ec, size] =
                co_await socket.async_read_some(boost::asio::buffer(chunk), net::as_values);
            if (place && place->is_taken()) co_return reject(peer, too_many_unproved);
            if (ec) {
                // Not logged: load balancers and health checks connect and close at once.
                if (bytes.empty() && !deadline.has_passed()) co_return;
                co_return reject(peer, describe(caller));
            }
            bytes.append(chunk.data(), size);
            caller = sniff(bytes, options_.accepted);
        }
    }
    if (place) place->close_with({});
    dispatch(std::move(socket), round, caller, std::move(bytes), std::move(place));
}

void RendezvousServer::Core::dispatch(
    net::Tcp::socket socket, int round, Caller caller, std::string first_bytes, Place place) {
    switch (caller) {
        case Caller::control:
            if (drain_) return;
            ++control_count_;
            return control_.adopt(std::move(socket), std::move(first_bytes));
        case Caller::c10d:
            // Closed when the caller is a worker of the previous round.
            if (round != round_ || drain_) return;
            // Workers use the agents' stores here, and this store would be open to every caller.
            if (control_.has_secret() && !options_.has_store_of_round)
                return reject(net::peer_name(socket), "a store client of a server with a secret");
            if (!store_ && !start_store()) return;
            ++store_count_;
            return store_->adopt(std::move(socket), std::move(first_bytes));
        case Caller::http:
            ++http_count_;
            return attend(serve_http(
                std::move(socket), std::move(first_bytes), pages_, control_.secrets(), place));
        case Caller::tls:
            if (drain_) return;
            if (!control_.has_secret()) {
                reject(net::peer_name(socket), describe(caller));
                return attend(refuse_encryption(std::move(socket)));
            }
            ++control_count_;
            return control_.adopt_encrypted(std::move(socket), std::move(first_bytes));
        case Caller::need_more:
        case Caller::older_c10d:
        case Caller::big_endian_c10d:
        case Caller::unknown: return reject(net::peer_name(socket), describe(caller));
    }
}

/// Returns false when descriptors or threads are missing; then the caller is turned away, as by the
/// listener.
bool RendezvousServer::Core::start_store() {
    std::string reason = "no descriptors left";
    try {
        if (net::can_open_descriptors(store_thread_descriptors)) {
            store_ = std::make_unique<StoreThread>(
                options_.accepted,
                options_.has_store_of_round ? options_.on_store_wait : StoreServer::OnWait{});
            return true;
        }
    } catch (const std::system_error& error) {
        reason = describe_start_failure(error.code(), error.what());
    }
    log::error("rendezvous.store_not_started", {{"reason", reason}});
    return false;
}

void RendezvousServer::Core::reject(const std::string& peer, std::string_view reason) {
    if (rejections_.add(peer))
        log::warning("rendezvous.rejected", {{"peer", peer}, {"reason", reason}});
}

/// Workers of the previous round must no longer reach the keys, and new workers must not find old
/// keys.
void RendezvousServer::Core::begin_round() {
    if (!options_.has_store_of_round) return;
    for (const auto& listener : listeners_)
        listener->take_waiting();
    ++round_;
    if (store_) retire_store();
}

/// From now on the store handles no request; its clients read their last replies and the end.
void RendezvousServer::Core::retire_store() {
    auto* const store = store_.get();
    retired_stores_.push_back(std::move(store_));
    store->drain(limits::flush_timeout, [this, store] {
        boost::asio::post(io_, [this, store] {
            std::erase_if(retired_stores_, [&](const auto& each) { return each.get() == store; });
        });
    });
}

void RendezvousServer::Core::drain() {
    if (!thread_.joinable()) return;
    // Shared, since this thread may continue while the server's thread is still inside `set_value`.
    const auto drained = std::make_shared<std::promise<void>>();
    boost::asio::post(io_, [this, drained] { begin_drain([drained] { drained->set_value(); }); });
    drained->get_future().wait();
}

void RendezvousServer::Core::begin_drain(std::function<void()> done) {
    drain_.emplace(io_, std::move(done));
    for (const auto& listener : listeners_) {
        // The parent keeps an inherited socket open, so waiting callers are left for the next
        // server.
        if (options_.inherited.empty()) listener->take_waiting();
        listener->close();
    }
    drain_->timeout.expires_after(options_.drain_timeout);
    drain_->timeout.async_wait([this](const error_code& ec) {
        if (!ec) end_drain();
    });
    drain_->parts = store_ ? 2 : 1;
    control_.drain([this] { part_drained(); });
    if (store_)
        store_->drain(
            options_.drain_timeout, [this] { boost::asio::post(io_, [this] { part_drained(); }); });
}

void RendezvousServer::Core::part_drained() {
    --drain_->parts;
    end_drain_if_empty();
}

void RendezvousServer::Core::end_drain_if_empty() {
    if (drain_ && drain_->parts == 0 && caller_count_ == 0) end_drain();
}

void RendezvousServer::Core::end_drain() {
    drain_->timeout.cancel();
    if (const auto done = std::exchange(drain_->done, nullptr)) done();
}

boost::asio::awaitable<ServerStatus> RendezvousServer::Core::status() {
    ServerStatus status;
    status.stores = co_await survey_stores();
    status.version = options_.version;
    status.uptime_s = in_seconds(control_.now() - started_at_);
    status.control_connections = control_count_;
    status.store_connections = store_count_;
    status.http_connections = http_count_;
    status.rejected_connections = rejections_.count();
    status.agents = control_.agent_count();
    status.is_elected = options_.is_elected;
    status.leader = control_.leader();
    co_return status;
}

/// Queries each store, since they are on other threads. The last answer ends the wait.
std::shared_ptr<RendezvousServer::Core::Survey> RendezvousServer::Core::begin_survey() {
    auto survey = std::make_shared<Survey>(io_);
    const auto answer = [this, survey](StoreSurvey found) {
        boost::asio::post(io_, [survey, found = std::move(found)] {
            survey->sum.add(found);
            if (--survey->missing == 0) survey->timeout.cancel();
        });
    };
    survey->missing = (store_ ? 1 : 0) + (options_.ask_stores ? 1 : 0);
    survey->timeout.expires_after(limits::survey_timeout);
    if (store_) store_->survey(answer);
    if (options_.ask_stores) options_.ask_stores(answer);
    return survey;
}

boost::asio::awaitable<std::optional<StoreSurvey>> RendezvousServer::Core::survey_stores() {
    const auto survey = begin_survey();
    if (survey->missing > 0) co_await survey->timeout.async_wait(net::as_values);
    if (survey->missing > 0) co_return std::nullopt;
    co_return survey->sum;
}

RendezvousServer::RendezvousServer(Options options)
    : core_(std::make_unique<Core>(std::move(options))) {}

RendezvousServer::~RendezvousServer() = default;

Result<std::uint16_t> RendezvousServer::start() {
    return core_->start();
}

void RendezvousServer::interrupt(int signal, std::string reason, std::optional<Duration> grace) {
    if (core_) core_->interrupt(signal, std::move(reason), grace);
}

void RendezvousServer::lead(coordinator::Led led) {
    if (core_) core_->lead(std::move(led));
}

void RendezvousServer::recorded(std::uint64_t number) {
    if (core_) core_->recorded(number);
}

void RendezvousServer::depose(std::string reason) {
    if (core_) core_->depose(std::move(reason));
}

void RendezvousServer::voters_changed(std::string run_id, control::Voters voters) {
    if (core_) core_->voters_changed({std::move(run_id), std::move(voters)});
}

void RendezvousServer::witness_changed(std::optional<control::VoterPlace> witness) {
    if (core_) core_->witness_changed(std::move(witness));
}

void RendezvousServer::report_if_idle() {
    if (core_) core_->report_if_idle();
}

void RendezvousServer::drain() {
    if (core_) core_->drain();
    stop();
}

void RendezvousServer::stop() {
    core_.reset();
}

}  // namespace ddprun::server
