// tallyctl plan set and show: what a coordinator is told and asked.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "client/rpc_channel.h"
#include "control/plan/plan.h"
#include "control/plan_command.h"

namespace tally::control {

// The plan in an answer of plan.show, which has passed plan::validate(). An error says what is
// wrong with it.
Result<plan::Plan> plan_shown(const nlohmann::json& answer);

// `patience`: for each answer.
PlanAnswer answer_remote_plan(client::RpcChannel& channel, const PlanArguments& arguments,
                              bool as_json, Nanos patience);

}  // namespace tally::control
