// SPDX-License-Identifier: Apache-2.0
// Asio's function bodies, compiled once for the whole project.
#include <boost/asio/impl/src.hpp>
