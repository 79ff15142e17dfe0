// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world find its store, and how rank 0 serves one when no launcher does.
#include "ddprun/error.hpp"
#include "rendezvous/base/clock.hpp"
#include "rendezvous/base/random.hpp"
#include "worker_sdk/src/store/connection.hpp"
#include "worker_sdk/src/store/host.hpp"
#include "worker_sdk/src/store/local_address.hpp"
#include "worker_sdk/src/waiting_times.hpp"
#include "worker_sdk/src/world/numbers.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun::store_access {
namespace {

using namespace std::chrono_literals;

/// The content of the rendezvous file, which rank 0 writes at the path of a `file://` init method:
/// the addresses of its store, and a token that the store has too. Another server may now have an
/// address of an earlier run, or another machine the same address; the token shows that it is not
/// this store.
struct RendezvousPoint {
    std::string token;
    std::uint16_t port = 0;
    /// In the order in which they are tried.
    std::vector<std::string> addresses;

    bool operator==(const RendezvousPoint&) const = default;
};

constexpr std::string_view first_line = "ddprun-rendezvous 1";
constexpr std::string_view last_line = "end";
constexpr const char* name_in_folder = "ddprun-rendezvous";
constexpr std::size_t most_addresses = 64;
constexpr std::size_t most_bytes = 16 * 1024;
constexpr std::size_t longest_word = 255;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
    throw UsageError("init method file://" + file + ": " + why);
}

[[noreturn]] void refuse(const std::string& file, int error) {
    refuse(file, std::string{"cannot be written: "} + std::strerror(error));
}

bool exists(const std::string& file) {
    return ::access(file.c_str(), F_OK) == 0;
}

std::string_view next_line(std::string_view& text) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return {};
    const auto line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
}

/// An NFS client caches for a while that a file does not exist; listing the folder refreshes the
/// cache.
void refresh_folder(const std::string& file) {
    const auto folder = file.substr(0, file.rfind('/') + 1);
    if (DIR* listing = ::opendir(folder.c_str())) {
        ::readdir(listing);
        ::closedir(listing);
    }
}

bool write_whole(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const auto written = ::write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return ::fsync(descriptor) == 0;
}

/// Lines "NAME VALUE", the last one "end": a file that is still being copied is not accepted.
std::string to_text(const RendezvousPoint& point) {
    auto text = std::string{first_line} + "\ntoken " + point.token + "\nport " +
                std::to_string(point.port) + '\n';
    for (const auto& address : point.addresses)
        text += "address " + address + '\n';
    return text + std::string{last_line} + '\n';
}

