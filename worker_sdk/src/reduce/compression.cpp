// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/src/reduce/reducer_state.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace ddprun {

namespace {

template <class Half>
class Compression {
public:
    FinishBucket launch(const ProcessGroup& group, const GradientBucket& bucket) {
        auto* halves = memory_for(group, bucket);
        const float part = 1.0F / static_cast<float>(group.size());
        for (std::size_t i = 0; i < bucket.count; ++i)
            halves[i] = Half(bucket.data[i] * part);
        auto work = std::make_shared<Work>(group.all_reduce(halves, bucket.count));
        return [work, halves, bucket] {
            work->wait();
            for (std::size_t i = 0; i < bucket.count; ++i)
                bucket.data[i] = static_cast<float>(halves[i]);
        };
    }

private:
    /// The memory is kept from step to step, one piece for each bucket.
    Half* memory_for(const ProcessGroup& group, const GradientBucket& bucket) {
        if (memory_.size() <= bucket.index) memory_.resize(bucket.index + 1);
        auto& place = memory_[bucket.index];
        const auto bytes = bucket.count * sizeof(Half);
        if (place.size() < bytes) place = group.allocate(bytes);
        return static_cast<Half*>(place.data());
    }

    std::vector<Memory> memory_;
};

/// A named type, so that code can test whether a hook is of this kind.
template <class Half>
struct CompressTo {
    std::shared_ptr<Compression<Half>> state = std::make_shared<Compression<Half>>();

    FinishBucket operator()(const ProcessGroup& group, const GradientBucket& bucket) const {
        return state->launch(group, bucket);
    }
};

}  // namespace

std::optional<ElementType> reduce::compressed_type(const CommunicationHook& hook) {
    if (hook.target<CompressTo<BFloat16>>()) return ElementType::bfloat16;
    if (hook.target<CompressTo<Float16>>()) return ElementType::float16;
    return {};
}

CommunicationHook compress_to_bfloat16() {
    return CompressTo<BFloat16>{};
}

CommunicationHook compress_to_float16() {
    return CompressTo<Float16>{};
}

}  // namespace ddprun
