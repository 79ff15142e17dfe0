// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/supervise/agent_data.hpp"

/// Facts about the round's store: whether it can be reached, and which clients wait in it.
namespace ddprun::agent {

void on_store_checked(AgentStep& step, AgentInterface::StoreChecked checked);
void on_store_waited(AgentStep& step, AgentInterface::StoreWaited waited);
void find_store_clients(AgentStep& step, int round);
void on_store_clients_found(AgentStep& step, control::StoreClients clients);

}  // namespace ddprun::agent
