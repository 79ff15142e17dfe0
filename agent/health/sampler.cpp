// SPDX-License-Identifier: Apache-2.0
#include "agent/health/sampler.hpp"

namespace ddprun::agent::health {

Sample take_sample(int pid) {
    Sample sample;
    sample.pid = pid;
    return sample;
}

}  // namespace ddprun::agent::health
