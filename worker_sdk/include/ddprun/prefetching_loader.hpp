// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/distributed_sampler.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun {

namespace data {

/// Makes items 0, 1, 2, ... on its own threads, at most `ahead` beyond the last one taken.
class ReadAhead {
public:
    ReadAhead(
        std::size_t item_count,
        std::size_t ahead,
        std::size_t threads,
        std::function<void(std::size_t item)> make);
    ~ReadAhead();
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    /// Waits until the item is made. Rethrows what making it threw.
    void wait_for(std::size_t item);
    /// Frees the item's slot for a later one.
    void release(std::size_t item);

private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace data

/// Loads the batches of an epoch ahead of their use, on its own threads.
///
///   PrefetchingLoader<Pictures> loader(sampler, read_pictures, {64});
///   while (auto batch = loader.next()) { train(*batch); sampler.advance(...); }
///
/// Batches come in the sampler's order, so results do not depend on the number of threads. The
/// order is read in the constructor: create one loader for each epoch and after each resume. `next`
/// is called by one thread. The destructor waits for the batches being loaded.
template <class Batch>
class PrefetchingLoader {
public:
    /// Loads the batch of these samples. Called on the loader's threads; with several threads it is
    /// called concurrently for different batches.
    using Load = std::function<Batch(const std::vector<std::uint64_t>& samples)>;

    struct Options {
        std::size_t batch_size = 1;
        /// The most batches that are loaded or being loaded, besides the one in use.
        std::size_t ahead = 2;
        std::size_t threads = 1;
    };

    PrefetchingLoader(const DistributedSampler& sampler, Load load, const Options& options)
        : PrefetchingLoader(sampler.indices(), std::move(load), options) {}

    PrefetchingLoader(std::vector<std::uint64_t> samples, Load load, const Options& options)
        : samples_(std::move(samples)),
          batch_size_(std::max<std::size_t>(options.batch_size, 1)),
          batch_count_((samples_.size() + batch_size_ - 1) / batch_size_),
          load_(std::move(load)),
          places_(std::max<std::size_t>(options.ahead, 1)),
          ahead_(batch_count_, places_.size(), options.threads, [this](std::size_t batch) {
              places_[batch % places_.size()] = load_(samples_of(batch));
          }) {}

    /// All batches of the epoch; the last one may be shorter than the others.
    std::size_t batch_count() const { return batch_count_; }

    /// Returns none when the epoch is over. Rethrows what loading this batch threw; the next call
    /// returns the batch after it.
    std::optional<Batch> next() {
        if (next_ == batch_count_) return std::nullopt;
        const auto batch = next_++;
        const Release release{ahead_, batch};
        ahead_.wait_for(batch);
        return std::exchange(places_[batch % places_.size()], std::nullopt);
    }

private:
    struct Release {
        data::ReadAhead& ahead;
        std::size_t batch;
        ~Release() { ahead.release(batch); }
    };

    std::vector<std::uint64_t> samples_of(std::size_t batch) const {
        const auto first = batch * batch_size_;
        const auto last = std::min(first + batch_size_, samples_.size());
        return {
            samples_.begin() + static_cast<std::ptrdiff_t>(first),
            samples_.begin() + static_cast<std::ptrdiff_t>(last)};
    }

    std::vector<std::uint64_t> samples_;
    std::size_t batch_size_;
    std::size_t batch_count_;
    Load load_;
    std::vector<std::optional<Batch>> places_;
    std::size_t next_ = 0;
    data::ReadAhead ahead_;  // last, so that its threads end before the members that they use
};

}  // namespace ddprun
