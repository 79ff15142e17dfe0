// SPDX-License-Identifier: Apache-2.0
// Any bytes from a client: a decoder gives requests or an error, the same however the bytes are
// cut, and accepted requests encode to the original bytes. A store answers these requests as its
// model does.
#include "rendezvous/wire/decoder.hpp"
#include "rendezvous/wire/encoder.hpp"
#include "tests/support/store_beside_model.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::wire;

namespace {

struct Outcome {
    std::vector<Request> requests;
    error_code error;
    std::string unread;
};

void take_all(Decoder& decoder, Outcome& outcome) {
    while (!outcome.error) {
        Request request;
        const auto has_request = decoder.next(request);
        if (!has_request)
            outcome.error = has_request.error().code;
        else if (*has_request)
            outcome.requests.push_back(std::move(request));
        else
            break;
    }
    outcome.unread = decoder.unread();
}

void must(bool holds) {
    if (!holds) std::abort();
}

/// Decodes the requests; the result must be the same for the whole and for pieces.
Outcome decoded(const std::string& bytes, std::size_t piece, Accepted accepted) {
    Outcome whole;
    Decoder at_once(accepted);
    at_once.append(bytes);
    take_all(at_once, whole);

    Outcome pieces;
    Decoder by_piece(accepted);
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
        by_piece.append(bytes.substr(i, piece));
        take_all(by_piece, pieces);
    }
    must(pieces.requests == whole.requests);
    must(pieces.error == whole.error);
    return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    const std::size_t piece = size == 0 ? 1 : 1 + data[0] % 7;
    decoded(bytes, piece, Accepted::legacy_too);
    const auto whole = decoded(bytes, piece, Accepted::current);

    std::string again;
    for (const auto& request : whole.requests)
        encode(request, again);
    must(bytes.compare(0, again.size(), again) == 0);

    const auto difference = test::StoreBesideModel::first_difference(whole.requests);
    std::fputs(difference.c_str(), stderr);
    must(difference.empty());
    return 0;
}
