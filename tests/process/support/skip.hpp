// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// A test that cannot run here reports that and returns:
///
///   if (const auto reason = NetworkPair::why_not(); !reason.empty()) return skip(reason);
///
/// It prints `SKIP name: reason`. Where DDPRUN_REQUIRE_ROOT is 1, as on the machine that guards
/// main, a skip is a failure.
namespace ddprun::test {

void skip(const std::string& reason);
/// For tests that cannot run even as root, as in a container with read-only cgroups. Never a
/// failure.
void skip_even_as_root(const std::string& reason);

void set_test_name(const std::string& name);
bool has_failed_skip();

}  // namespace ddprun::test
