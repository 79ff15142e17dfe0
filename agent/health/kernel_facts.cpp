// SPDX-License-Identifier: Apache-2.0
#include "agent/health/kernel_facts.hpp"
