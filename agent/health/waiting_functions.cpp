// SPDX-License-Identifier: Apache-2.0
#include "agent/health/waiting_functions.hpp"
