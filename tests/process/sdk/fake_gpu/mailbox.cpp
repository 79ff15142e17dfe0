// SPDX-License-Identifier: Apache-2.0
#include "tests/process/sdk/fake_gpu/mailbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace fake_gpu {

namespace {

constexpr std::size_t head_bytes = 4096;

std::string path_of(const std::string& name) {
    const char* folder = ::getenv("FAKE_GPU_FOLDER");
    return std::string{folder ? folder : "/tmp"} + "/" + name;
}

}  // namespace

Rendezvous::Rendezvous(const std::string& name, int rank, int world_size)
    : rank_(rank),
      world_size_(world_size) {
    const auto boxes = static_cast<std::size_t>(world_size) * static_cast<std::size_t>(world_size);
    bytes_ = head_bytes + boxes * sizeof(Mailbox);
    const auto path = path_of(name);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0) ::abort();
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory_ == MAP_FAILED) ::abort();
    ::close(file);
    shared().pids.at(static_cast<std::size_t>(rank)) = ::getpid();
    if (++shared().joined == world_size) ::unlink(path.c_str());
}

Rendezvous::~Rendezvous() {
    ::munmap(memory_, bytes_);
}

bool Rendezvous::is_complete() const {
    return shared().joined == world_size_;
}

void Rendezvous::leave() {
    ++shared().left;
}

bool Rendezvous::have_all_left() const {
    return shared().left >= world_size_;
}

void Rendezvous::abort() {
    shared().aborted = true;
}

bool Rendezvous::is_aborted() const {
    return shared().aborted;
}

bool Rendezvous::has_dead_rank() const {
    for (const auto& pid : shared().pids) {
        if (pid == 0) continue;
        const auto process = static_cast<int>(::syscall(SYS_pidfd_open, pid.load(), 0));
        pollfd ended{process, POLLIN, 0};
        const bool is_dead = process < 0 || ::poll(&ended, 1, 0) == 1;
        if (process >= 0) ::close(process);
        if (is_dead) return true;
    }
    return false;
}

Mailbox& Rendezvous::box(int from, int to) const {
    auto* boxes = reinterpret_cast<Mailbox*>(static_cast<char*>(memory_) + head_bytes);
    return boxes[from * world_size_ + to];
}

bool Rendezvous::send(int peer, const char* data, std::size_t bytes, std::size_t& done) {
    auto& to = box(rank_, peer);
    while (done < bytes) {
        const auto written = to.written.load();
        const auto place = written % Mailbox::capacity;
        const auto room = Mailbox::capacity - (written - to.read.load());
        const auto size = std::min({bytes - done, room, Mailbox::capacity - place});
        if (size == 0) return false;
        ::memcpy(to.bytes.data() + place, data + done, size);
        done += size;
        to.written = written + size;
    }
    return true;
}

bool Rendezvous::recv(int peer, char* data, std::size_t bytes, std::size_t& done) {
    auto& from = box(peer, rank_);
    while (done < bytes) {
        const auto read = from.read.load();
        const auto place = read % Mailbox::capacity;
        const auto size =
            std::min({bytes - done, from.written.load() - read, Mailbox::capacity - place});
        if (size == 0) return false;
        ::memcpy(data + done, from.bytes.data() + place, size);
        done += size;
        from.read = read + size;
    }
    return true;
}

}  // namespace fake_gpu