/// Returns none when the text is incomplete.
std::optional<RendezvousPoint> parse_rendezvous_point(std::string_view text) {
    if (text.size() > most_bytes || next_line(text) != first_line) return std::nullopt;
    RendezvousPoint point;
    for (;;) {
        const auto line = next_line(text);
        if (line == last_line) break;
        const auto blank = line.find(' ');
        if (blank == std::string_view::npos) return std::nullopt;
        const auto name = line.substr(0, blank);
        const auto value = line.substr(blank + 1);
        if (value.empty() || value.size() > longest_word) return std::nullopt;
        if (name == "token") {
            point.token = value;
        } else if (name == "port") {
            const auto port = digits(value);
            if (!port || *port < 1 || *port > 65'535) return std::nullopt;
            point.port = static_cast<std::uint16_t>(*port);
        } else if (name == "address") {
            if (point.addresses.size() == most_addresses) return std::nullopt;
            point.addresses.emplace_back(value);
        } else {
            return std::nullopt;
        }
    }
    const bool is_complete = !point.token.empty() && point.port != 0 && !point.addresses.empty();
    return is_complete ? std::optional{point} : std::nullopt;
}

/// The path itself, or a file in it if it is a folder.
std::string rendezvous_file_at(const std::string& path) {
    struct stat status {};
    const bool is_folder = ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    if (!is_folder) return path;
    return path + (path.back() == '/' ? "" : "/") + name_in_folder;
}

/// Returns none when there is no file, or an incomplete one.
std::optional<RendezvousPoint> read_rendezvous_file(const std::string& file) {
    refresh_folder(file);
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return std::nullopt;
    std::string text;
    std::array<char, 4096> chunk;
    while (text.size() <= most_bytes) {
        const auto size = ::read(descriptor, chunk.data(), chunk.size());
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        text.append(chunk.data(), static_cast<std::size_t>(size));
    }
    ::close(descriptor);
    return parse_rendezvous_point(text);
}

/// Owns the file; the destructor removes it unless another process has replaced it. Needs no locks:
/// the file is created by a rename.
class PublishedRendezvous {
public:
    /// Throws UsageError when it cannot be written.
    PublishedRendezvous(std::string file, RendezvousPoint point);
    PublishedRendezvous(const PublishedRendezvous&) = delete;
    PublishedRendezvous& operator=(const PublishedRendezvous&) = delete;
    ~PublishedRendezvous();

private:
    std::string file_;
    RendezvousPoint point_;
};

PublishedRendezvous::PublishedRendezvous(std::string file, RendezvousPoint point)
    : file_(std::move(file)),
      point_(std::move(point)) {
    // Checked twice, since the file may just have been removed.
    if (!read_rendezvous_file(file_) && exists(file_) && !read_rendezvous_file(file_))
        refuse(
            file_,
            "it exists and is no rendezvous file; name a file that does not exist, or a folder");
    const auto written_first = file_ + "." + point_.token;
    const int descriptor =
        ::open(written_first.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor < 0) refuse(file_, errno);
    const bool is_complete = write_whole(descriptor, to_text(point_));
    int error = errno;
    const bool is_closed = ::close(descriptor) == 0;
    if (is_complete && is_closed && ::rename(written_first.c_str(), file_.c_str()) == 0) return;
    if (is_complete) error = errno;
    ::unlink(written_first.c_str());
    refuse(file_, error);
}

PublishedRendezvous::~PublishedRendezvous() {
    if (read_rendezvous_file(file_) != point_) return;
    const auto aside = file_ + "." + point_.token;
    if (::rename(file_.c_str(), aside.c_str()) != 0) return;
    // The next run has just written its file: puts it back, unless there is a newer one already.
    if (read_rendezvous_file(aside) != point_) ::link(aside.c_str(), file_.c_str());
    ::unlink(aside.c_str());
}

constexpr const char* token_key = "ddprun/rendezvous/token";
constexpr const char* size_key = "ddprun/rendezvous/world_size";
constexpr const char* rank_key = "ddprun/rendezvous/rank/";
constexpr auto one_attempt = waiting_times::rendezvous_attempt_timeout;

std::string fresh_token() {
    auto random = seeded_by_the_system();
    return make_nonce(random).to_string();
}

/// Identifies this process, and differs from an earlier one with the same pid.
const std::string& process_token() {
    static const std::string token = fresh_token();
    return token;
}

Milliseconds left_until(Instant deadline) {
    return std::max(std::chrono::ceil<Milliseconds>(deadline - Clock::now()), Milliseconds{1});
}

/// The store of a world whose rank 0 is this process. Ends in steps: waits until all ranks have
/// joined, ten seconds at most; removes the published address; waits until no client is connected
/// (StoreHost).
struct Hosted {
    Hosted() = default;
    Hosted(const Hosted&) = delete;
    Hosted& operator=(const Hosted&) = delete;
    ~Hosted() {
        if (std::uncaught_exceptions() == 0) wait_for_all();
    }

    void wait_for_all() const noexcept {
        try {
            std::vector<std::string> keys;
            for (int rank = 0; rank < world_size; ++rank)
                keys.push_back(rank_key + std::to_string(rank));
            if (keys.empty()) return;
            connect(endpoint, waiting_times::all_ranks_timeout)
                ->wait(keys, waiting_times::all_ranks_timeout);
        } catch (const std::exception&) {
            // Late ranks report the missing store themselves.
        }
    }

    std::shared_ptr<StoreHost> host;
    std::unique_ptr<PublishedRendezvous> published;
    Endpoint endpoint;
    /// 0 until this rank has joined; no rank is waited for while it is 0.
    std::atomic<int> world_size = 0;
};

/// The rank number is claimed by another process: the store of another run, or a duplicate rank.
struct RankTaken {};

/// Claims this rank's number. Rank 0 writes the world size into the store; the other ranks compare
/// it with theirs.
void join(Connection& store, const World& world, const std::string& where, Instant deadline) {
    const auto size = std::to_string(world.world_size);
    const auto key = rank_key + std::to_string(world.rank);
    if (store.compare_set(key, "", process_token()) != process_token()) throw RankTaken{};
    if (world.rank == 0) return store.set(size_key, size);
    const auto size_at_rank_0 = store.get(size_key, left_until(deadline));
    if (size_at_rank_0 != size)
        throw Mismatch(
            "rank " + std::to_string(world.rank) + " has world size " + size + ", rank 0 at " +
            where + " has " + size_at_rank_0.substr(0, 32));
}

/// Retries for a while: a server that does not answer may only be stopped. One that refuses has
/// ended.
bool is_alive(const RendezvousPoint& point) {
    const auto until = Clock::now() + waiting_times::silent_server_timeout;
    for (bool may_answer = true; may_answer && Clock::now() < until;) {
        may_answer = false;
        for (const auto& address : point.addresses)
            try {
                auto store = connect({address, point.port}, one_attempt);
                if (store->check({token_key}) && store->get(token_key, one_attempt) == point.token)
                    return true;
            } catch (const Timeout&) {
                may_answer = true;
            } catch (const Error&) {
                // The server refused, or has another token.
            }
    }
    return false;
}

std::shared_ptr<StoreHost> listen(const std::string& host, std::uint16_t port) {
    auto opened = StoreHost::listen(host, port);
    if (!opened)
        throw UsageError(
            "rank 0 cannot serve the store here: " + opened.error().describe() +
            (port == 0 ? "" : "; another job or program uses it: choose another port"));
    return *opened;
}

std::shared_ptr<Hosted> host_at_address(const World& world) {
    auto hosted = std::make_shared<Hosted>();
    const bool is_local = world.master_addr == "localhost" || is_loopback(world.master_addr);
    const auto numeric = world.master_addr == "localhost" ? "127.0.0.1" : world.master_addr;
    hosted->host = listen(is_local ? numeric : "", world.master_port);
    hosted->endpoint = {world.master_addr, world.master_port};
    return hosted;
}

std::shared_ptr<Hosted> host_by_file(const World& world, Instant deadline) {
    const auto file = rendezvous_file_at(world.store_file);
    // A store that answers here belongs to an earlier run that is ending, or to another job.
    for (auto point = read_rendezvous_file(file); point && is_alive(*point);
         point = read_rendezvous_file(file)) {
        if (Clock::now() >= deadline)
            throw UsageError(
                "init method file://" + world.store_file +
                ": another job uses it (its store is at " +
                Endpoint{point->addresses.front(), point->port}.to_string() + ")");
        std::this_thread::sleep_for(waiting_times::rendezvous_attempt_interval);
    }
    auto hosted = std::make_shared<Hosted>();
    hosted->host = listen("", 0);
    RendezvousPoint point{fresh_token(), hosted->host->port(), addresses_of_this_machine()};
    if (!world.node_addr.empty()) point.addresses.insert(point.addresses.begin(), world.node_addr);
    if (point.addresses.empty()) throw UsageError("this machine has no network address");
    constexpr std::size_t most = 32;
    point.addresses.resize(std::min(point.addresses.size(), most));
    hosted->endpoint = {point.addresses.front(), point.port};
    connect({point.addresses.front(), point.port}, left_until(deadline))
        ->set(token_key, point.token);
    hosted->published = std::make_unique<PublishedRendezvous>(file, std::move(point));
    return hosted;
}

struct HostedLease;

/// What this process hosts, by place. It stays until the process ends: when this rank has just left
/// the last group, other ranks may already use the same store for the next one.
struct HostedHere {
    struct Place {
        std::shared_ptr<Hosted> hosted;
        std::weak_ptr<HostedLease> lease;
    };

    std::mutex mutex;
    std::map<std::string, Place> places;
};

/// Ends the hosted stores when the process ends; not in a forked child, which has no copy of the
/// thread.
struct EndOfProcess {
    explicit EndOfProcess(HostedHere& all) : here(all) {}
    EndOfProcess(const EndOfProcess&) = delete;
    EndOfProcess& operator=(const EndOfProcess&) = delete;
    ~EndOfProcess() {
        if (::getpid() != owner) return;
        std::map<std::string, HostedHere::Place> ending;
        const std::lock_guard lock(here.mutex);
        ending.swap(here.places);
    }

    HostedHere& here;
    const pid_t owner = ::getpid();
};

/// Never destroyed: a static Store of the program may outlive the SDK's static variables.
HostedHere& hosted_here() {
    static auto& here = *new HostedHere;
    static const EndOfProcess end(here);
    return here;
}

/// Shared by the Stores of one place. When an exception destroys the last of them, the hosted store
/// is closed too, so that the other ranks notice.
struct HostedLease {
    HostedLease(std::string at, std::shared_ptr<Hosted> what)
        : place(std::move(at)),
          hosted(std::move(what)) {}
    HostedLease(const HostedLease&) = delete;
    HostedLease& operator=(const HostedLease&) = delete;
    ~HostedLease() {
        if (std::uncaught_exceptions() == 0) return;
        auto& here = hosted_here();
        const std::lock_guard lock(here.mutex);
        const auto found = here.places.find(place);
        // Another Store may have been created meanwhile.
        if (found != here.places.end() && found->second.lease.expired()) here.places.erase(found);
    }

    const std::string place;
    const std::shared_ptr<Hosted> hosted;
};

/// The Stores of a process with the same place share the store hosted there.
std::shared_ptr<HostedLease> hosted_for(const World& world, Instant deadline) {
    const auto place = world.store_file.empty()
                           ? Endpoint{world.master_addr, world.master_port}.to_string()
                           : world.store_file;
    auto& here = hosted_here();
    const std::lock_guard lock(here.mutex);
    auto& [hosted, known_lease] = here.places[place];
    if (!hosted)
        hosted = world.store_file.empty() ? host_at_address(world) : host_by_file(world, deadline);
    auto lease = known_lease.lock();
    if (!lease) known_lease = lease = std::make_shared<HostedLease>(place, hosted);
    return lease;
}

std::shared_ptr<Connection> open_and_join(const World& world, Instant deadline) {
    const auto lease = hosted_for(world, deadline);
    const auto& hosted = lease->hosted;
    auto store = connect(hosted->endpoint, left_until(deadline), lease);
    const auto where = hosted->endpoint.to_string();
    try {
        join(*store, world, where, deadline);
    } catch (const RankTaken&) {
        throw UsageError("another process is rank 0 at " + where);
    }
    hosted->world_size = world.world_size;
    return store;
}

struct Found {
    /// Null when no address leads to the right store.
    std::shared_ptr<Connection> store;
    /// A server did not answer in time, but may only be stopped.
    bool may_answer = false;
};

Found connect_to(const RendezvousPoint& point) {
    Found found;
    for (const auto& address : point.addresses)
        try {
            const Endpoint endpoint{address, point.port};
            auto store = connect(endpoint, one_attempt);
            if (store->check({token_key}) && store->get(token_key, one_attempt) == point.token)
                return {std::move(store)};
        } catch (const Timeout&) {
            found.may_answer = true;
        } catch (const Error&) {
            // The address is not reachable from here, or its run is over.
        }
    return found;
}

Found find_by_file(const World& world) {
    const auto point = read_rendezvous_file(rendezvous_file_at(world.store_file));
    return point ? connect_to(*point) : Found{};
}

/// A store in which this rank's number is claimed, or which closes while this rank joins, belongs
/// to an earlier run that has not ended yet: try again. The last attempt has its full time, even
/// beyond the deadline, since its error is the one reported.
std::shared_ptr<Connection> find_and_join(const World& world, Instant deadline) {
    const Endpoint endpoint{world.master_addr, world.master_port};
    const bool by_file = !world.store_file.empty();
    const auto where = by_file ? rendezvous_file_at(world.store_file) : endpoint.to_string();
    for (std::string problem;;
         std::this_thread::sleep_for(waiting_times::rendezvous_attempt_interval)) {
        const auto left = std::max(left_until(deadline), one_attempt);
        const auto [store, may_answer] =
            by_file ? find_by_file(world) : Found{connect(endpoint, left)};
        try {
            if (store) {
                store->set_reply_timeout(left);
                join(*store, world, where, deadline);
                return store;
            }
            // Keeps an earlier finding when the server merely does not answer now.
            if (problem.empty() || !may_answer)
                problem = "no rendezvous file of this run's rank 0 at " + world.store_file;
        } catch (const RankTaken&) {
            problem = "another process is rank " + std::to_string(world.rank) + " at " + where;
        } catch (const PeerLost& lost) {
            problem =
                "it closed while rank " + std::to_string(world.rank) + " joined it: " + lost.what();
        }
        if (Clock::now() >= deadline) throw Timeout("store: " + problem);
    }
}

}  // namespace

std::shared_ptr<Connection> connect(const World& world, Milliseconds timeout) {
    if (!world.is_launched()) return in_process();
    if (!world.rank_0_hosts_store) return connect({world.master_addr, world.master_port}, timeout);
    const auto deadline = Clock::now() + timeout;
    auto store = world.rank == 0 ? open_and_join(world, deadline) : find_and_join(world, deadline);
    // The attempts used a shorter timeout; later replies may take longer.
    store->set_reply_timeout(timeout);
    return store;
}

}  // namespace ddprun::store_access
