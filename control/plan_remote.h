// tallyctl plan set and show: what a coordinator is told and asked.
#pragma once

#include "client/rpc_channel.h"
#include "control/plan_command.h"

namespace tally::control {

// `patience`: for each answer.
PlanAnswer answer_remote_plan(client::RpcChannel& channel, const PlanArguments& arguments,
                              bool as_json, Nanos patience);

}  // namespace tally::control
