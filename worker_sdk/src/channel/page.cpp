// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/channel/page.hpp"

#include "worker_sdk/src/channel/attach.hpp"
#include "worker_sdk/src/environment_names.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace ddprun::channel {
namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

// Word indices in the page.
constexpr std::size_t asked_word = 8;
constexpr std::size_t step_word = 9;
constexpr std::size_t reported_at_word = 10;
constexpr std::size_t phase_word = 11;
constexpr std::size_t phase_since_word = 12;
constexpr std::size_t answer_word = 13;
constexpr std::size_t save_word = 24;
constexpr std::size_t wait_ends_at_word = 25;

// Layout of a save word: ballot (8 bits), state (2), step (54).
constexpr unsigned ballot_shift = 56;
constexpr unsigned state_shift = 54;
constexpr std::uint64_t step_mask = (std::uint64_t{1} << state_shift) - 1;
constexpr std::uint64_t agreed = 2;
constexpr std::uint64_t cancelled = 3;
enum Answer : std::uint64_t { saving = 1, has_saved = 2, declined = 3 };
/// The time limit when the agent gives none.
constexpr std::uint64_t longest_wait_ns = 5'000'000'000;
constexpr auto poll_interval = std::chrono::milliseconds{1};

/// Without an agent, words are written here.
std::array<Word, page_bytes / sizeof(Word)> own_page;
/// Null before the first call.
std::atomic<Word*> page{nullptr};
std::atomic<int> connection{-1};

/// Runs in a forked child, because the page and its connection are the parent's. It also runs when
/// the parent has no page yet: the agent would take a child that attaches first for the worker.
void detach() {
    page.store(own_page.data(), std::memory_order_relaxed);
    const int socket = connection.exchange(-1, std::memory_order_relaxed);
    if (socket >= 0) ::close(socket);
}

Word* attach_once() {
    static const bool is_done = [] {
        // Registered first, so that a child forked meanwhile uses its own page and waits for
        // nothing.
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

std::uint64_t state_of(std::uint64_t word) {
    return word >> state_shift & 3U;
}

std::uint64_t answer_of(std::uint64_t save, Answer answer, std::uint64_t step) {
    return save >> ballot_shift << ballot_shift | std::uint64_t{answer} << state_shift | step;
}

bool is_answered(const Word* page_words, std::uint64_t save) {
    const auto answer = page_words[answer_word].load(std::memory_order_relaxed);
    return answer >> ballot_shift == save >> ballot_shift;
}

/// Requires: there is a save point. Returns whether this rank saves now. While the save point is
/// only proposed, the other ranks may be about to save: this rank then waits until the agent has
/// decided, or until the time for the save is over.
bool is_turn(Word* page_words, std::uint64_t step, std::uint64_t save) {
    const auto began_at = boot_time_ns();
    auto& answer = page_words[answer_word];
    for (;;) {
        const bool is_open = save != 0 && state_of(save) != cancelled;
        if (!is_open || step < (save & step_mask) || is_answered(page_words, save)) return false;
        if (state_of(save) == agreed) {
            answer.store(answer_of(save, saving, step), std::memory_order_release);
            return true;
        }
        const auto ends_at = page_words[wait_ends_at_word].load(std::memory_order_acquire);
        if (boot_time_ns() >= (ends_at != 0 ? ends_at : began_at + longest_wait_ns)) {
            answer.store(answer_of(save, declined, step), std::memory_order_release);
            return false;
        }
        std::this_thread::sleep_for(poll_interval);
        save = page_words[save_word].load(std::memory_order_acquire);
    }
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

bool should_save(std::uint64_t step) {
    auto* page_words = words();
    auto& asked = page_words[asked_word];
    if (step >= step_mask - 1 || step + 1 < asked.load(std::memory_order_relaxed)) return false;
    // The step plus one; 0 means never asked. Either the agent reads this value, or the load below
    // reads the agent's value: the agent makes sure of that.
    asked.store(step + 1, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const auto save = page_words[save_word].load(std::memory_order_acquire);
    return save != 0 && is_turn(page_words, step, save);
}

void saved(std::uint64_t step) {
    auto& answer = words()[answer_word];
    auto word = answer.load(std::memory_order_relaxed);
    if (state_of(word) != saving || (word & step_mask) != step) return;
    // By compare and exchange, since another thread may answer a later ballot meanwhile.
    answer.compare_exchange_strong(
        word,
        answer_of(word, has_saved, step),
        std::memory_order_release,
        std::memory_order_relaxed);
}

}  // namespace ddprun::channel
