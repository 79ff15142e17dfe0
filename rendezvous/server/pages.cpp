// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/pages.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/net/tcp.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace ddprun::server {
namespace pages {
namespace {

/// A page that took several turns or a long time to make is served again for this multiple of that
/// time.
constexpr int lifetime_factor = 20;
/// How many pages are kept for their version, and how many bytes of them: kept pages count as
/// unread.
constexpr std::size_t max_kept_pages = 64;
constexpr std::size_t max_kept_bytes = 8 * 1024 * 1024;
constexpr Duration long_turn = std::chrono::milliseconds{1};

/// The name under which a page is kept. Unambiguous, since no tenant's name has a space.
std::string name_of(const HttpRequest& request, const coordinator::Scope& scope) {
    const auto& tenant = scope.tenant();
    const auto name = (tenant ? "tenant " + *tenant : "all") + ' ' + request.path;
    if (request.path != "/status" && request.path != "/timeline") return name;
    const auto query = status_query(request);
    return name + ' ' + std::to_string(query.first_node) + ' ' + query.job;
}

}  // namespace
}  // namespace pages

class Pages::Seat {
public:
    Seat(std::shared_ptr<Callers> callers, std::string network)
        : callers_(std::move(callers)),
          network_(std::move(network)) {
        ++callers_->count;
        ++callers_->of_network[network_];
    }
    ~Seat() {
        --callers_->count;
        if (--callers_->of_network[network_] == 0) callers_->of_network.erase(network_);
    }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

private:
    std::shared_ptr<Callers> callers_;
    std::string network_;
};

Pages::Pages(boost::asio::io_context& io, Source source)
    : io_(io),
      source_(std::move(source)),
      made_(io, boost::asio::steady_timer::time_point::max()) {}

std::shared_ptr<Pages::Seat> Pages::admit(const std::string& network) {
    const auto own = callers_->of_network.find(network);
    const bool is_full =
        callers_->count >= limits::max_page_callers ||
        (own != callers_->of_network.end() && own->second >= limits::max_page_callers_per_network);
    return is_full ? nullptr : std::make_shared<Seat>(callers_, network);
}

Page Pages::kept(const std::string& name) {
    const auto now = source_.now();
    std::erase_if(kept_, [&](const auto& each) { return now >= each.second.until; });
    const auto found = kept_.find(name);
    return found == kept_.end() ? nullptr : found->second.page;
}

bool Pages::has_room_for(std::size_t bytes) const {
    for (const auto& [name, kept] : kept_)
        bytes += kept.page->body.size();
    return kept_.size() < pages::max_kept_pages && bytes <= pages::max_kept_bytes;
}

std::size_t Pages::unread_bytes() {
    std::erase_if(being_read_, [](const auto& page) { return page.expired(); });
    std::size_t sum = 0;
    for (const auto& each : being_read_)
        if (const auto page = each.lock()) sum += page->body.size();
    return sum;
}

boost::asio::awaitable<Page> Pages::get(HttpRequest request, coordinator::Scope scope) {
    const auto name = pages::name_of(request, scope);
    const auto end = source_.now() + limits::http_timeout;
    for (auto now = source_.now(); now < end; now = source_.now()) {
        if (auto page = kept(name)) co_return page;
        if (is_making_) {
            co_await made_.async_wait(net::as_values);
        } else if (now < rests_until_) {
            boost::asio::steady_timer rest(io_, rests_until_ - now);
            co_await rest.async_wait(net::as_values);
        } else {
            if (unread_bytes() > limits::max_unread_page_bytes) co_return nullptr;
            is_making_ = true;
            Page page;
            std::exception_ptr failure;
            try {
                page = co_await make(std::move(request), std::move(scope), name);
            } catch (...) {
                failure = std::current_exception();
            }
            is_making_ = false;
            made_.cancel();
            if (failure) std::rethrow_exception(failure);
            co_return page;
        }
    }
    co_return nullptr;
}

boost::asio::awaitable<Page> Pages::make(
    HttpRequest request, coordinator::Scope scope, std::string name) {
    const auto began_at = source_.now();
    const auto making = job_page(request);
    int turns = 1;
    for (auto last = source_.add_jobs(*making, scope, 0); last != 0; ++turns) {
        co_await boost::asio::post(io_, boost::asio::use_awaitable);
        last = source_.add_jobs(*making, scope, last);
    }
    const auto page =
        std::make_shared<const HttpResponse>(making->finish(co_await source_.ask_server()));
    being_read_.push_back(page);
    const auto now = source_.now();
    const auto took = now - began_at;
    // A page with a version changes rarely, and each open browser requests it again.
    if (!page->etag.empty() && has_room_for(page->body.size()))
        kept_[name] = {page, now + limits::page_lifetime};
    if (turns > 1 || took > pages::long_turn) {
        rests_until_ = now + took;
        kept_[std::move(name)] = {
            page, now + std::min(pages::lifetime_factor * took, limits::page_lifetime)};
    }
    co_return page;
}

}  // namespace ddprun::server
