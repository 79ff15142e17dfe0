// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/query.hpp"

namespace ddprun::wire {

std::string_view name(Query query) {
    switch (query) {
        case Query::validate: return "VALIDATE";
        case Query::set: return "SET";
        case Query::compare_set: return "COMPARE_SET";
        case Query::get: return "GET";
        case Query::add: return "ADD";
        case Query::check: return "CHECK";
        case Query::wait: return "WAIT";
        case Query::num_keys: return "GETNUMKEYS";
        case Query::delete_key: return "DELETE_KEY";
        case Query::append: return "APPEND";
        case Query::multi_get: return "MULTI_GET";
        case Query::multi_set: return "MULTI_SET";
        case Query::cancel_wait: return "CANCEL_WAIT";
        case Query::ping: return "PING";
        case Query::queue_push: return "QUEUE_PUSH";
        case Query::queue_pop: return "QUEUE_POP";
        case Query::queue_len: return "QUEUE_LEN";
        case Query::list_keys: return "LIST_KEYS";
        case Query::barrier: return "BARRIER";
    }
    return "?";
}

}  // namespace ddprun::wire
