// SPDX-License-Identifier: Apache-2.0
#include "agent/channel/channel_server.hpp"

#include "rendezvous/base/limits.hpp"
#include "rendezvous/base/log.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace ddprun::agent::channel {
namespace {

/// Makes every running thread of this machine execute a full memory barrier. If a worker has read a
/// word of its page before the agent's write, the worker's own earlier writes are visible
/// afterwards. So workers need no barrier of their own.
void finish_loads_and_stores() {
    constexpr int barrier_of_all = 1;  // MEMBARRIER_CMD_GLOBAL
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Where the call is not allowed, the pause is far longer than a store buffer keeps data.
    if (::syscall(SYS_membarrier, barrier_of_all, 0) != 0)
        std::this_thread::sleep_for(limits::save_barrier_pause);
}

}  // namespace

// ---- the page -----------------------------------------------------------------------------------

std::optional<SharedPage> SharedPage::make() {
    const int descriptor = ::memfd_create("ddprun-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return std::nullopt;
    SharedPage page{descriptor, nullptr};
    if (::ftruncate(descriptor, page_bytes) != 0 ||
        ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return std::nullopt;
    void* memory = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) return std::nullopt;
    page.words_ = static_cast<std::uint64_t*>(memory);
    return page;
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      words_(std::exchange(other.words_, nullptr)) {}

SharedPage::~SharedPage() {
    if (words_ != nullptr) ::munmap(words_, page_bytes);
    if (descriptor_ >= 0) ::close(descriptor_);
}

// ---- the listener -------------------------------------------------------------------------------

ChannelServer::ChannelServer(
    boost::asio::io_context& io, Owner owner, Random& random, Listeners listeners)
    : io_(io),
      random_(random),
      listeners_(std::move(listeners)),
      listener_(
          io,
          [this](int socket, LocalPeer peer) {
              const int caller = ++last_caller_;
              callers_.emplace(caller, Descriptor{io_, socket});
              machine_.post(WorkerChannel::Connected{caller, {peer.pid, peer.user}});
              wait_for_bytes(caller);
          }),
      sample_(io),
      machine_(io, "channel", WorkerChannel{owner.user}, [this](WorkerChannel::Effect& effect) {
          perform(effect);
      }) {
    const auto name = "ddprun/1/" + std::to_string(owner.user) + '/' + std::to_string(owner.keeper);
    if (const auto listening = listener_.listen(name, random); !listening)
        log::info("channel.not_listening", {{"reason", listening.error().describe()}});
}

void ChannelServer::wait_for_bytes(int caller) {
    const auto found = callers_.find(caller);
    if (found == callers_.end()) return;
    found->second.async_wait(
        Descriptor::wait_read, [this, caller](const boost::system::error_code& ec) {
            if (!ec && read(caller)) wait_for_bytes(caller);
        });
}

bool ChannelServer::read(int caller) {
    const auto found = callers_.find(caller);
    if (found == callers_.end()) return false;
    std::array<char, limits::max_channel_line_bytes> bytes{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // There is no room for received descriptors, so the kernel closes them.
    const auto size = ::recvmsg(found->second.native_handle(), &message, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (size <= 0) {
        callers_.erase(found);
        machine_.post(WorkerChannel::Closed{caller});
        return false;
    }
    machine_.post(WorkerChannel::Received{
        caller,
        std::string(bytes.data(), static_cast<std::size_t>(size)),
        (message.msg_flags & MSG_CTRUNC) != 0});
    return true;
}

void ChannelServer::perform(WorkerChannel::Effect& effect) {
    std::visit(
        Overloaded{
            [&](const WorkerChannel::GivePage& e) { give_page(e); },
            [&](const WorkerChannel::Refuse& e) {
                send_line(e.caller, refused_line(e.reason), -1);
                callers_.erase(e.caller);
            },
            [&](const WorkerChannel::Close& e) { callers_.erase(e.caller); },
            [&](const WorkerChannel::SendLine& e) { send_line(e.caller, e.line, -1); },
            [&](const WorkerChannel::NoteRecoverable& e) {
                listeners_.on_recoverable(e.local_rank, e.is_recoverable);
            },
            [&](const WorkerChannel::NoteHeld& e) { listeners_.on_held(e.local_rank, e.holding); },
            [&](const WorkerChannel::NoteRefused& e) {
                log::info("channel.refused", {{"reason", e.reason}});
            },
        },
        effect);
}

void ChannelServer::give_page(const WorkerChannel::GivePage& order) {
    // The page's content is from another process.
    if (order.is_new_owner) pages_.erase(order.local_rank);
    auto found = pages_.find(order.local_rank);
    if (found == pages_.end()) {
        auto page = SharedPage::make();
        // Without an answer the worker continues without a page.
        if (!page) {
            callers_.erase(order.caller);
            return machine_.post(WorkerChannel::Closed{order.caller});
        }
        found = pages_.emplace(order.local_rank, std::move(*page)).first;
        if (pages_.size() == 1) read_pages_later();
    }
    found->second.view().write_own(save_, wait_ends_at_);
    send_line(order.caller, attached_line, found->second.descriptor());
}

void ChannelServer::send_line(int caller, std::string_view line, int descriptor) {
    const auto found = callers_.find(caller);
    if (found == callers_.end()) return;
    auto text = std::string{line} + '\n';
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = room.data();
        message.msg_controllen = room.size();
        auto* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    const auto sent =
        ::sendmsg(found->second.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    // The few lines of a connection always fit, unless the caller is gone or reads none of them.
    if (sent == static_cast<ssize_t>(text.size())) return;
    callers_.erase(found);
    machine_.post(WorkerChannel::Closed{caller});
}

// ---- rounds -------------------------------------------------------------------------------------

std::vector<std::string> ChannelServer::begin_round(
    int nproc, std::optional<std::uint64_t> done_step, const std::vector<int>& kept) {
    const auto is_kept = [&](int local_rank) {
        return std::find(kept.begin(), kept.end(), local_rank) != kept.end();
    };
    std::erase_if(pages_, [&](const auto& page) { return !is_kept(page.first); });
    for (const auto& [local_rank, page] : pages_)
        page.view().forget_round();
    pace_ = ProgressPace{done_step};
    written_.reset();
    saves_.clear();
    save_.reset();
    sample_.cancel();
    if (listener_.name().empty()) return {};
    std::vector<std::string> tokens;
    ways_.resize(static_cast<std::size_t>(nproc));
    for (int local_rank = 0; local_rank < nproc; ++local_rank) {
        tokens.push_back(make_nonce(random_).to_string());
        if (!is_kept(local_rank))
            ways_[static_cast<std::size_t>(local_rank)] = listener_.name() + '/' + tokens.back();
    }
    machine_.post(WorkerChannel::RoundBegan{std::move(tokens), kept});
    if (!pages_.empty()) read_pages_later();
    return ways_;
}

void ChannelServer::hold(int local_rank, int round, Duration time) {
    machine_.post(WorkerChannel::LineWanted{local_rank, hold_line(round, time)});
}

void ChannelServer::go(int local_rank, int round, const std::vector<std::string>& environment) {
    machine_.post(WorkerChannel::LineWanted{local_rank, go_line(round, environment)});
}

void ChannelServer::end_round() {
    sample_.cancel();
    machine_.post(WorkerChannel::RoundEnded{});
}

control::WorkProgress ChannelServer::progress_of(int local_rank) const {
    const auto found = pages_.find(local_rank);
    auto progress =
        found == pages_.end() ? control::WorkProgress{} : found->second.view().progress();
    if (!progress.step && written_ && written_->rank.local_rank == local_rank)
        progress.step = written_->rank.progress.step;
    return progress;
}

void ChannelServer::on_step_written(int local_rank, std::uint64_t step) {
    const bool is_first = !written_;
    written_ = {{local_rank, {step, control::WorkPhase::none}}, machine_.now()};
    read_progress(false);
    if (is_first && pages_.empty()) read_pages_later();
}

void ChannelServer::show_save(const control::SavePoint& save, Instant wait_ends_at) {
    save_ = save;
    wait_ends_at_ = static_cast<std::uint64_t>(nanoseconds_since_boot(wait_ends_at));
    for (const auto& [local_rank, page] : pages_)
        page.view().write_own(save_, wait_ends_at_);
    finish_loads_and_stores();
    if (!pages_.empty()) read_pages_later();
}

std::vector<RankSave> ChannelServer::saves() const {
    std::vector<RankSave> saves;
    for (const auto& [local_rank, page] : pages_) {
        const auto save = page.view().save_of(local_rank);
        if (save.asked || save.answer != RankSave::Answer::none) saves.push_back(save);
    }
    return saves;
}

void ChannelServer::read_pages_later() {
    sample_.expires_after(save_ ? limits::save_read_interval : limits::page_read_interval);
    sample_.async_wait([this](const boost::system::error_code& ec) {
        // There is no page and no progress to read: the round was already over.
        if (ec || (pages_.empty() && !written_)) return;
        read_pages();
        read_pages_later();
    });
}

void ChannelServer::read_pages() {
    // A library that attaches later must find the worker's page.
    for (const auto& [local_rank, page] : pages_)
        page.view().write_own(save_, wait_ends_at_);
    read_progress(false);
    auto saves = this->saves();
    if (saves == saves_) return;
    saves_ = saves;
    listeners_.on_saves(std::move(saves));
}

void ChannelServer::read_progress(bool is_last) {
    std::vector<ReadProgress> read;
    const auto is_written = [&](int local_rank) {
        return written_ && written_->rank.local_rank == local_rank;
    };
    for (const auto& [local_rank, page] : pages_) {
        auto at = page.view().progress_at();
        if (is_written(local_rank)) at = std::max(at, written_->at);
        const auto progress = progress_of(local_rank);
        if (progress.is_known() && read.size() < limits::max_reported_progress)
            read.push_back({{local_rank, progress}, at});
    }
    if (written_ && !pages_.contains(written_->rank.local_rank)) read.push_back(*written_);
    if (auto due = pace_.on_read(read, is_last, machine_.now()))
        listeners_.on_progress(std::move(*due));
}

void ChannelServer::read_last_progress() {
    read_progress(true);
}

}  // namespace ddprun::agent::channel
