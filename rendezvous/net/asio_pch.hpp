// SPDX-License-Identifier: Apache-2.0
// The headers every shell includes, compiled once. Sources still include what they use, which
// tests/rules checks.
#pragma once

#include <boost/asio.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>
