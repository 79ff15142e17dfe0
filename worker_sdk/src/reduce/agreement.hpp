// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/reducer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::reduce {

/// A 64-bit fingerprint of bytes, the same on every machine.
std::int64_t fingerprint(const void* data, std::size_t bytes);

/// Specs and options as text: what ranks compare.
std::string text_of(const std::vector<ParameterSpec>& parameters, const Reducer::Options& options);

/// The first difference between two such texts, for a person: "parameter 3 is fc2.weight with 10
/// elements, on rank 0 it is fc2.bias with 5 elements"; empty when there is none.
std::string first_difference(const std::string& here, const std::string& on_rank_0);

/// A collective. Throws Mismatch, with the same text on every rank, unless all ranks come with the
/// same specs and options.
void require_same_parameters(
    const ProcessGroup& group,
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options);

}  // namespace ddprun::reduce
