// SPDX-License-Identifier: Apache-2.0
// Any bytes from a server to a client session after any requests. The first bytes of the input are
// the requests; the rest is the server's stream, in two cuts.
#include "rendezvous/client/client_session.hpp"
#include "tests/support/samples.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ddprun;
using client::ClientSession;

namespace {

constexpr std::size_t questions = 3;

std::vector<wire::Reply> replies_to(
    ClientSession session, const std::vector<std::string>& pieces, bool& has_failed) {
    std::vector<wire::Reply> replies;
    for (const auto& piece : pieces) {
        session.receive(piece);
        while (!has_failed) {
            auto reply = session.next();
            if (!reply)
                has_failed = true;
            else if (*reply)
                replies.push_back(std::move(**reply));
            else
                break;
        }
    }
    return replies;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < questions + 1) return 0;
    const auto samples = test::sample_requests();
    ClientSession session(ClientSession::Greeting::validate);
    for (std::size_t i = 0; i < questions; ++i)
        session.send(samples[data[i] % samples.size()]);
    const std::string bytes(
        reinterpret_cast<const char*>(data) + questions + 1, size - questions - 1);
    const auto cut = std::min<std::size_t>(data[questions], bytes.size());

    bool has_failed_whole = false, has_failed_cut = false;
    const auto whole = replies_to(session, {bytes}, has_failed_whole);
    const auto in_two =
        replies_to(session, {bytes.substr(0, cut), bytes.substr(cut)}, has_failed_cut);

    if (whole != in_two || has_failed_whole != has_failed_cut) std::abort();
    return 0;
}
