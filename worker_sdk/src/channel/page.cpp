// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/channel/page.hpp"

#include "worker_sdk/src/channel/attach.hpp"
#include "worker_sdk/src/environment_names.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

namespace ddprun::channel {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

// Indices of words.
constexpr std::size_t step_word = 9;
constexpr std::size_t reported_at_word = 10;
constexpr std::size_t phase_word = 11;
constexpr std::size_t phase_since_word = 12;

/// Where words go that reach no agent.
std::array<Word, page_bytes / sizeof(Word)> own_page;
/// Null before the first call.
std::atomic<Word*> page{nullptr};
std::atomic<int> connection{-1};

/// In a forked child: the page is the parent's, and so is its connection. Also where the parent has
/// none yet: a child that is asked first would take its place.
void detach() {
    page.store(own_page.data(), std::memory_order_relaxed);
    const int socket = connection.exchange(-1, std::memory_order_relaxed);
    if (socket >= 0) ::close(socket);
}

Word* attach_once() {
    static const bool is_done = [] {
        // Before all else: a child that is forked meanwhile has its own page, and waits for nothing.
        const bool is_safe = ::pthread_atfork(nullptr, nullptr, detach) == 0;
        const auto attachment = is_safe ? attach(::getenv(environment::channel)) : Attachment{};
        Word* words = own_page.data();
        if (attachment.words != nullptr) {
            connection.store(attachment.connection, std::memory_order_relaxed);
            words = static_cast<Word*>(attachment.words);
        } else if (attachment.connection >= 0) {
            ::close(attachment.connection);
        }
        page.store(words, std::memory_order_release);
        return true;
    }();
    static_cast<void>(is_done);
    return page.load(std::memory_order_acquire);
}

Word* words() {
    auto* attached = page.load(std::memory_order_acquire);
    return attached ? attached : attach_once();
}

}  // namespace

std::uint64_t boot_time_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

void report(std::uint64_t step, std::uint64_t now_ns) {
    auto* page_words = words();
    page_words[step_word].store(step, std::memory_order_relaxed);
    page_words[reported_at_word].store(now_ns, std::memory_order_release);
}

std::uint64_t set_phase(std::uint64_t phase) {
    auto* page_words = words();
    page_words[phase_since_word].store(boot_time_ns(), std::memory_order_relaxed);
    return page_words[phase_word].exchange(phase, std::memory_order_release);
}

}  // namespace ddprun::channel
