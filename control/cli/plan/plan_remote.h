// tallyctl plan set and show: the commands that talk to a coordinator.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "control/cli/plan/plan_command.h"
#include "control/plan/model/plan.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

// The plan in an answer of plan.show, after plan::validate(). An error says what is wrong with it.
Result<plan::Plan> plan_shown(const nlohmann::json& answer);

// Runs set and show. timeout is the time limit for each answer.
PlanAnswer answer_remote_plan(rpc::RpcChannel& channel, const PlanArguments& arguments,
                              bool as_json, Nanos timeout);

}  // namespace tally::control
