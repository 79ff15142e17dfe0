// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::test {

/// The whole answer of `GET path`, header included; connects, reads to the end, bounded by
/// `fact_timeout`.
std::string http_get(const std::string& endpoint, const std::string& path);

/// The same with `Authorization: Bearer TOKEN`.
std::string http_get(
    const std::string& endpoint, const std::string& path, const std::string& token);

/// Connects, writes the bytes, and reads until the other side closes.
std::string say(const std::string& endpoint, const std::string& bytes);

}  // namespace ddprun::test
