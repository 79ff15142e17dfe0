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

/// The text that ranks compare: a line for the options and for each parameter and buffer, with its
/// subject before the tabulator. `more_options` follows the options.
std::string text_of(
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    const Placement& placement,
    const std::string& more_options = {});

/// The first difference between two such texts, as an error message: "parameter 3 is fc2.weight
/// with 10 elements, on rank 0 it is fc2.bias with 5 elements"; empty when there is none.
std::string first_difference(const std::string& here, const std::string& on_rank_0);

/// A collective. Throws Mismatch, with the same text on every rank, unless all ranks have the same
/// text.
void require_same_model(
    const ProcessGroup& group,
    const std::vector<ParameterSpec>& parameters,
    const Reducer::Options& options,
    const Placement& placement,
    const std::string& more_options = {});

/// Throws UsageError for parameters that no model can have: two of one name, one without elements.
void check_specs(const std::vector<ParameterSpec>& parameters);

/// A collective. Throws Mismatch, naming parameter and rank, unless all ranks have the same
/// fingerprints of the parameters' values.
void require_same_values(
    const ProcessGroup& group,
    const std::vector<ParameterSpec>& parameters,
    const std::vector<std::int64_t>& mine);

/// Records which buckets a rank has launched since it began, and in which order.
class LaunchRecord {
public:
    void add(std::size_t bucket, std::size_t count);

    /// A collective. Throws Mismatch, naming the rank, unless all ranks have the same record.
    void require_same(const ProcessGroup& group) const;

private:
    std::int64_t launched_count_ = 0;
    std::uint64_t hash_ = 0;
};

}  // namespace ddprun::reduce
