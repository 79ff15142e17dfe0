// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/channel/local_listener.hpp"
#include "agent/channel/page.hpp"
#include "agent/channel/progress_pace.hpp"
#include "agent/channel/worker_channel.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/result.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/control/message.hpp"
#include "rendezvous/net/driver.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent::channel {

/// One worker's page, in memory that the worker can neither shrink nor grow.
class SharedPage {
public:
    static std::optional<SharedPage> make();
    ~SharedPage();
    SharedPage(SharedPage&& other) noexcept;
    SharedPage& operator=(SharedPage&&) = delete;

    int descriptor() const { return descriptor_; }
    Page view() const { return Page{words_}; }

private:
    SharedPage(int descriptor, std::uint64_t* words) : descriptor_(descriptor), words_(words) {}

    int descriptor_;
    std::uint64_t* words_;
};

/// The node's local listener, and the pages of its workers. A page is made when a worker requests
/// it, and kept after the worker's death until the next round. The shell of one WorkerChannel.
/// Lives on the agent's thread.
class ChannelServer {
public:
    struct Owner {
        uid_t user;
        pid_t keeper;
    };
    /// Called with the state in the workers' pages when it changes; workers without any are left
    /// out.
    struct Listeners {
        /// `on_progress` must set the round.
        std::function<void(control::NodeProgress)> on_progress;
        std::function<void(std::vector<RankSave>)> on_saves;
        std::function<void(int local_rank, bool is_recoverable)> on_recoverable;
        std::function<void(int local_rank, const Holding& holding)> on_held;
    };

    /// `random` must outlive this object.
    ChannelServer(boost::asio::io_context& io, Owner owner, Random& random, Listeners listeners);
    ChannelServer(const ChannelServer&) = delete;
    ChannelServer& operator=(const ChannelServer&) = delete;

    /// Returns each worker's address of its page, by local rank; empty: there is no listener.
    /// `done_step`: the last step that earlier rounds have done. `kept`: the held workers, whose
    /// addresses stay the same.
    std::vector<std::string> begin_round(
        int nproc, std::optional<std::uint64_t> done_step, const std::vector<int>& kept);
    /// Orders a worker to end its part of the round and to wait for the next one.
    void hold(int local_rank, int round, Duration time);
    /// Lets a held worker go on in this round, with these changes to its environment.
    void go(int local_rank, int round, const std::vector<std::string>& environment);
    /// The output of a worker contains a step; a step in the worker's page takes precedence.
    void on_step_written(int local_rank, std::uint64_t step);
    /// A worker has ended: the present state of all workers is passed on at once.
    void read_last_progress();
    /// From here on no process can attach.
    void end_round();
    control::WorkProgress progress_of(int local_rank) const;

    /// After the return, each rank of the round has either called `should_save` for a step that
    /// `saves` contains, or reads this save point at its next call. Takes a few milliseconds.
    void show_save(const control::SavePoint& save, Instant wait_ends_at);
    std::vector<RankSave> saves() const;

private:
    using Descriptor = boost::asio::posix::stream_descriptor;

    void wait_for_bytes(int caller);
    /// Returns false when the connection is closed.
    bool read(int caller);
    void perform(WorkerChannel::Effect& effect);
    void give_page(const WorkerChannel::GivePage& order);
    void send_line(int caller, std::string_view line, int descriptor);
    void read_pages_later();
    void read_pages();
    void read_progress(bool is_last);

    boost::asio::io_context& io_;
    Random& random_;
    Listeners listeners_;
    /// "@ddprun/1/UID/PID"
    LocalListener listener_;
    boost::asio::steady_timer sample_;
    int last_caller_ = 0;
    std::map<int, Descriptor> callers_;
    /// By local rank: the address of each worker's page.
    std::vector<std::string> ways_;
    std::map<int, SharedPage> pages_;
    ProgressPace pace_;
    /// The progress found in the output of workers.
    std::optional<ReadProgress> written_;
    /// The last state that was passed on.
    std::vector<RankSave> saves_;
    /// The save point that all pages of the round contain.
    std::optional<control::SavePoint> save_;
    std::uint64_t wait_ends_at_ = 0;
    net::Driver<WorkerChannel> machine_;
};

}  // namespace ddprun::agent::channel
