// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/health/sample.hpp"
#include "rendezvous/control/message.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent::health {

/// "blocked", "waits for other ranks". Empty for a value that is no enumerator.
std::string_view in_words(control::Activity activity);

/// The Python threads of a worker, innermost frame first, those with one stack together:
///
///     main thread 4711
///       Loader.read (/home/me/loader.py:112)
///       <module> (/home/me/train.py:57)
///     threads 4712, 4713: no Python code
///
/// Or one line with the reason why there are none. At most `most_bytes`; the main thread comes
/// first, and what is left out is counted.
std::string stack_text(const Sample& sample, std::size_t most_bytes);

}  // namespace ddprun::agent::health
