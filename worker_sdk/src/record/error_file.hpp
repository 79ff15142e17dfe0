// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/src/record/error_text.hpp"

namespace ddprun::record_errors {

/// Reads the path of the error file. Later changes of the environment have no effect.
void remember_path();

/// Writes the file, over what is there. False when there is no path, or it
/// cannot be written. For signal handlers too.
bool write_error_file(Text message, Text stack);

/// The call stack of the caller, a line per frame. For signal handlers, once `prepare_call_stack`
/// has been called outside of one.
void prepare_call_stack();
Text call_stack();

}  // namespace ddprun::record_errors
