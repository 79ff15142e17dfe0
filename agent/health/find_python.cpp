// SPDX-License-Identifier: Apache-2.0
#include "agent/health/find_python.hpp"
