// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/wire/message.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

/// At least one request of each kind, used by the tests of decoding, encoding and splitting.
inline std::vector<wire::Request> sample_requests() {
    using namespace wire;
    const std::string any_bytes{"\0\xff\n\"", 4};
    return {
        Set{"/k", "v"},
        Set{"", ""},
        Set{any_bytes, any_bytes},
        CompareSet{"/k", "old", "new"},
        CompareSet{"/k", "", ""},
        Get{"/k"},
        Add{"init/", 1},
        Add{"/c", -9'000'000'000'000},
        Check{{"/a", "/b"}},
        Check{{}},
        Wait{{"/a", "", "/c"}},
        NumKeys{},
        DeleteKey{"/k"},
        Append{"/k", "tail"},
        MultiGet{{"/a"}},
        MultiSet{{{"/a", "1"}, {"/b", ""}, {any_bytes, any_bytes}}},
        MultiSet{{}},
        CancelWait{},
        Ping{0xffffffff},
        QueuePush{"/q", "job"},
        QueuePop{"/q"},
        QueueLen{"/q"},
        ListKeys{},
        Barrier{"/bar", 64},
    };
}

/// Each kind of reply with a request it can be an answer to.
inline std::vector<std::pair<wire::Request, wire::Reply>> sample_replies() {
    using namespace wire;
    return {
        {Get{"/k"}, Value{"v"}},
        {Get{"/k"}, Value{""}},
        {CompareSet{"/k", "", "x"}, Value{"x"}},
        {MultiGet{{"/a", "/b"}}, Values{{"1", ""}}},
        {MultiGet{{}}, Values{{}}},
        {Add{"/c", 1}, Number{-3}},
        {NumKeys{}, Number{5}},
        {DeleteKey{"/k"}, Number{1}},
        {QueueLen{"/q"}, Number{0}},
        {Check{{"/k"}}, Checked{true}},
        {Check{{"/k"}}, Checked{false}},
        {Wait{{"/k"}}, StopWaiting{}},
        {Barrier{"/b", 2}, StopWaiting{}},
        {CancelWait{}, WaitCanceled{}},
        {Ping{7}, Pong{7}},
        {QueuePop{"/q"}, Popped{2, "job"}},
        {QueuePop{"/q"}, Popped{0, {}}},
        {ListKeys{}, Keys{{"/a", "init/"}}},
        {ListKeys{}, Keys{{}}},
    };
}

}  // namespace ddprun::test
