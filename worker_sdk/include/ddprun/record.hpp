// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddprun/ddprun.h"
#include "ddprun/error.hpp"
#include "ddprun/throw_error.hpp"

#include <cstdlib>
#include <exception>
#include <typeinfo>
#include <utility>

namespace ddprun {

/// From this call on, a failure of this process is written into the file named by
/// TORCHELASTIC_ERROR_FILE, in PyTorch's format, for the launcher's report. A failure is an
/// uncaught exception (std::terminate) or one of the fatal signals SIGSEGV, SIGBUS, SIGILL, SIGFPE,
/// SIGABRT, SIGSYS and SIGTRAP, with the call stack. The failure then takes its usual course:
/// handlers installed before, core dump, exit status. Without that variable the call does nothing.
/// A stop (SIGTERM) is no failure and writes nothing.
///
/// Call it early: handlers installed later (a crash reporter's) replace it. A stack overflow is
/// recorded on the thread that made this call.
inline void record_fatal_errors() {
    throw_if(ddprun_record_fatal_errors());
}

/// Writes the error file for an exception that was caught: "Type: text".
inline void record_error(const std::exception& error) {
    throw_if(ddprun_record_error(typeid(error).name(), error.what()));
}

/// Runs a program's main function with `record_fatal_errors`. An exception that it throws is
/// recorded and written to standard error, and the result is EXIT_FAILURE:
///
///   int main() {
///       return ddprun::record([] {
///           ...
///           return 0;
///       });
///   }
template <class Main>
int record(Main&& main_function) {
    record_fatal_errors();
    try {
        return std::forward<Main>(main_function)();
    } catch (const std::exception& error) {
        ddprun_record_error(typeid(error).name(), error.what());
        ddprun_print_error(typeid(error).name(), error.what());
        return EXIT_FAILURE;
    }
}

}  // namespace ddprun
