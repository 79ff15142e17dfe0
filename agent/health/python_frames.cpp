// SPDX-License-Identifier: Apache-2.0
#include "agent/health/python_frames.hpp"
